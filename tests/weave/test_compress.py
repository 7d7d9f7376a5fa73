"""One request on the facts, a strict reading, one repair, and three forms of episode."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from slate_lab import tokens
from slate_lab.models.chatbody import is_strict
from slate_lab.models.protocol import Capabilities
from slate_lab.records import Action, Episode, Fact, Reply, ToolCall, episode_id
from slate_lab.weave.compress import Plan, Rejection, Sections, plan_compression, plan_repair, read_compression
from tests.weave.corpus_actions import ANSWER, LOG, facts_of, read_log

LARGE = Capabilities(window=128_000, max_output=16_000)
SMALL = Capabilities(window=8_192, max_output=2_048)


def plan_of(facts: list[Fact], *, action: Action | None = None, final: str = ANSWER, **given: Any) -> Plan:
    """The plan of an action that left `facts`."""
    options: dict[str, Any] = {
        "status": "ok",
        "code": None,
        "capabilities": LARGE,
        "max_output_tokens": 4_096,
        "max_input_tokens": None,
        "count": tokens.count,
    }
    return plan_compression(action or read_log(), facts, final=final, **(options | given))


def answer(**changes: Any) -> str:
    """A good answer, with some sections changed or (None) left out."""
    record = {
        "intent": "Find why the error rate rose.",
        "actions_taken": ["Read logs/deploy.log."],
        "key_findings": [{"evidence": [LOG.splitlines()[3]], "text": "The pool ran out at max_connections=20."}],
        "open_issues": [],
        "handoff_notes": "Raise max_connections.",
    }
    return json.dumps({k: v for k, v in (record | changes).items() if v is not None})


def test_the_request_offers_no_tools_and_a_schema_whose_findings_choose_evidence_first():
    """Evidence is an enum over the facts' own lines, before the text in property order."""
    plan = plan_of(facts_of(LOG))
    schema = plan.request.schema
    assert plan.request.tools == ()
    assert schema is not None
    assert is_strict(schema)
    finding = schema["properties"]["key_findings"]["items"]
    assert list(finding["properties"]) == ["evidence", "text"]
    assert set(finding["properties"]["evidence"]["items"]["enum"]) <= {" ".join(x.split()) for x in LOG.splitlines()}
    assert list(schema["properties"]) == ["intent", "actions_taken", "key_findings", "open_issues", "handoff_notes"]


def test_hosted_schemas_carry_no_caps_and_small_ones_do():
    """Hosted strict modes refuse maxLength and maxItems; an embedded model's grammar needs them."""
    assert not {"maxLength", "maxItems"} & set(_keys(plan_of(facts_of(LOG)).request.schema))
    assert {"maxLength", "maxItems"} <= set(_keys(plan_of(facts_of(LOG), capabilities=SMALL).request.schema))


def _keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(k for v in value.values() for k in _keys(v))]
    return [k for v in value for k in _keys(v)] if isinstance(value, list) else []


def test_the_same_facts_give_the_same_request():
    """Prompts are reproducible, so recordings stay valid."""
    assert msgspec.json.encode(plan_of(facts_of(LOG)).request) == msgspec.json.encode(plan_of(facts_of(LOG)).request)


def test_without_the_capability_the_contract_is_words_and_labels():
    """No schema is sent; lines are numbered and named by label."""
    plan = plan_of(facts_of(LOG), capabilities=msgspec.structs.replace(LARGE, schema=False))
    text = plan.request.messages[-1].text
    assert plan.request.schema is None
    assert "E1: " in text
    said = "Here it is:\n```json\n" + answer(key_findings=[{"evidence": ["E1"], "text": "x"}]) + "\n```\nDone {ok}."
    sections = read_compression(Reply(text=said), plan)
    assert isinstance(sections, Sections)
    assert sections.findings[0].evidence == (plan.choices[0],)


def test_evidence_points_at_the_line_it_stands_in():
    """What a model chose becomes a pointer: fact, line, and the line as it stood."""
    sections = read_compression(Reply(text=answer()), plan_of(facts_of(LOG)))
    assert isinstance(sections, Sections)
    (found,) = sections.findings[0].evidence
    assert (found.fact, found.line, found.quote) == (1, 4, LOG.splitlines()[3])


def test_evidence_that_is_no_choice_is_dropped_and_counted():
    """A finding stays, without a quote that nobody can open."""
    said = answer(key_findings=[{"evidence": ["never logged", LOG.splitlines()[2]], "text": "x"}])
    sections = read_compression(Reply(text=said), plan_of(facts_of(LOG)))
    assert isinstance(sections, Sections)
    assert sections.dropped == 1
    assert [e.line for e in sections.findings[0].evidence] == [3]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(text="", calls=(ToolCall(id="c", name="read"),), finish="tool_calls"), "tool_call"),
        (Reply(text="  \n"), "empty"),
        (Reply(text=answer(), finish="length"), "cut"),
        (Reply(text=answer(), finish="content_filter"), "filtered"),
        (Reply(text="I cannot."), "not_json"),
        (Reply(text=answer()[:-5]), "not_json"),
        (Reply(text='["intent"]'), "not_json"),
        (Reply(text=answer(handoff_notes=None)), "invalid"),
        (Reply(text=answer(actions_taken="Read it.")), "invalid"),
        (Reply(text=answer(intent=" ")), "invalid"),
        (Reply(text=answer(intent=7)), "invalid"),
        (Reply(text=answer(actions_taken=[], key_findings=[], handoff_notes="")), "invalid"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_answer_that_cannot_be_used_is_rejected_with_a_word(reply: Reply, reason: str):
    """Nothing is guessed from a broken answer."""
    rejection = read_compression(reply, plan_of(facts_of(LOG)))
    assert isinstance(rejection, Rejection)
    assert rejection.reason == reason


def test_the_repair_repeats_the_question_and_says_what_was_wrong():
    """One more turn, with the same schema; an empty answer leaves no empty turn behind."""
    plan = plan_of(facts_of(LOG))
    reply = Reply(text="I cannot.")
    rejection = read_compression(reply, plan)
    assert isinstance(rejection, Rejection)
    again = plan_repair(plan, reply, rejection)
    assert [m.role for m in again.messages] == ["system", "user", "assistant", "user"]
    assert rejection.detail in again.messages[-1].text
    assert again.schema == plan.request.schema
    empty = plan_repair(plan, Reply(text=""), Rejection("empty", "it was empty"))
    assert [m.role for m in empty.messages] == ["system", "user"]
    assert "it was empty" in empty.messages[-1].text


def test_the_episode_id_is_of_its_thread():
    """A base episode keeps its identity through assembly."""
    assert episode_id("t3") == "t3.e1"
    assert Episode(id="t3.e1", thread="t3").id == "t3.e1"

"""Facts after the work: within configurable caps, one mark for what is left out, whole in slices, measured always."""

from __future__ import annotations

import threading

import pytest

import slate_lab as sl
from slate_lab.records import Request
from slate_lab.verbs.parser import parse
from slate_lab.verbs.run import run
from slate_lab.weave.cite import cite

CAPS = {"worker": {"facts": {"characters": 100, "total": 250}}}


@pytest.fixture
def reply():
    """A reply with words and one call of a tool that does not exist."""
    from slate_lab.records import Reply, ToolCall

    def make(text: str, n: int) -> Reply:
        return Reply(text=text, calls=(ToolCall(id=f"c{n}", name="none", arguments={"n": n}),), finish="tool_calls")

    return make


def test_caps_come_from_the_configuration_and_one_mark_says_what_is_left_out(open_lab, reply):
    """The newest part of a long fact, the newest facts of many; the compressor reads one mark with the whole size."""
    prompts: list[str] = []

    def answer(request: Request):
        if request.schema:
            prompts.append(request.messages[-1].text)
            return "{}"
        n = sum(m.role == "assistant" for m in request.messages)
        return reply(f"turn {n} " + "x" * 200, n) if n < 3 else "the end"

    lab = open_lab(answer, **CAPS)
    episode = lab.thread("x", type="researcher")
    facts = list(episode.facts)
    assert all(len(f.text) <= 100 for f in facts)
    assert sum(len(f.text) for f in facts) <= 250
    assert facts[-1].text == "the end"
    assert episode.omitted > 300
    assert prompts[0].count("left out") == 1
    assert f"{episode.omitted:,} characters of earlier facts left out" in prompts[0]
    assert "earlier facts left out" in cite("t1", facts, room=None, nonce="n")
    assert lab.frames.threads()["facts_omitted"][0] == episode.omitted


def test_facts_are_read_in_slices_after_the_compression(open_lab):
    """`episode.facts[3:7]` and `%slate facts t1.e1[3:7]` give the same, whole, without reading the others."""
    calls = [{"tool": "read", "args": {"path": "notes/a.md", "offset": n, "limit": 1}} for n in (1, 2, 3)]
    lab = open_lab([calls, [{"tool": "ls", "args": {}}, {"tool": "find", "args": {}}], "done"])
    lab.thread("x", type="researcher")
    episode = lab.episode("t1")
    assert [f.n for f in episode.facts[3:7]] == [4, 5, 6]
    assert [f.n for f in episode.facts[-2:]] == [5, 6]
    assert episode.facts[0].text.startswith("deploy 4.2.1")
    for text, wanted in (("t1.e1[3:7]", episode.facts[3:7]), ("t1[0]", episode.facts[0:1]), ("t1.e1", episode.facts)):
        assert list(run(parse(["facts", text], "magic"), lab)) == list(wanted)


FORMS = {
    "compressed": ({}, "compressed"),
    "uncompressed": ({"fails": True}, "uncompressed"),
    "fixed": ({"config": {"compressor": {"mode": "fixed"}}}, "fixed"),
}


@pytest.mark.parametrize(("how", "form"), FORMS.values(), ids=FORMS)
def test_every_form_carries_ratio_loss_and_invention(open_lab, how, form):
    """Sizes, what was lost and what was invented stand on each episode and in the frame."""
    record = (
        '{"intent": "find it", "actions_taken": ["read"], "key_findings": [{"evidence": [], "text": "99.9 % in q.md"}],'
        ' "open_issues": [], "handoff_notes": "go on"}'
    )

    def answer(request: Request):
        if request.schema:
            return sl.errors.ModelError("billing", "no credit") if how.get("fails") else record
        done = any(m.role == "tool" for m in request.messages)
        return "It was deploy 4.2.1." if done else {"tool": "read", "args": {"path": "notes/a.md"}}

    lab = open_lab(answer, **how.get("config", {}))
    episode = lab.thread("x", type="researcher")
    assert episode.compression == form
    assert episode.facts_tokens
    assert episode.episode_tokens
    assert episode.ratio == episode.facts_tokens / episode.episode_tokens
    assert episode.lost_count >= len(episode.lost) > 0
    assert ("99.9" in " ".join(episode.invented)) == (form == "compressed")
    row = lab.frames.episodes().iloc[0]
    assert (row["lost"], row["invented"]) == (episode.lost_count, len(episode.invented))
    assert row["ratio"] == pytest.approx(episode.ratio)


def test_facts_of_a_thread_that_still_runs_are_in_the_store_already(open_lab):
    """Captured as they happen: another reader sees them before the thread has ended."""
    reached, release = threading.Event(), threading.Event()

    async def answer(request: Request):
        import asyncio

        if request.schema:
            return "{}"
        if len(request.messages) == 2:
            return {"tool": "read", "args": {"path": "notes/a.md"}}
        reached.set()
        while not release.is_set():
            await asyncio.sleep(0.002)
        return "done"

    lab = open_lab(answer)
    handle = lab.dispatch("x", type="researcher")
    assert reached.wait(5)
    assert [f.tool for f in lab.facts("t1")] == ["read"]
    release.set()
    assert handle.result(5).fact_count == 2

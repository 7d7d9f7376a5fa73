"""Admission: every step of the page in its order, each with its code, all problems at once, nothing stored."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap

import pytest

import slate_lab as sl
from slate_lab.errors import ConfigError, DispatchError
from slate_lab.records import Action, Request
from slate_lab.weave.perspectives import PERSPECTIVES
from slate_lab.weave.retired import RETIRED

FILES = {"review/security.md": "Ask who may call it.", "review/prose.md": "  \n"}


@pytest.fixture
def lab(open_lab, project):
    """A lab with one episode, one action that runs and claims `src/**`, and two review files, one of them empty."""
    for path, text in FILES.items():
        (project / path).parent.mkdir(exist_ok=True)
        (project / path).write_text(text)

    async def answer(request: Request) -> str:
        if request.messages[-1].text == "holds":
            await asyncio.sleep(60)
        return "{}" if request.schema else "found"

    lab = open_lab(answer)
    lab.thread("First.", type="query")
    lab.dispatch("holds", type="query", claims=["src/**"])
    return lab


STEPS = {
    "retired argument names (each with its replacement)": ({"thread_type": "query"}, "retired_argument", "write type"),
    "review perspectives": ({"review_perspectives": ["securty"]}, "unknown_perspective", "did you mean security"),
    "review perspectives, one twice": ({"review_perspectives": ["security"] * 2}, "duplicate_perspective", "twice"),
    "task": ({"task": " \n"}, "blank_task", "say what the worker is to do"),
    "track as canonical decimals": ({"track": "1.02"}, "bad_track", "1.2"),
    "reason at most 200 characters": ({"reason": "r" * 201}, "long_reason", "at most 200"),
    "logical model known": ({"model": "locl"}, "unknown_model", "did you mean local"),
    "type": ({"type": "resercher"}, "unknown_type", "did you mean researcher"),
    "threads to come after are known": ({"after": ["t77"]}, "unknown_thread", "t77"),
    "duplicates to come after": ({"after": ["t1", "t1"]}, "duplicate_after", "t1"),
    "context ids known (near matches)": ({"context": ["t1.e2"]}, "unknown_context", r"near it are t1\.e1"),
    "at most 32 context ids": ({"context": [f"t{i}.e1" for i in range(2, 40)]}, "too_much_context", "at most 32"),
    "threads whose facts are cited are known": ({"facts_of": ["t77"]}, "unknown_thread", "t77"),
    "slate targets": ({"slates": ["Nope/facts"]}, "unknown_slate", "Nope"),
    "tools known": ({"tools": ["raed"]}, "unknown_tool", "did you mean read"),
    "tools of the type": ({"type": "researcher", "tools": ["write"]}, "tool_not_allowed", "write"),
    "required review files present": ({"review_perspectives": ["data-loss"]}, "missing_review_file", "data-loss.md"),
    "required review files not empty": ({"review_perspectives": ["prose"]}, "empty_review_file", "prose.md"),
    "claims inside the workspace": ({"claims": ["../x"]}, "bad_claim", "leads out"),
    "claims that meet a running action's": ({"claims": ["src/a.py"]}, "claim_held", r"t2 \((queued|running), here\)"),
    "limits": ({"limits": {"turns": 0}}, "bad_limit", "above 0"),
    "a value of the wrong type": ({"model": 3}, "bad_argument", "model"),
}


@pytest.mark.parametrize(("asked", "code", "words"), STEPS.values(), ids=STEPS)
def test_each_step_refuses_with_its_code_and_says_what_to_do(lab, asked, code, words):
    """A refusal is one line with a code; no thread exists after it."""
    with pytest.raises(DispatchError, match=words) as caught:
        lab.dispatch(**{"task": "x", **asked})
    assert caught.value.code == code
    assert "\n" not in str(caught.value)
    assert len(lab.threads()) == 2


EVERYTHING = {
    "task": "",
    "thread_type": "query",
    "review_perspectives": ["securty", "prose"],
    "track": "01",
    "reason": "r" * 201,
    "model": "nope",
    "type": "nope",
    "after": ["t99"],
    "context": ["t9.e1"],
    "slates": ["No"],
    "claims": ["src/b.py"],
    "limits": {"turns": 0},
}
ORDER = [
    "retired_argument",
    "unknown_perspective",
    "blank_task",
    "bad_track",
    "long_reason",
    "unknown_model",
    "unknown_type",
    "unknown_thread",
    "unknown_context",
    "unknown_slate",
    "empty_review_file",
    "claim_held",
    "bad_limit",
]


def test_every_problem_is_listed_in_the_order_of_the_steps(lab):
    """Thirteen things are wrong, thirteen codes come back, in order, from one refusal."""
    with pytest.raises(DispatchError) as caught:
        lab.dispatch(**EVERYTHING)
    assert list(caught.value.codes) == ORDER
    assert str(caught.value).startswith("13 problems: ")


@pytest.mark.parametrize("name", sorted(RETIRED))
def test_a_retired_name_is_told_its_replacement(name):
    """The replacement is an option that exists."""
    replacement = RETIRED[name].split(" ")[0].split("=")[0]
    assert replacement in Action.__struct_fields__
    assert name not in Action.__struct_fields__


def test_a_closed_lab_refuses_and_still_says_what_else_is_wrong(open_lab):
    """Lab open: checked after task and reason, before anything that needs the store."""
    lab = open_lab()
    lab.close()
    with pytest.raises(DispatchError) as caught:
        lab.dispatch("", context=["t9.e1"])
    assert caught.value.codes == ("blank_task", "lab_closed")


def test_without_a_valid_policy_no_lab_opens_and_nothing_is_dispatched(project):
    """Policy present and valid: a broken definition, or none at all, blocks at the door with its place."""
    for models in ({"replace": {"nobody": {"costRating": 3}}}, {"include": []}):
        with pytest.raises(ConfigError):
            sl.Lab.open(project, store=":memory:", config={"models": models}, env={})


def test_credentials_and_effort_are_checked_before_a_thread_exists(project):
    """Route permitted, credentials present, effort supported: the variable to set is named."""
    with sl.Lab.open(project, store=":memory:", env={}) as lab:
        with pytest.raises(DispatchError, match="export OPENAI_API_KEY") as caught:
            lab.dispatch("x", model="gpt-luna")
        assert caught.value.code == "missing_key"
    bad = {
        "models": {"replace": {"gpt-luna": {"effort": "max", "capabilityRating": 60, "costRating": 20}}},
        "providers": {"openai": {"models": {"gpt-6-luna": {"efforts": ["low"]}}}},
    }
    with sl.Lab.open(project, store=":memory:", config=bad, env={"OPENAI_API_KEY": "k"}) as lab:
        with pytest.raises(DispatchError) as caught:
            lab.dispatch("x", model="gpt-luna")
        assert caught.value.code == "effort_unsupported"
        assert lab.threads() == []


def test_a_model_that_dispatches_must_name_a_model_and_a_reason(lab):
    """Optional for a person, required of an orchestrator's model; control characters do not count as a reason."""
    for action in (Action(task="x"), Action(task="x", model="", reason="\x1b\x00 ")):
        with pytest.raises(DispatchError) as caught:
            lab._rooms.dispatcher.dispatch(action, by="model")
        assert "reason_required" in caught.value.codes
    with pytest.raises(DispatchError) as caught:
        lab._rooms.dispatcher.dispatch(Action(task="x", reason="because"), by="model")
    assert caught.value.codes == ("model_required",)
    good = lab._rooms.dispatcher.dispatch(Action(task="x", type="query", model="local", reason="cheap"), by="model")
    assert good.result(5).reason == "cheap"


def test_control_characters_are_stripped_from_the_reason_before_it_is_measured(lab):
    """200 characters that show, whatever else stands between them."""
    episode = lab.thread("x", type="query", reason="\x1b[31m" + "r\x00" * 190)
    assert episode.reason == "[31m" + "r" * 190


def test_duplicates_of_context_are_dropped_keeping_the_first(lab):
    """At most 32, duplicates dropped, order kept."""
    lab.thread("Second.", type="query")
    episode = lab.thread("x", type="query", context=["t3.e1", "t1.e1", "t3.e1"])
    assert [id for id, _ in episode.context] == ["t3.e1", "t1.e1"]


def test_a_perspective_s_text_joins_the_brief_of_the_reviewer(open_lab, project):
    """The project's file is read at admission and is a part of the brief with its cost."""
    (project / "review").mkdir()
    (project / "review" / "security.md").write_text("Ask who may call it.")
    model = sl.ScriptedModel(["reviewed"])
    lab = open_lab(model)
    lab.thread("x", type="reviewer", review_perspectives="security", track="1.2")
    assert "Review perspective security:\nAsk who may call it." in model.requests[0].messages[0].text
    assert "review:security" in [part["source"] for part in lab.threads()[0].brief]


def test_a_review_file_that_leads_out_of_the_project_is_not_there(open_lab, project):
    """A link out of the project gives no text to a worker."""
    (project / "review").mkdir()
    (project.parent / "secret.md").write_text("secret")
    (project / "review" / "security.md").symlink_to(project.parent / "secret.md")
    with pytest.raises(DispatchError) as caught:
        open_lab().dispatch("x", type="reviewer", review_perspectives=["security"])
    assert caught.value.code == "missing_review_file"


def test_there_are_eleven_perspectives():
    """One table names them all."""
    assert len(set(PERSPECTIVES)) == 11


def test_claims_end_with_their_action_and_do_not_bar_what_comes_after_it(open_lab):
    """A holder that has settled holds nothing; one that must end first cannot be in the way."""
    lab = open_lab(lambda r: "{}" if r.schema else "done")
    lab.thread("a", type="query", claims=["notes/**"])
    first = lab.dispatch("b", type="query", claims=["notes/a.md"])
    second = lab.dispatch("c", type="query", claims=["notes"], after=[first.id])
    third = lab.dispatch("d", type="query", claims=["notes/*.md"], after=[second.id])
    assert third.result(5).status == "ok"


OTHER_KERNEL = """
import asyncio, sys
import slate_lab as sl
async def answer(request):
    print("running", flush=True)
    await asyncio.sleep(600)
with sl.Lab.open(sys.argv[1], models=sl.ScriptedModel(answer)) as lab:
    lab.dispatch("x", type="query", claims=["src/**"])
    sys.stdin.read()
"""


def test_a_claim_of_another_kernel_is_refused_naming_the_holder(project):
    """Two kernels on one project see each other's claims; when the holder's kernel has ended they are free."""
    code = textwrap.dedent(OTHER_KERNEL).replace("sys.stdin.read()", "sys.stdin.read(); lab.cancel()")
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(project)], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "running\n"
    with sl.Lab.open(project, models=sl.ScriptedModel(lambda r: "{}" if r.schema else "done")) as lab:
        with pytest.raises(DispatchError, match=r"t1 \(running, in another kernel\)") as caught:
            lab.dispatch("y", type="query", claims=["src/a.py"])
        assert caught.value.code == "claim_held"
        other.communicate("", timeout=20)
        assert lab.thread("y", type="query", claims=["src/a.py"]).status == "ok"

"""Memory where threads meet it: as context of a brief, and through tools within what a type was granted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import slate_lab as sl
from slate_lab.errors import ConfigError, DispatchError
from slate_lab.records import Message, Reply, ToolCall

SLATES: list[dict[str, Any]] = [
    {
        "title": "Project Memory",
        "folders": [
            {
                "name": "facts",
                "tokenLimit": 60,
                "evictionPolicy": "LRU",
                "metatags": [{"name": "kind", "type": "string"}],
                "files": [{"name": "core.md", "init": "The queue backed up at 09:20."}],
            },
            {"name": "rules", "tokenLimit": 50, "access": "read", "files": [{"name": "r.md", "init": "Cite sources."}]},
            {"name": "small", "tokenLimit": 5, "evictionPolicy": "reject"},
        ],
    }
]
FACTS = {"slate": "Project Memory", "folder": "facts"}
Open = Callable[..., sl.Lab]


def call(name: str, **arguments: Any) -> Reply:
    """A model's wish to use a tool."""
    return Reply(text="", calls=(ToolCall(id="c1", name=name, arguments=arguments),), finish="tool_calls")


def typed(**grants: Any) -> dict[str, Any]:
    """A configuration with a type `keeper`."""
    return {"slates": SLATES, "threadTypes": {"keeper": {"tools": [], **grants}}, "compressor": {"mode": "fixed"}}


def results(lab: sl.Lab, script: list[Any]) -> list[tuple[bool, str]]:
    """What the tools answered in a thread of type `keeper`."""
    episode = lab.thread("keep", type="keeper")
    return [(fact.ok, fact.text) for fact in episode.facts if fact.kind == "tool"]


def test_content_of_a_slate_joins_the_brief_as_data(open_lab: Open) -> None:
    """The content of each target stands fenced before the task; its tokens are a row of it."""
    asked: list[list[Message]] = []

    def answer(request: Any) -> str:
        asked.append(list(request.messages))
        return "noted"

    lab = open_lab(sl.ScriptedModel(answer), slates=SLATES, compressor={"mode": "fixed"})
    episode = lab.thread("what is known?", slates=("Project Memory/facts", "Project Memory/rules/r.md"))
    user = asked[0][1].text or ""
    assert user.endswith("\n\nwhat is known?")
    assert "slate Project Memory/facts\n## core.md\nThe queue backed up at 09:20.\n" in user
    assert user.index("<<<") < user.index("Cite sources.") < user.index("what is known?")
    brief = {part["source"]: part["tokens"] for part in lab.threads()[0].brief}
    assert brief["slate:Project Memory/facts"] > 5
    assert brief["slate:Project Memory/rules/r.md"] > 3
    assert episode.slates == ("Project Memory/facts", "Project Memory/rules/r.md")


def test_a_brief_touches_what_it_carried_once_it_starts(open_lab: Open) -> None:
    """A thread that was given a folder has read its blocks: the ledger says which thread."""
    lab = open_lab(["noted"], slates=SLATES, compressor={"mode": "fixed"})
    lab.thread("look", slates=("Project Memory/facts",))
    _, rows = lab.store.query("SELECT kind, cause, text FROM ledger_rows WHERE kind = 'read'")
    assert rows == [("read", "t1", "1")]


def test_a_brief_touches_exactly_the_blocks_it_holds(open_lab: Open) -> None:
    """What is written while a thread waits for its turn is not in its brief, so it is not read by it either."""
    go = threading.Event()

    def answer(request: Any) -> str:
        go.wait(10)
        return "noted"

    lab = open_lab(sl.ScriptedModel(answer), slates=SLATES, compressor={"mode": "fixed"}, maxConcurrent=1)
    first = lab.dispatch("wait", type="query")
    second = lab.dispatch("look", type="query", slates=("Project Memory/facts",))
    lab.write("Project Memory/facts/core.md", "Written in between.")
    go.set()
    first.result()
    second.result()
    _, rows = lab.store.query("SELECT cause, text FROM ledger_rows WHERE kind = 'read'")
    assert rows == [(second.id, "1")]
    lab.write("Project Memory/facts/core.md", "x " * 45)
    assert "09:20" in lab.peek("Project Memory/facts")  # it was in use after the other was written


@pytest.mark.parametrize(
    ("target", "code", "says"),
    [
        ("Project Memry/facts", "unknown_slate", "did you mean Project Memory?"),
        ("Project Memory/fact", "unknown_folder", "did you mean facts?"),
        ("Project Memory/facts/x.md", "not_found", "there is no file 'x.md'"),
        ("Project Memory", "bad_target", "names no folder"),
    ],
)
def test_a_target_that_leads_nowhere_is_refused_at_admission(open_lab: Open, target: str, code: str, says: str) -> None:
    """No thread exists, and the near names are listed."""
    lab = open_lab(["noted"], slates=SLATES)
    with pytest.raises(DispatchError) as caught:
        lab.thread("look", slates=(target,))
    assert caught.value.codes == (code,)
    assert says in str(caught.value)
    assert lab.threads() == []


def test_a_worker_reads_writes_and_searches_what_its_type_was_granted(open_lab: Open) -> None:
    """The tools come with the grants; a write says what the folder holds; its cause is the thread."""
    script = [
        call("slate_read", target="Project Memory/facts/core.md"),
        call("slate_write", target="Project Memory/facts/log.md", text="workers restarted", tags={"kind": "event"}),
        call("slate_search", text="restart*"),
        call("slate_read", target="Project Memory/facts", where={"kind": "event"}),
        "done",
    ]
    lab = open_lab(script, **typed(reads=[FACTS], writes=[FACTS]))
    answers = results(lab, script)
    assert [ok for ok, _ in answers] == [True] * 4
    assert answers[0][1] == "The queue backed up at 09:20."
    assert answers[1][1].startswith("written Project Memory/facts/log.md: the folder holds ")
    assert "workers [restarted]" in answers[2][1]
    assert answers[3][1] == "## log.md\nworkers restarted"
    _, rows = lab.store.query("SELECT kind, cause FROM ledger_rows WHERE cause = 't1' ORDER BY seq")
    assert rows == [("read", "t1"), ("write", "t1"), ("read", "t1")]


def test_what_was_not_granted_is_refused(open_lab: Open) -> None:
    """A type reads and writes only its targets, and only blocks with the tags of its grant."""
    script = [
        call("slate_read", target="Project Memory/rules/r.md"),
        call("slate_write", target="Project Memory/facts/log.md", text="x"),
        call("slate_write", target="Project Memory/facts/own.md", text="mine"),
        call("slate_read", target="Project Memory/facts"),
        call("slate_search", text="queue"),
        "done",
    ]
    tagged = {**FACTS, "where": {"kind": "a"}}
    answers = results(open_lab(script, **typed(reads=[tagged], writes=[{**tagged, "file": "own.md"}])), script)
    assert [ok for ok, _ in answers] == [False, False, True, True, True]
    assert "is not granted: this type of thread may read Project Memory/facts" in answers[0][1]
    assert "may write Project Memory/facts/own.md" in answers[1][1]
    assert answers[3][1] == "## own.md\nmine"
    assert answers[4][1] == "(nothing found)"


def test_a_refused_write_of_a_worker_is_told_and_noted(open_lab: Open) -> None:
    """The worker goes on; the ledger has the refusal with the thread as its cause."""
    script = [call("slate_write", target="Project Memory/small/a.md", text="one two three four five six"), "done"]
    lab = open_lab(script, **typed(writes=[{"slate": "Project Memory", "folder": "small"}]))
    ((ok, said),) = results(lab, script)
    assert not ok
    assert "refused (block_too_large)" in said
    _, rows = lab.store.query("SELECT kind, code, cause, folder FROM ledger_rows WHERE kind = 'refuse'")
    assert rows == [("refuse", "block_too_large", "t1", "small")]


def test_types_without_grants_have_no_memory(open_lab: Open) -> None:
    """A type that was granted nothing is offered no tool of memory."""
    lab = open_lab(["noted"], slates=SLATES)
    with pytest.raises(DispatchError) as caught:
        lab.thread("look", tools=("slate_read",))
    assert caught.value.codes == ("tool_not_allowed",)


def test_a_grant_that_cannot_hold_is_told_at_load(project: Path) -> None:
    """Writing to a folder that can only be read is an error of the configuration."""
    with pytest.raises(ConfigError, match="can be read but not written"):
        sl.Lab.open(project, store=":memory:", config=typed(writes=[{"slate": "Project Memory", "folder": "rules"}]))

"""A model or a person that wants too much at once: bounded, told, and nothing else of the lab suffers."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal

import pytest

import slate_lab as sl
from slate_lab.errors import ConfigError, DispatchError, LabError
from slate_lab.records import Reply, ToolCall
from slate_lab.weave.handle import MAX_STEER
from slate_lab.weave.tools.sandbox import find_sandbox
from slate_lab.weave.worker import MOST_CALLS


def test_a_reply_of_a_thousand_calls_runs_the_first_and_tells_the_rest(open_lab):
    """Every call has its result, in order; those beyond the bound say that they were not run and are no facts."""
    calls = [{"tool": "read", "args": {"path": "notes/a.md", "offset": 1 + i % 3}} for i in range(1_000)]
    model = sl.ScriptedModel([calls, "done"])
    episode = open_lab(model, compressor={"mode": "fixed"}).thread("x", type="researcher")
    results = [m for m in model.requests[1].messages if m.role == "tool"]
    assert [m.call_id for m in results] == [c.id for c in model.requests[1].messages[-len(results) - 1].calls]
    assert len(results) == 1_000
    assert results[MOST_CALLS].text == f"error: not run: make at most {MOST_CALLS} calls at once"
    assert episode.status == "ok"
    assert len(episode.facts) == MOST_CALLS + 1


def test_calls_with_the_same_id_or_none_are_told_apart(open_lab):
    """Each result belongs to one call, as every provider demands."""
    calls = tuple(ToolCall(id=id, name="ls", arguments={}) for id in ("a", "a", "", "", "a"))
    model = sl.ScriptedModel([Reply(text="", calls=calls, finish="tool_calls"), "done"])
    assert open_lab(model, compressor={"mode": "fixed"}).thread("x").status == "ok"
    ids = [m.call_id for m in model.requests[1].messages if m.role == "tool"]
    assert len(set(ids)) == 5
    assert all(ids)


@pytest.mark.parametrize("usd", ["NaN", "sNaN", "-Infinity", "Infinity"])
def test_a_cap_that_is_no_number_is_refused(open_lab, usd):
    """With the code of a bad limit, never a raw error."""
    with pytest.raises(DispatchError, match="must be a number above 0") as caught:
        open_lab(["x"]).thread("x", limits={"usd": Decimal(usd)})
    assert caught.value.codes == ("bad_limit",)


def test_a_steering_message_is_bounded(open_lab):
    """A book is refused with its size, and the worker goes on."""
    go = threading.Event()

    async def answer(request):
        while not go.is_set():
            await asyncio.sleep(0.005)
        return "done"

    lab = open_lab(sl.ScriptedModel(answer), compressor={"mode": "fixed"})
    handle = lab.dispatch("x", type="query")
    with pytest.raises(LabError, match=f"give at most {MAX_STEER}"):
        lab.steer(handle.id, "x" * (MAX_STEER + 1))
    go.set()
    assert handle.result(10).status == "ok"


def test_a_store_in_the_workspace_is_out_of_reach_of_workers(project):
    """Beside the notes it is neither listed, read nor written, by no tool; in a folder of it a store is refused."""
    damage = "echo x > lab.db; echo x > lab.db-wal; rm -f lab.db; cat lab.db"
    calls = [
        {"tool": "read", "args": {"path": "lab.db"}},
        {"tool": "write", "args": {"path": "LAB.DB-wal", "text": "x"}},
        {"tool": "bash", "args": {"command": damage if find_sandbox("auto").bwrap else "true"}},
        "done",
    ]
    where = project / "lab.db"
    with sl.Lab.open(project, store=where, models=sl.ScriptedModel(calls), env={}) as lab:
        facts = lab.thread("x").facts
        assert "is the lab's own store" in facts[0].text
        assert "is the lab's own store" in facts[1].text
        assert "SQLite" not in facts[2].text
    with sl.Lab.open(project, store=where, models=sl.ScriptedModel([]), env={}) as lab:
        assert [thread.state for thread in lab.threads()] == ["successful"]
    with pytest.raises(ConfigError, match=r"put it in \.slate or out of the workspace"):
        sl.Lab.open(project, store=project / "notes" / "lab.db", env={})

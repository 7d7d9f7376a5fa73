"""The outcome table, row by row, from the door to the store: how the thread ends, its episode, what the caller gets."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import slate_lab as sl
from slate_lab.errors import DispatchError, LabError, ModelError, StoreError
from slate_lab.records import Episode, Reply, Request
from slate_lab.weave.toolbox import Toolbox
from slate_lab.weave.tools.kit import Kit, make_tool
from slate_lab.weave.units import Crew, Resolution
from tests.weave.engine import Engine

READ_A = {"tool": "read", "args": {"path": "notes/a.md"}}


class End(NamedTuple):
    """What a row promises: the thread's state and code, the form of the episode, the code of the caller's error."""

    state: str
    code: str | None
    form: str | None
    error: str | None = None


def turns(*items: Any, compressor: Any = None) -> Callable[[Request], Any]:
    """Answers the worker's turns in order; the compressor gets its own answer, by default a valid one."""
    model = sl.ScriptedModel(list(items))

    async def answer(request: Request) -> Any:
        if request.schema and compressor is not None:
            return await compressor(request) if asyncio.iscoroutinefunction(compressor) else compressor
        return await model.reply(request)

    return answer


def hangs_after(*items: Any, reached: threading.Event) -> Callable[[Request], Any]:
    """Answers the worker's turns in order and then never again; the compressor is answered."""
    left = list(items)

    async def answer(request: Request) -> Any:
        if request.schema:
            return await sl.ScriptedModel([]).reply(request)
        if left:
            return left.pop(0)
        reached.set()
        await asyncio.sleep(60)

    return answer


CUT = Reply(text="half an ans", finish="length")
ENDED = {
    "worker ends normally": (turns(READ_A, "found"), {}, End("successful", None, "compressed")),
    "the same, stopped by the provider's length limit": (
        turns(READ_A, CUT),
        {},
        End("successful", None, "compressed"),
    ),
    "ends normally, compression fails": (
        turns(READ_A, "found", compressor=ModelError("billing", "no credit")),
        {},
        End("successful", None, "uncompressed"),
    ),
    "model error after recovery is exhausted, some facts": (
        turns(READ_A, ModelError("auth", "bad key")),
        {},
        End("failed", "model_auth", "compressed"),
    ),
    "model error after recovery is exhausted, no fact": (
        turns(ModelError("auth", "bad key")),
        {},
        End("failed", "model_auth", "fixed"),
    ),
    "no final message, some facts": (turns(READ_A, " "), {}, End("failed", "no_final_message", "compressed")),
    "no final message, no fact": (turns(""), {}, End("failed", "no_final_message", "fixed")),
    "a limit was hit, some facts": (
        turns(READ_A, "x"),
        {"limits": {"tokens": 1}},
        End("failed", "limit_tokens", "compressed"),
    ),
    "a limit was hit, no fact": (
        turns([READ_A, READ_A]),
        {"limits": {"tool_calls": 1}},
        End("failed", "limit_tool_calls", "fixed"),
    ),
}


@pytest.mark.parametrize(("script", "asked", "end"), ENDED.values(), ids=ENDED)
def test_the_action_ran_and_the_caller_gets_an_episode(open_lab, script, asked, end):
    """State, code and form as the row says; one record, the episode is in the store, the facts are kept."""
    lab = open_lab(script)
    episode = lab.thread("x", type="researcher", **asked)
    assert ended(lab, "t1", episode) == end
    assert episode.truncated == lab.threads()[0].truncated == ("half" in str([f.text for f in episode.facts]))
    assert len(list(episode.sections)) == 6
    assert episode.facts_tokens is not None
    assert episode.episode_tokens


def ended(lab: sl.Lab, id: str, got: Episode | str) -> End:
    """How the thread ended, as the store and the caller see it; both must agree."""
    thread = lab.store.threads.get(id)
    stored = lab.store.episodes.get(f"{id}.e1")
    assert thread is not None
    if isinstance(got, Episode):
        assert stored == got
        assert (got.status == "ok") == (thread.state == "successful")
        assert got.code == thread.code
        return End(thread.state, thread.code, got.compression)
    assert stored is None
    return End(thread.state, thread.code, None, got)


def caller(handle: sl.Handle) -> Episode | str:
    """What the caller gets: an episode, or the code of an error."""
    try:
        return handle.result(10)
    except DispatchError as e:
        return e.code


def test_refused_at_admission(open_lab):
    """Never existed; no episode; the caller gets an error."""
    lab = open_lab()
    with pytest.raises(DispatchError):
        lab.thread("")
    assert (lab.threads(), lab.episodes(), lab.calls()) == ([], [], [])


def test_cancelled_while_queued(open_lab):
    """Cancelled at once, its place is freed, no episode, an error."""
    reached = threading.Event()
    lab = open_lab(hangs_after(reached=reached), maxConcurrent=1)
    lab.dispatch("runs", type="query")
    waits, next_one = lab.dispatch("waits", type="query"), lab.dispatch("next", type="query")
    assert reached.wait(5)
    waits.cancel()
    assert ended(lab, "t2", caller(waits)) == End("cancelled", "cancelled", None, "cancelled")
    assert next_one.position == 1


@pytest.mark.parametrize("facts", [True, False], ids=["there are facts", "no facts"])
async def test_start_up_of_a_worker_extension_fails(project, facts):
    """Failed before the first call, compressed if there are facts, else fixed form; the caller gets the episode."""

    class Failing(Crew):
        async def start(self) -> None:
            if facts:
                (job,) = engine.dispatcher.jobs()
                job.found.text("the unit said this while it started")
            raise LabError("the unit grep-plus could not start: no index", code="startup_failed")

    class Box(Toolbox):
        def crew(self, kit: Kit, admitted: Any) -> Crew:
            none: dict[str, Any] = {"providers": {}, "granted": {}, "taken": (), "live": set()}
            return Failing(Resolution(), kit=kit, late=lambda name, reads: False, **none)

    engine = Engine(project, sl.ScriptedModel(["never"]), toolbox=Box)
    episode = await engine.dispatch("x", type="researcher")
    thread = engine.store.threads.get("t1")
    assert thread is not None
    assert (thread.state, thread.code, episode.status) == ("failed", "startup_failed", "failed")
    assert episode.compression == ("compressed" if facts else "fixed")
    assert [c.kind for c in engine.store.calls.list()] == (["compressor"] if facts else [])
    await engine.settled()


def test_ends_normally_and_the_compression_is_cancelled(open_lab):
    """Successful, in the worker's own words with a notice, an episode."""
    asked = threading.Event()

    async def silent(request: Request) -> Any:
        asked.set()
        await asyncio.sleep(60)

    lab = open_lab(turns(READ_A, "found it", compressor=silent))
    handle = lab.dispatch("x", type="researcher")
    assert asked.wait(5)
    handle.cancel()
    episode = handle.result(5)
    assert ended(lab, "t1", episode) == End("successful", None, "uncompressed")
    assert episode.handoff == "found it"
    assert "cancelled" in (episode.notice or "")


def test_cancelled_after_start_no_fact(open_lab):
    """Cancelled, no episode, an error; the call that was under way is in the store."""
    reached = threading.Event()
    lab = open_lab(hangs_after(reached=reached))
    handle = lab.dispatch("x", type="researcher")
    assert reached.wait(5)
    handle.cancel()
    assert ended(lab, "t1", caller(handle)) == End("cancelled", "cancelled", None, "cancelled")
    assert [c.outcome for c in lab.calls()] == ["cancelled"]


def test_cancelled_after_start_some_facts(open_lab):
    """Failed with the cancellation as its reason, compressed, an episode."""
    reached = threading.Event()
    lab = open_lab(hangs_after(READ_A, reached=reached))
    handle = lab.dispatch("x", type="researcher")
    assert reached.wait(5)
    handle.cancel()
    assert ended(lab, "t1", caller(handle)) == End("failed", "cancelled", "compressed")


FULL = """CREATE TRIGGER full BEFORE INSERT ON episode BEGIN SELECT RAISE(ABORT, 'no room for episodes'); END"""


@pytest.mark.parametrize("fails", [True, False], ids=["the action had failed", "the action had gone well"])
def test_the_episode_cannot_be_stored(open_lab, project, fails):
    """Failed with both reasons, no episode, an error; what was spent is still counted."""
    lab = open_lab(turns(READ_A, " " if fails else "found"), store=project / "s.db")
    with sqlite3.connect(project / "s.db") as other:
        other.execute(FULL)
    other.close()
    handle = lab.dispatch("x", type="researcher")
    assert ended(lab, "t1", caller(handle)) == End("failed", "constraint", None, "constraint")
    detail = lab.threads()[0].detail or ""
    assert "could not be stored" in detail
    assert "no room for episodes" in detail
    assert ("failed (no_final_message)" if fails else "successful") in detail
    assert [c.kind for c in lab.calls()] == ["worker", "worker", "compressor"]
    assert lab.calls()[0].usage.tokens
    assert len(lab.facts("t1")) >= 1


def test_the_kernel_died_while_it_ran(project):
    """`failed: interrupted` on the next open, facts kept, fixed form, listed, and resumable by citing its facts."""
    code = """
        import asyncio, os, sys
        import slate_lab as sl
        async def answer(request):
            if len(request.messages) == 2:
                return {"tool": "read", "args": {"path": "notes/a.md"}}
            os._exit(9)
        sl.Lab.open(sys.argv[1], models=sl.ScriptedModel(answer)).thread("Which deploy?", type="researcher")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(project)], timeout=30, check=False)
    model = sl.ScriptedModel(["It was 4.2.1."])
    with sl.Lab.open(project, models=model) as lab:
        episode = lab.episode("t1")
        assert ended(lab, "t1", episode) == End("failed", "interrupted", "fixed")
        again = lab.retry("t1")
        assert (again.id, again.status, again.type, again.task) == ("t2.e1", "ok", "researcher", "Which deploy?")
        asked = model.requests[0].messages[-1].text
        assert "error rate rose to 7.5 %" in asked
        assert asked.endswith("Which deploy?")


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (StoreError("another process keeps it locked", code="locked"), "store_locked"),
        (OSError(28, "No space left on device"), "disk_full"),
    ],
    ids=["store locked", "disk full"],
)
async def test_an_infrastructure_error_ends_the_thread_instead_of_being_argued_with(project, fault, code):
    """The model is not asked again; what was found is kept in fixed form, for no model is to be asked any more."""

    def look(kit: Kit) -> str:
        """Look."""
        raise fault

    model = sl.ScriptedModel([READ_A, {"tool": "look", "args": {}}, "I would argue"])
    engine = Engine(project, model, tools={"look": make_tool(look)}, threadTypes={"probe": {"tools": ["read", "look"]}})
    episode = await engine.dispatch("x", type="probe")
    assert (episode.status, episode.code, episode.compression) == ("failed", code, "fixed")
    assert len(model.requests) == 2
    assert episode.fact_count == 1
    await engine.settled()

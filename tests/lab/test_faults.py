"""What must hold when a worker, a tool, a model or a person misbehaves."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import slate_lab as sl
from slate_lab.errors import DispatchError, LabError
from slate_lab.records import Reply, Request

READ_A = {"tool": "read", "args": {"path": "notes/a.md"}}


@pytest.mark.parametrize("where", ["worker", "compressor"])
def test_a_foreign_error_keeps_what_was_found(open_lab, where):
    """A model that raises anything: the compressor's fault leaves a success, the worker's an episode with its facts."""

    def answer(request: Request):
        if request.schema:
            if where == "compressor":
                raise KeyError("boom")
            return "{}"
        if any(m.role == "tool" for m in request.messages):
            if where == "worker":
                raise KeyError("boom")
            return "the answer"
        return READ_A

    lab = open_lab(answer)
    episode = lab.thread("x", type="researcher")
    assert "7.5 %" in episode.facts[0].text
    if where == "compressor":
        assert (episode.status, episode.compression) == ("ok", "uncompressed")
        assert "boom" in (episode.notice or "")
    else:
        assert episode.status == "failed"
        assert "boom" in (episode.detail or "")


def test_a_worker_that_swallows_its_cancellation_asks_and_writes_nothing_more(open_lab, project):
    """After the settlement no call goes out and no file changes."""
    asked = []

    async def answer(request: Request):
        try:
            await asyncio.sleep(0.2)
        except asyncio.CancelledError:
            pass
        asked.append(time.monotonic())
        return {"tool": "write", "args": {"path": f"f{len(asked)}.txt", "text": "x"}}

    lab = open_lab(answer)
    handle = lab.dispatch("x")
    while len(asked) < 2:
        time.sleep(0.01)
    handle.cancel(compress=False)
    assert handle.result(10).code == "cancelled"
    calls, files = len(asked), len(list(project.glob("f*.txt")))
    time.sleep(0.6)
    assert len(asked) == calls
    assert len(list(project.glob("f*.txt"))) == files


def test_completed_results_of_a_reply_are_kept_when_another_is_cancelled(open_lab, project):
    """A file that was written shows in the facts although the slow call beside it was cancelled."""
    for i in range(60):
        (project / f"slow{i}.txt").write_text("a" * 28 + "b\n")
    both = [
        {"tool": "write", "args": {"path": "made.txt", "text": "hi"}},
        {"tool": "grep", "args": {"pattern": "^(a|aa|aaa?|b?a)+$"}},
    ]
    lab = open_lab(lambda r: "done" if r.schema or any(m.role == "tool" for m in r.messages) else both)
    handle = lab.dispatch("x")
    while not (project / "made.txt").exists():
        time.sleep(0.01)
    time.sleep(0.05)
    handle.cancel(compress=False)
    episode = handle.result(10)
    assert (episode.status, episode.code) == ("failed", "cancelled")
    assert [a["path"] for a in episode.artifacts] == ["made.txt"]


def test_a_silent_compressor_is_given_up(open_lab, monkeypatch):
    """A permit is not held for ever by the compression: its time is bounded, and the work stands."""
    monkeypatch.setattr("slate_lab.weave.run.COMPRESS_MIN_S", 0.2)

    async def answer(request: Request):
        if request.schema:
            await asyncio.sleep(3600)
        return "done"

    lab = open_lab(answer)
    episode = lab.thread("x", type="query", limits={"seconds": 0.2})
    assert (episode.status, episode.compression) == ("ok", "uncompressed")
    assert "limit seconds" in (episode.notice or "")


def test_calling_back_into_the_lab_from_its_own_loop_is_refused(open_lab):
    """A model or tool that waits for another thread of its own lab is told so instead of hanging everything."""
    box: list[sl.Lab] = []

    def answer(request: Request) -> str:
        for call in (lambda: box[0].thread("inner"), box[0].close):
            with pytest.raises(LabError, match="own loop"):
                call()
        return "done"

    box.append(open_lab(answer, compressor={"mode": "fixed"}))
    assert box[0].thread("outer", type="query").status == "ok"


def test_a_forked_child_leaves_the_lab_alone(project):
    """Leaving the with-block in a forked child neither hangs nor closes the parent's lab."""
    code = """
        import os, sys
        import slate_lab as sl
        with sl.Lab.open(sys.argv[1], store=":memory:", models=sl.ScriptedModel(lambda r: "ok"),
                         config={"compressor": {"mode": "fixed"}}) as lab:
            lab.thread("one", type="query")
            pid = os.fork()
            if pid == 0:
                lab.close()
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            print(lab.thread("two", type="query").id)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(project)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "t2.e1\n", done.stderr


def test_leaving_without_close_ends_the_process(project):
    """A script that forgets to close ends, with a live thread too."""
    code = """
        import sys, asyncio
        import slate_lab as sl
        async def answer(request):
            await asyncio.sleep(600)
        lab = sl.Lab.open(sys.argv[1], models=sl.ScriptedModel(answer))
        lab.dispatch("x", type="query")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(project)], timeout=30, check=True)
    with sl.Lab.open(project, models=sl.ScriptedModel()) as lab:
        assert [t.code for t in lab.threads()] == ["interrupted"]


def test_the_depth_of_the_queue_holds_in_a_burst(open_lab):
    """One runs, two wait, the fourth is refused, however fast they come."""

    async def answer(request: Request) -> str:
        await asyncio.sleep(60)
        return "never"

    lab = open_lab(answer, maxConcurrent=1, queue={"depth": 2})
    for i in range(3):
        lab.dispatch(f"{i}", type="query")
    with pytest.raises(DispatchError) as caught:
        lab.dispatch("one too many", type="query")
    assert caught.value.code == "queue_full"
    assert len(lab.threads()) == 3


def test_waiting_too_long_is_its_own_code(open_lab):
    """queue.timeoutSeconds ends an action that found no permit."""

    async def answer(request: Request) -> str:
        await asyncio.sleep(60)
        return "never"

    lab = open_lab(answer, maxConcurrent=1, queue={"timeoutSeconds": 0.1})
    lab.dispatch("runs", type="query")
    late = lab.dispatch("waits", type="query")
    with pytest.raises(DispatchError) as caught:
        late.result(5)
    assert caught.value.code == "queue_timeout"


ODD = {
    "half a surrogate in an argument": {"path": "a\ud800"},
    "a number for a path": {"path": 3},
    "a deep argument": {"path": "notes/a.md", "x": {"y": [1, {"z": None}]}},
}


@pytest.mark.parametrize("arguments", ODD.values(), ids=ODD)
def test_odd_arguments_fail_the_tool_and_not_the_thread(open_lab, arguments):
    """What a model writes can be wrong in any way; the thread goes on and keeps its facts."""
    lab = open_lab([{"tool": "read", "args": arguments}, "done"])
    episode = lab.thread("x", type="researcher")
    assert episode.status == "ok"
    assert episode.facts[0].ok is False


@pytest.mark.parametrize("task", ["half \ud800 a pair", "\udfff"])
def test_a_task_that_cannot_be_sent_is_refused(open_lab, task):
    """The message says what is wrong with the text."""
    with pytest.raises(DispatchError) as caught:
        open_lab().dispatch(task)
    assert caught.value.code == "bad_text"


@pytest.mark.parametrize("limits", [{"turns": -1}, {"turns": 0}, {"seconds": float("nan")}, {"usd": -1}])
def test_a_limit_must_be_above_nothing(open_lab, limits):
    """A limit that could never be met is refused at once."""
    with pytest.raises(DispatchError) as caught:
        open_lab().dispatch("x", limits=limits)
    assert caught.value.code == "bad_limit"


def test_long_arguments_are_capped_in_the_facts(open_lab):
    """A tool call that writes a large file does not put it into the store a second time."""
    lab = open_lab([{"tool": "write", "args": {"path": "big.txt", "text": "x" * 500_000}}, "done"])
    episode = lab.thread("x")
    assert len(str(episode.facts[0].arguments)) < 10_000


def settled(handle: sl.Handle) -> str:
    """How a handle settled: the status of its episode, or the code of its error."""
    try:
        return handle.result(20).status
    except DispatchError as e:
        return e.code


def test_cancel_against_completion_gives_one_terminal_record_each(open_lab):
    """Hundreds of races: every handle settles, every thread ends once, permits do not leak."""

    async def answer(request: Request):
        await asyncio.sleep(0)
        return "{}" if request.schema else "done"

    lab = open_lab(answer, maxConcurrent=4)
    handles = []
    for i in range(300):
        handles.append(lab.dispatch(f"{i}", type="query"))
        if i % 2:
            threading.Thread(target=handles[-1].cancel, kwargs={"compress": bool(i % 3)}).start()
    assert {settled(handle) for handle in handles} <= {"ok", "failed", "cancelled"}
    threads = lab.threads()
    assert len(threads) == 300
    assert {t.state for t in threads} <= {"successful", "cancelled", "failed"}
    assert len(lab.episodes()) == sum(t.state != "cancelled" for t in threads)
    assert lab.thread("after", type="query").status == "ok"


class Own:
    """A model of the user's own: its price is unknown."""

    capabilities = sl.ScriptedModel().capabilities

    async def reply(self, request: Request, *, on_delta=None) -> Reply:
        """Always the same answer, without usage."""
        return Reply(text="{}" if request.schema else "done")

    async def aclose(self) -> None:
        """Nothing to close."""


@pytest.mark.parametrize("how", [{"limits": {"usd": 1}}, {}], ids=["of the action", "of the session"])
def test_a_cap_in_dollars_on_an_unknown_price_is_refused(project, how):
    """A cap that could not hold is refused at admission, with the line to set; without a cap the model may work."""
    config = {} if how else {"limits": {"session": {"usd": 1}}}
    with sl.Lab.open(project, store=":memory:", config=config, models=Own()) as lab:
        with pytest.raises(DispatchError, match=r"providers\.own\.models\.own\.price") as caught:
            lab.dispatch("x", type="query", **how)
        assert caught.value.code == "unpriced"
    with sl.Lab.open(project, store=":memory:", models=Own()) as lab:
        assert lab.thread("x", type="query").cost_usd is None


def test_close_does_not_wait_for_ever_for_a_blocking_call(open_lab, tmp_path):
    """A call in a thread that does not return is left behind after a few seconds; a warning and an event say so."""
    running, free = threading.Event(), threading.Event()

    def answer(request: Request) -> str:
        running.set()
        free.wait(60)
        return "late"

    lab = open_lab(sl.ScriptedModel(answer, blocking=True), store=tmp_path / "kept.db")
    lab.dispatch("x", type="query")
    assert running.wait(30)
    try:
        with pytest.warns(RuntimeWarning, match="was left behind"):
            lab.close()
        with sl.Lab.open(lab.root, store=tmp_path / "kept.db") as again:
            assert "lab.left_behind" in {event.kind for event in again.events()}
    finally:
        free.set()

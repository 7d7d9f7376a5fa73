"""Waiting for a thread on the main thread, and Ctrl-C at every moment."""

from __future__ import annotations

import _thread
import io
import signal
import threading
from typing import Any

import pytest

import slate_lab as sl
from slate_lab.errors import DispatchError
from slate_lab.records import Action, Progress
from slate_lab.verbs.follow import Interrupted, Interrupts, LineView, NoView, follow, progress_line, wait_all

QUERY = Action(task="x", type="query")


class Seen:
    """A view that remembers."""

    def __init__(self) -> None:
        self.states: list[str] = []
        self.last: list[str | None] = []

    def update(self, progress: Progress) -> None:
        self.states.append(progress.state)

    def close(self, last: str | None) -> None:
        self.last.append(last)


def slow_lab(open_lab: Any, seconds: float) -> Any:
    """A lab whose model takes its time."""
    return open_lab(sl.ScriptedModel(["done"], delay_s=seconds), compressor={"mode": "fixed"})


def interrupt_after(seconds: float) -> threading.Timer:
    """Ctrl-C, later."""
    timer = threading.Timer(seconds, _thread.interrupt_main)
    timer.start()
    return timer


def test_the_episode_is_returned_and_the_view_is_closed_once(open_lab: Any) -> None:
    """Progress while it runs, one last line when it has settled."""
    lab, view = slow_lab(open_lab, 0.25), Seen()
    episode = follow(lambda: lab.batch([QUERY])[0], view)
    assert episode.id == "t1.e1"
    assert view.states.count("running") >= 2
    assert len(view.last) == 1
    assert view.last[0] is not None
    assert view.last[0].startswith("t1 successful")


def test_a_refusal_starts_nothing(open_lab: Any) -> None:
    """What admission says is what the caller gets."""
    lab = slow_lab(open_lab, 0)
    with pytest.raises(DispatchError, match="blank"):
        follow(lambda: lab.batch([Action(task=" ")])[0], NoView())
    assert lab.threads() == []


def test_one_interrupt_cancels_waits_and_says_so(open_lab: Any) -> None:
    """The thread has settled when the line is printed; the handler is the one from before."""
    lab, view = slow_lab(open_lab, 30), Seen()
    before = signal.getsignal(signal.SIGINT)
    timer = interrupt_after(0.2)
    with pytest.raises(Interrupted, match="interrupted: t1 was cancelled"):
        follow(lambda: lab.batch([QUERY])[0], view)
    timer.join()
    assert lab.live() == []
    assert lab.threads()[0].state == "cancelled"
    assert view.last == [None]
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_while_dispatching_leaves_no_orphan(open_lab: Any) -> None:
    """Ctrl-C between the dispatch and the wait is not raised there: the thread is known, and cancelled."""
    lab = slow_lab(open_lab, 30)

    def start() -> Any:
        handle = lab.batch([QUERY])[0]
        signal.raise_signal(signal.SIGINT)
        return handle

    with pytest.raises(Interrupted):
        follow(start, NoView())
    assert lab.live() == []


def test_what_was_found_before_the_interrupt_is_kept(open_lab: Any) -> None:
    """A cancelled thread with facts has an episode, and the line names it."""
    read = {"tool": "read", "args": {"path": "notes/a.md"}}
    asked = threading.Event()

    async def script(request: Any) -> Any:
        import asyncio

        if len(request.messages) > 2:
            asked.set()
            await asyncio.sleep(30)
        return read

    lab = open_lab(sl.ScriptedModel(script), compressor={"mode": "fixed"})
    watcher = threading.Thread(target=lambda: asked.wait(10) and _thread.interrupt_main())
    watcher.start()
    with pytest.raises(Interrupted, match=r"t1.e1 keeps what it found"):
        follow(lambda: lab.batch([Action(task="x", type="researcher")])[0], NoView())
    watcher.join()
    assert lab.episode("t1").status == "failed"


def test_a_broken_view_does_not_leave_the_thread_running(open_lab: Any) -> None:
    """Whatever goes wrong while waiting, the thread is cancelled."""
    lab = slow_lab(open_lab, 30)

    class Broken(Seen):
        def update(self, progress: Progress) -> None:
            raise RuntimeError("no screen")

    with pytest.raises(RuntimeError):
        follow(lambda: lab.batch([QUERY])[0], Broken())
    assert wait_all(lambda: len(lab.live()), timeout=5) == 0


def test_waiting_for_all_cancels_nothing(open_lab: Any) -> None:
    """Ctrl-C and a timeout end the wait; the threads go on."""
    lab = slow_lab(open_lab, 0.6)
    handle = lab.batch([QUERY])[0]
    assert wait_all(lambda: len(lab.live()), timeout=0.05) == 1
    timer = interrupt_after(0.1)
    with pytest.raises(Interrupted, match="1 still running"):
        wait_all(lambda: len(lab.live()))
    timer.join()
    assert wait_all(lambda: len(lab.live())) == 0
    assert handle.result(0).status == "ok"


def test_the_third_interrupt_is_raised() -> None:
    """If the wait itself hangs, Ctrl-C still gets a person out."""
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert interrupts.count == 2
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_off_the_main_thread_no_handler_is_touched() -> None:
    """Signals belong to the main thread; elsewhere the wait works without them."""
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def enter() -> None:
        with Interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_terminal_line_is_rewritten_in_place() -> None:
    """A shorter line clears the rest of the longer one; the last line stays."""
    out = io.StringIO()
    view = LineView(out)
    view.update(Progress(id="t1", label="a long label", state="running", elapsed_s=1))
    view.update(Progress(id="t1", label="b", state="running", elapsed_s=2))
    view.close("done")
    shown = out.getvalue()
    assert shown.count("\n") == 1
    widths = [len(part) for part in shown.rstrip("\n").split("\r")[1:]]
    assert widths[1] >= widths[0]
    assert shown.rstrip().endswith("done")


def test_the_progress_line_says_what_is_known() -> None:
    """State, place or doing, time, turns, tools, tokens, dollars, label."""
    p = Progress(id="t3", label="look\nhere", state="queued", position=2, elapsed_s=0.04)
    assert progress_line(p) == "t3 queued (place 2), 0.0 s, 0 tokens, $0: look here"
    p = Progress(
        id="t3", label="x", state="running", doing="asking local", turns=1, tool_calls=2, tokens=1200, cost_nusd=None
    )
    assert progress_line(p) == "t3 running (asking local), 0.0 s, 1 turn, 2 tool calls, 1,200 tokens, cost unknown: x"

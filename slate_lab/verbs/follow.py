"""Wait for a handle on the main thread: show its progress, and mind Ctrl-C so that nothing is left running.

Ctrl-C is counted by a signal handler while the wait lasts instead of being raised in the middle of something: no
moment exists in which a thread was dispatched and nobody knows it.
"""

from __future__ import annotations

import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Protocol, TextIO

from slate_lab.errors import LabError
from slate_lab.records import Episode, Progress
from slate_lab.verbs.door import Handle
from slate_lab.verbs.text import money, one_line

__all__ = [
    "SETTLE_S",
    "STEP_S",
    "Interrupted",
    "Interrupts",
    "LineView",
    "NoView",
    "View",
    "follow",
    "progress_line",
    "view_of",
    "wait_all",
]

STEP_S = 0.1
SETTLE_S = 2.0
_LAST_S = 1.0


class Interrupted(LabError):
    """The person stopped the wait; the message says what became of the threads. The program exits with 130."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="interrupted")


class View(Protocol):
    """What shows a thread while it runs."""

    def update(self, progress: Progress) -> None:
        """Show it as it is now; called up to ten times a second."""
        ...

    def close(self, last: str | None) -> None:
        """End the live picture with one line, or with none."""
        ...


class NoView:
    """Shows nothing."""

    def update(self, progress: Progress) -> None:
        """Show nothing."""

    def close(self, last: str | None) -> None:
        """End nothing."""


class LineView:
    """One line on a terminal, rewritten in place; for a stream that is a terminal only."""

    def __init__(self, stream: TextIO, *, width: int = 100) -> None:
        self._stream, self._width, self._shown = stream, width, 0

    def update(self, progress: Progress) -> None:
        """Rewrite the line."""
        room = min(self._width, shutil.get_terminal_size().columns - 1)
        self._write(progress_line(progress)[:room])

    def close(self, last: str | None) -> None:
        """Clear the line, and leave `last` in its place."""
        self._write(last or "")
        self._stream.write("\n" if last else "\r")
        self._stream.flush()

    def _write(self, text: str) -> None:
        self._stream.write("\r" + text + " " * max(0, self._shown - len(text)) + ("" if text else "\r"))
        self._stream.flush()
        self._shown = len(text)


class Interrupts:
    """Counts Ctrl-C while it is entered, on the main thread; the third is raised, in case something hangs."""

    def __init__(self) -> None:
        self.count = 0
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is not None:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 2:
            raise KeyboardInterrupt


def follow(start: Callable[[], Handle], view: View, *, settle_s: float = SETTLE_S) -> Episode:
    """Dispatch by `start`, wait for the episode, show progress.

    Raises:
        Interrupted: Ctrl-C; the thread was cancelled, and has settled unless the message says otherwise.
        LabError: it was refused, or has no episode.
    """
    last = None
    with Interrupts() as interrupts:
        handle = start()
        try:
            while not interrupts.count:
                view.update(handle.progress)
                try:
                    episode = handle.result(STEP_S)
                except TimeoutError:
                    continue
                last = progress_line(handle.progress, episode)
                return episode
            raise Interrupted(_stop(handle, interrupts, settle_s=settle_s))
        except BaseException:
            handle.cancel(compress=False)  # already settled: changes nothing
            raise
        finally:
            view.close(last)


def _stop(handle: Handle, interrupts: Interrupts, *, settle_s: float) -> str:
    """Cancel, wait until it has settled, and say in one line what became of it."""
    handle.cancel()
    if not _settles(handle, settle_s, until=lambda: interrupts.count > 1):
        handle.cancel(compress=False)
        _settles(handle, _LAST_S)
    if not handle.done():
        return f"interrupted: {handle.id} is being cancelled and has not settled yet"
    try:
        episode = handle.result(0)
    except LabError as error:
        return f"interrupted: {handle.id} was cancelled ({one_line(error.message)})"
    return f"interrupted: {handle.id} was cancelled, {episode.id} keeps what it found"


def _settles(handle: Handle, seconds: float, *, until: Callable[[], bool] = lambda: False) -> bool:
    end = time.monotonic() + seconds
    while not handle.done():
        if until() or time.monotonic() >= end:
            return False
        time.sleep(0.02)
    return True


def wait_all(live: Callable[[], int], *, timeout: float | None = None) -> int:
    """Wait until `live()` is 0 or `timeout` seconds are over; returns how many are left. Ctrl-C only ends the wait."""
    end = None if timeout is None else time.monotonic() + timeout
    with Interrupts() as interrupts:
        while left := live():
            if interrupts.count:
                raise Interrupted(f"interrupted: stopped waiting, {left} still running")
            if end is not None and time.monotonic() >= end:
                return left
            time.sleep(STEP_S)
    return 0


def progress_line(progress: Progress, episode: Episode | None = None) -> str:
    """One line: id, state, what it does, time, turns, tools, tokens, dollars, label."""
    p = progress
    where = f"place {p.position}" if p.position else p.doing if not episode else ""
    cost = episode.cost_nusd if episode else p.cost_nusd
    parts = [
        f"{p.id} {p.state}" + (f" ({where})" if where else ""),
        f"{p.elapsed_s:.1f} s",
        _plural(p.turns, "turn"),
        _plural(p.tool_calls, "tool call"),
        f"{p.tokens:,} tokens",
        money(cost),
    ]
    return one_line(f"{', '.join(part for part in parts if part)}: {p.label}")


def _plural(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}" if n else ""


def view_of(stream: TextIO = sys.stderr) -> View:
    """A line view if `stream` is a terminal, else none."""
    return LineView(stream) if stream.isatty() else NoView()

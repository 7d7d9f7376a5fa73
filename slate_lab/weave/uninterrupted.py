"""A stretch of code that Ctrl-C cannot cut in two: the interrupt waits for its end and is raised there.

For the moments in which a thread exists and nobody holds its handle yet. Only on the main thread, the only one that a
signal is raised in; elsewhere it changes nothing. Stretches may nest: the outermost one raises. What may take long
before anything exists (starting servers) is `passing`: there Ctrl-C comes through at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

__all__ = ["Uninterrupted", "passing"]


class Uninterrupted:
    """`with Uninterrupted() as held:` ... `held.end()` lets a waiting Ctrl-C through before the block ends."""

    def __init__(self) -> None:
        self._before: Any = None
        self._noted: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> Uninterrupted:
        self.begin()
        return self

    def begin(self) -> None:
        """From here Ctrl-C waits, also again after `end`."""
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before) and not isinstance(getattr(before, "__self__", None), Uninterrupted):
                self._before = signal.signal(signal.SIGINT, self._note)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.end()

    def end(self) -> None:
        """Ctrl-C works again; one that came in the meantime is raised now. A second call does nothing."""
        before, self._before = self._before, None
        if before is None:
            return
        signal.signal(signal.SIGINT, before)
        noted, self._noted = self._noted, None
        if noted is not None:
            before(*noted)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = (number, frame)


@contextmanager
def passing() -> Iterator[None]:
    """A part of a stretch in which Ctrl-C comes through at once, also one that waits already."""
    held = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    stretch = getattr(held, "__self__", None)
    if not isinstance(stretch, Uninterrupted):
        yield
        return
    stretch.end()
    try:
        yield
    finally:
        stretch.begin()

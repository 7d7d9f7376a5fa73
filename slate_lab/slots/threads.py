"""Threads for blocking slots: kept for the next one, and never waited for at the end.

In: work of one slot, or of some in a row. Out: its result, awaited on the lab's loop. Called by `pipeline`. A slot that
hangs keeps its thread and nothing else: whoever gave up waiting has its place again, and the interpreter can end.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any

from slate_lab.errors import LabError

__all__ = ["Threads"]

Work = Callable[[], Any]
_Job = tuple[Work, "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class Threads:
    """Daemon threads, at most `limit` of them waited for at once.

    Args:
        limit: how many may be waited for; the rest wait for their turn.
        name: what a thread's name begins with.
    """

    def __init__(self, limit: int, *, name: str) -> None:
        self._places, self._name = asyncio.Semaphore(limit), name
        self._idle: list[_Thread] = []
        self._all: set[_Thread] = set()
        self.closed = False

    async def run(self, work: Work) -> Any:
        """What `work` returns or raises; cancelled, the work goes on and its result is dropped."""
        async with self._places:
            if self.closed:
                raise LabError("the lab is closed: its slots run no more", code="lab_closed")
            loop = asyncio.get_running_loop()
            future: asyncio.Future[Any] = loop.create_future()
            thread = self._idle.pop() if self._idle else self._new()
            thread.jobs.put((work, future, loop))
            return await future

    def back(self, thread: _Thread) -> None:
        """A thread has nothing to do; on the loop."""
        self._idle.append(thread)

    def left(self, thread: _Thread) -> None:
        """A thread has ended."""
        self._all.discard(thread)

    def close(self) -> None:
        """Let every thread end when its work is done."""
        self.closed = True
        for thread in list(self._all):
            thread.jobs.put(None)

    def _new(self) -> _Thread:
        thread = _Thread(self, f"{self._name}_{len(self._all)}")
        self._all.add(thread)
        thread.start()
        return thread


class _Thread(threading.Thread):
    """One thread with a queue of its own."""

    def __init__(self, threads: Threads, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads = threads

    def run(self) -> None:
        """Work until told to end."""
        while not self._threads.closed and (job := self.jobs.get()) is not None:
            work, future, loop = job
            result, error = None, None
            try:
                result = work()
            except BaseException as e:  # noqa: BLE001  whatever it is, it belongs to whoever waits
                error = e
            try:
                loop.call_soon_threadsafe(self._done, future, result, error)
            except RuntimeError:  # the loop was closed meanwhile: nobody waits
                break
            del job, work, future, result, error
        self._threads.left(self)

    def _done(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        self._threads.back(self)
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

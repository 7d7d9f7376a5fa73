"""The lab's own event loop in its own thread.

Nothing else runs there: a kernel's loop freezes during synchronous cells, and waiting on it from a cell deadlocks.
Work is handed over and waited for as a future.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from slate_lab.errors import LabError

__all__ = ["AT_END_S", "LoopThread", "refuse_on"]

AT_END_S = 5.0
"""How long the end waits for blocking calls that still run in threads."""

T = TypeVar("T")


class LoopThread:
    """Started by its first use, stopped once by `stop`."""

    def __init__(self, name: str = "slate-lab") -> None:
        self._pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._aside = ThreadPoolExecutor(thread_name_prefix=f"{name}-aside")
        self.loop.set_default_executor(self._aside)
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def forked(self) -> bool:
        """Whether this is a forked child, in which the thread does not exist."""
        return os.getpid() != self._pid

    def run(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run `work` there; from any other thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def stop(self, *, at_end_s: float = AT_END_S) -> bool:
        """End the loop: what still runs is cancelled and waited for. A second call does nothing.

        Returns:
            False if a blocking call still runs in a thread after `at_end_s` seconds: it is left behind.
        """
        if self.loop.is_closed():
            return True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        ending = threading.Thread(target=self._aside.shutdown, kwargs={"cancel_futures": True}, daemon=True)
        ending.start()
        ending.join(at_end_s)
        return not ending.is_alive()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            if left:
                self.loop.run_until_complete(asyncio.wait(left, timeout=5))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        finally:
            self.loop.close()


def refuse_on(loop: asyncio.AbstractEventLoop, what: str) -> None:
    """Refuse to wait on the loop that has to do the work.

    Raises:
        LabError: this code runs on `loop`: a tool, a model or a callback of the lab called back into it.
    """
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        return
    if here is loop:
        raise LabError(f"{what} was called on the lab's own loop and would wait for itself: await it", code="own_loop")

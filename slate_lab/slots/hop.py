"""Blocking slots in a row, run in one thread: in order, each with a run of its own.

In: runs that have not begun, with their functions. Out: the same effects as one thread each, for the price of one.
Called by `pipeline`. Each slot sees what those before it contributed; a cancelled hop ends the run that is going on,
and begins no other.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from slate_lab.slots.runs import Run

__all__ = ["Hop"]

Function = Callable[[Any], Any]


class Hop:
    """Some runs in a row.

    Args:
        runs: each with the function of its slot.
        space: context variables; what a slot sets there is its own.
    """

    def __init__(self, runs: Sequence[tuple[Run, Function]], space: contextvars.Context) -> None:
        self._runs, self._space = runs, space
        self._lock = threading.Lock()  # a run ends once: by itself, or given up
        self._now: Run | None = None
        self._over = False

    def __call__(self) -> None:
        """All of it, in a thread.

        Raises:
            SlotFailed: a hard slot failed; those behind it have not begun.
        """
        for run, function in self._runs:
            if not self._start(run):
                return
            try:
                returned = self._space.copy().run(function, run.context)
                if inspect.isawaitable(returned):
                    returned = run.context.wait(_waited(returned))
                with self._lock:
                    if not self._over:
                        run.complete(returned)
            except BaseException as e:  # noqa: BLE001  a slot is foreign code: its policy decides
                with self._lock:
                    if not self._over:
                        run.fail(e)

    def cancel(self) -> None:
        """Give up: the run that is going on ends as cancelled; on the loop."""
        with self._lock:
            self._over = True
            if self._now is not None and not self._now.over:
                self._now.cancel()

    def _start(self, run: Run) -> bool:
        with self._lock:
            if not self._over:
                self._now = run
                run.note("started")
            return not self._over


async def _waited(found: Awaitable[Any]) -> Any:
    return await found

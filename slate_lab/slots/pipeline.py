"""The phases: bootstrap once per session, then input and output of each turn, in their lanes and under their policies.

In: a draft of a turn and the surface as it was seen. Out: the draft with what finished slots contributed; events for
all that happened; `SlotFailed` when a slot with `failure_policy: hard` failed. Called on the lab's loop: slots written
with `async def` run there, all others in threads of this room.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from slate_lab.errors import LabError
from slate_lab.records import SlotEvent
from slate_lab.slots.draft import Draft
from slate_lab.slots.hop import Function, Hop
from slate_lab.slots.modules import Modules
from slate_lab.slots.pipelines import Lane, Phase
from slate_lab.slots.ports import Ports
from slate_lab.slots.runs import Run
from slate_lab.slots.surface import Slot
from slate_lab.slots.threads import Threads
from slate_lab.slots.watch import Seen

__all__ = ["Pipeline"]

THREADS = 32
"""Blocking slots that are waited for at once, in all turns together."""


class Pipeline:
    """Runs the slots of one project.

    Args:
        enforce_timeouts: whether `timeout_seconds` ends a slot.
        clock: nanoseconds since the epoch, for events.
    """

    def __init__(self, *, enforce_timeouts: bool = False, clock: Callable[[], int] = time.time_ns) -> None:
        self.modules = Modules()
        self._enforce, self._clock = enforce_timeouts, clock
        self._threads = Threads(THREADS, name="slate-slot")

    async def bootstrap(self, seen: Seen, draft: Draft, ports: Ports) -> None:
        """Run what runs once per session; fragments are added to the draft.

        Raises:
            SlotFailed: a hard slot failed: the session must not start.
        """
        await self.run("bootstrap", seen, draft, ports)

    async def run(self, phase: Phase, seen: Seen, draft: Draft, ports: Ports) -> None:
        """Run one phase: the parallel lane in the background, the serial one in order, until both are done.

        Raises:
            SlotFailed: a hard slot failed; slots that were still running are cancelled.
        """
        turn = _Turn(self, seen, draft, ports)
        serial, parallel = seen.surface.lane(phase, "serial"), seen.surface.lane(phase, "parallel")
        try:
            if not parallel:
                await turn.in_order(serial)
                return
            async with asyncio.TaskGroup() as group:
                for slot in parallel:
                    group.create_task(turn.one(slot, "parallel"))
                group.create_task(turn.in_order(serial))
        except BaseExceptionGroup as e:
            raise _first(e) from None
        finally:
            if turn.events:
                ports.events(turn.events)

    def close(self) -> None:
        """Take out all code, and let the threads end."""
        self.modules.close()
        self._threads.close()

    def function(self, slot: Slot, seen: Seen) -> Function | None:
        """The function of a slot, if its code is loaded as it is now."""
        return self.modules.function(slot, seen.revisions[slot.id])

    async def load(self, slot: Slot, seen: Seen) -> Function:
        """The function of a slot; raises whatever its code raises."""
        folder, revision = seen.surface.folder, seen.revisions[slot.id]
        assert folder is not None
        load = partial(self.modules.load, slot, revision, surface=folder, shared=seen.shared, files=seen.files)
        found: Function = await self.in_thread(load)
        return found

    def seconds(self, slot: Slot) -> float | None:
        """After how long a slot is ended; None is never."""
        return slot.manifest.timeout_seconds if self._enforce else None

    async def in_thread(self, work: Callable[[], Any]) -> Any:
        """What `work` returns, run in a thread with the context variables of here."""
        space = contextvars.copy_context()
        return await self._threads.run(lambda: space.run(_guarded, work))

    def begin(self, slot: Slot, lane: Lane, draft: Draft, ports: Ports, events: list[SlotEvent]) -> Run:
        """A run that has not started."""
        return Run(slot, lane, draft, ports, events=events, clock=self._clock, loop=asyncio.get_running_loop())


class _Turn:
    """One phase of one turn."""

    def __init__(self, pipeline: Pipeline, seen: Seen, draft: Draft, ports: Ports) -> None:
        self._pipeline, self._seen, self._draft, self._ports = pipeline, seen, draft, ports
        self.events: list[SlotEvent] = []

    async def in_order(self, slots: Sequence[Slot]) -> None:
        """The serial lane; blocking slots in a row share a thread."""
        row: list[tuple[Slot, Function]] = []
        for slot in slots:
            function = self._quick(slot)
            if function is not None:
                row.append((slot, function))
                continue
            await self._hop(row)
            row = []
            await self.one(slot, "serial")
        await self._hop(row)

    def _quick(self, slot: Slot) -> Function | None:
        """The function of a slot that can share a thread: blocking, loaded, and without a time that ends it."""
        function = self._pipeline.function(slot, self._seen)
        alone = function is None or inspect.iscoroutinefunction(function) or self._pipeline.seconds(slot) is not None
        return None if alone else function

    async def _hop(self, row: Iterable[tuple[Slot, Function]]) -> None:
        runs = [(self._run(slot, "serial"), function) for slot, function in row]
        if not runs:
            return
        hop = Hop(runs, contextvars.copy_context())
        try:
            await self._pipeline.in_thread(hop)
        except asyncio.CancelledError:
            hop.cancel()
            raise

    def _run(self, slot: Slot, lane: Lane) -> Run:
        return self._pipeline.begin(slot, lane, self._draft, self._ports, self.events)

    async def one(self, slot: Slot, lane: Lane) -> None:
        """One run of one slot, by itself."""
        run = self._run(slot, lane)
        run.note("started")
        try:
            function = self._pipeline.function(slot, self._seen) or await self._pipeline.load(slot, self._seen)
            run.complete(await self._call(function, run, slot))
        except asyncio.CancelledError as e:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                run.cancel()
                raise
            run.fail(e)  # the slot raised it itself
        except BaseException as e:  # noqa: BLE001  a slot is foreign code: its policy decides
            run.fail(e)

    async def _call(self, function: Function, run: Run, slot: Slot) -> Any:
        seconds = self._pipeline.seconds(slot)
        if seconds is None:
            return await self._plain_call(function, run)
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._plain_call(function, run)
        except TimeoutError as e:
            if not limit.expired():
                raise
            raise LabError(f"it took longer than timeout_seconds={seconds:g}", code="slot_timeout") from e

    async def _plain_call(self, function: Function, run: Run) -> Any:
        if inspect.iscoroutinefunction(function):
            return await function(run.context)
        found = await self._pipeline.in_thread(lambda: function(run.context))
        return await found if inspect.isawaitable(found) else found


def _guarded(work: Callable[[], Any]) -> Any:
    """A `StopIteration` cannot pass through a future."""
    try:
        return work()
    except StopIteration as e:
        raise RuntimeError("the slot raised StopIteration") from e


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first failure of a phase."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found

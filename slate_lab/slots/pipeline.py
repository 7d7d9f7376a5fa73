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
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from slate_lab.errors import LabError, SlotFailed
from slate_lab.records import SlotEvent, SlotEventKind
from slate_lab.slots.context import Context
from slate_lab.slots.draft import Draft
from slate_lab.slots.modules import Modules
from slate_lab.slots.pipelines import Lane, Phase
from slate_lab.slots.ports import Ports
from slate_lab.slots.state import Change, apply_changes
from slate_lab.slots.surface import Slot
from slate_lab.slots.watch import Seen

__all__ = ["Pipeline"]

THREADS = 32
"""Blocking slots that run at once, in all turns together."""
TRACE = 8_000
"""Characters of a traceback that are kept."""


class Pipeline:
    """Runs the slots of one project.

    Args:
        enforce_timeouts: whether `timeout_seconds` ends a slot.
        clock: nanoseconds since the epoch, for events.
    """

    def __init__(self, *, enforce_timeouts: bool = False, clock: Callable[[], int] = time.time_ns) -> None:
        self.modules = Modules()
        self._enforce, self._clock = enforce_timeouts, clock
        self._pool: ThreadPoolExecutor | None = None

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
        events: list[SlotEvent] = []
        serial, parallel = seen.surface.lane(phase, "serial"), seen.surface.lane(phase, "parallel")
        try:
            if not parallel:
                await self._in_order(serial, seen, draft, ports, events)
                return
            async with asyncio.TaskGroup() as group:
                for slot in parallel:
                    group.create_task(self._one(slot, "parallel", seen, draft, ports, events))
                group.create_task(self._in_order(serial, seen, draft, ports, events))
        except BaseExceptionGroup as e:
            raise _first(e) from None
        finally:
            if events:
                ports.events(events)

    def close(self) -> None:
        """Take out all code, and let the threads end."""
        self.modules.close()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def _in_order(
        self, slots: Sequence[Slot], seen: Seen, draft: Draft, ports: Ports, events: list[SlotEvent]
    ) -> None:
        for slot in slots:
            await self._one(slot, "serial", seen, draft, ports, events)

    async def _one(
        self, slot: Slot, lane: Lane, seen: Seen, draft: Draft, ports: Ports, events: list[SlotEvent]
    ) -> None:
        """One run of one slot, from its start to its one end."""
        run = _Run(slot, lane, draft, events, self._clock)
        context = Context(slot, lane, draft, ports, audit=run.asked, loop=asyncio.get_running_loop())
        run.note("started")
        try:
            function = self.modules.function(slot, seen.revisions[slot.id]) or await self._load(slot, seen)
            returned = await self._call(function, context, slot)
            staged = context.close()
            if changes := context.changes:
                ports.state.update({scope: _changing(made) for scope, made in changes.items()})
        except asyncio.CancelledError as e:
            task = asyncio.current_task()
            context.close()
            if task is not None and task.cancelling():
                run.note("cancelled")
                raise
            run.fail(e)  # the slot raised it itself
        except (Exception, SystemExit, KeyboardInterrupt) as e:  # noqa: BLE001  a slot is foreign code: its policy decides
            context.close()
            run.fail(e)
        else:
            if returned is not None:
                run.note("ignored_return", detail=f"a {type(returned).__name__} was returned: slots return nothing")
            draft.take(staged)
            for delivery in staged.deliveries:
                ports.live(delivery)
            run.note("completed")

    async def _load(self, slot: Slot, seen: Seen) -> Callable[[Any], Any]:
        folder = seen.surface.folder
        assert folder is not None
        revision = seen.revisions[slot.id]
        return await self._in_thread(lambda: self.modules.load(slot, revision, surface=folder, shared=seen.shared))  # type: ignore[no-any-return]

    async def _call(self, function: Callable[[Any], Any], context: Context, slot: Slot) -> Any:
        seconds = slot.manifest.timeout_seconds if self._enforce else None
        if seconds is None:
            return await self._plain_call(function, context)
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._plain_call(function, context)
        except TimeoutError as e:
            if not limit.expired():
                raise
            raise LabError(f"it took longer than timeout_seconds={seconds:g}", code="slot_timeout") from e

    async def _plain_call(self, function: Callable[[Any], Any], context: Context) -> Any:
        if inspect.iscoroutinefunction(function):
            return await function(context)
        found = await self._in_thread(lambda: function(context))
        return await found if inspect.isawaitable(found) else found

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="slate-slot")
        space = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._pool, space.run, _guarded, work)


class _Run:
    """The events of one run."""

    def __init__(self, slot: Slot, lane: Lane, draft: Draft, events: list[SlotEvent], clock: Callable[[], int]) -> None:
        self._slot, self._lane, self._draft, self._events, self._clock = slot, lane, draft, events, clock
        self._began: int | None = None
        self._asked: set[tuple[str, bool]] = set()

    def note(self, what: SlotEventKind, **more: Any) -> None:
        """Add one event."""
        now = self._clock()
        took = None if self._began is None else now - self._began
        self._began = now if self._began is None else self._began
        event = SlotEvent(session=self._draft.session, turn=self._draft.turn, slot=self._slot.id,
                          phase=self._slot.phase, lane=self._lane, what=what, at_ns=now, duration_ns=took,
                          **more)  # fmt: skip
        self._events.append(event)

    def asked(self, name: str, allowed: bool) -> None:
        """A capability was asked for; once per run and answer."""
        if (name, allowed) not in self._asked:
            self._asked.add((name, allowed))
            self.note("capability", detail=name, allowed=allowed)

    def fail(self, error: BaseException) -> None:
        """The slot failed: its policy decides.

        Raises:
            SlotFailed: the policy is hard.
        """
        said = error.message if isinstance(error, LabError) else "".join(traceback.format_exception_only(error)).strip()
        trace = "".join(traceback.format_exception(error))[-TRACE:]
        self.note("failed", detail=said, traceback=trace)
        if self._slot.manifest.failure_policy == "hard":
            where = f"the slot {self._slot.id} ({self._slot.phase}.{self._lane}) failed and is hard"
            raise SlotFailed(f"{where}: {said}", code="slot_failed") from error


def _changing(changes: list[Change]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda kept: apply_changes(kept, changes)


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

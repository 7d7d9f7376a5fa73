"""A job: one admitted action between its dispatch and its settlement, with what a view may see of it."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any

from slate_lab.models.protocol import Model
from slate_lab.records import CallKind, Episode, Hop, Progress, Thread, ThreadState, Usage
from slate_lab.records.call import NANO
from slate_lab.routing.policy import Grant
from slate_lab.weave.admission import Admitted
from slate_lab.weave.facts import FactLog
from slate_lab.weave.meter import Meter
from slate_lab.weave.schedule import Queue
from slate_lab.weave.tools import Kit
from slate_lab.weave.units import Crew
from slate_lab.weave.worker import Live

__all__ = ["Job"]


class Job:
    """Mutable, written on the lab's loop only (but for `steer`), read anywhere.

    Attributes:
        phase: the task that may be cancelled now: the conversation, then the compression.
        cancelled: a person or a closing lab asked for the end.
        compress: whether a model may still be asked for the compression.
        listens: the conversation may still take a steering message.
        blocks: meters of the blocks it was dispatched in.
        reserved_nusd: money that was set aside for it when it was admitted, and is not spent yet.
        hops: how recovery went from route to route; `ran` is the route that answered the worker last.
        exhaustion: the error that proved the last exhaustion of a route.
        compressor: the model of the list of compressors that wrote the episode.
        queue: the line it stands in.
    """

    __slots__ = (  # thousands may wait
        "_abandoned",
        "_cancel",
        "admitted",
        "blocks",
        "cancelled",
        "clock",
        "compress",
        "compressor",
        "cost_nusd",
        "crew",
        "ended_ns",
        "exhaustion",
        "facts",
        "future",
        "hops",
        "id",
        "kit",
        "listens",
        "live",
        "loop",
        "meter",
        "own_model",
        "phase",
        "queue",
        "ran",
        "reserved_nusd",
        "started_ns",
        "state",
        "steer",
        "thread",
        "timed_out",
        "usage",
    )

    def __init__(
        self,
        thread: Thread,
        admitted: Admitted,
        *,
        clock: Callable[[], int],
        loop: asyncio.AbstractEventLoop,
        queue: Queue,
        blocks: tuple[Meter, ...] = (),
        cancel: Callable[[Job, bool], None],
    ) -> None:
        self.id, self.thread, self.admitted, self.clock = thread.id, thread, admitted, clock
        self.state: ThreadState = "queued"
        self.future: concurrent.futures.Future[Episode] = concurrent.futures.Future()
        self.future.set_running_or_notify_cancel()
        self.live = Live()
        self.blocks = blocks
        self.meter: Meter | None = None
        self.facts: FactLog | None = None
        self.kit: Kit | None = None
        self.crew: Crew | None = None
        self.own_model: Callable[[str], Model | None] = lambda provider: None
        self.phase: asyncio.Task[Any] | None = None
        self.cancelled = self.timed_out = False
        self.compress = True
        self.steer: list[str] = []
        self.listens = True
        self.hops: list[Hop] = []
        self.reserved_nusd = 0
        self.ran: Grant | None = None
        self.exhaustion = ""
        self.compressor: str | None = None
        self.usage: dict[CallKind, Usage] = {}
        self.cost_nusd: int | None = 0
        self.started_ns: int | None = None
        self.ended_ns: int | None = None
        self._abandoned: asyncio.Future[None] | None = None
        self.loop, self.queue, self._cancel = loop, queue, cancel

    def begin(self, facts: FactLog, meter: Meter) -> None:
        """It has its permit and starts now."""
        self.facts, self.meter, self.started_ns = facts, meter, self.clock()

    def end(self, state: ThreadState) -> None:
        """It has its terminal state; facts that come later are not kept."""
        self.state, self.ended_ns, self.live.doing = state, self.clock(), ""
        if self.facts:
            self.facts.freeze()

    @property
    def found(self) -> FactLog:
        """The facts of a job that has begun."""
        assert self.facts is not None
        return self.facts

    @property
    def used(self) -> Meter:
        """The meter of a job that has begun."""
        assert self.meter is not None
        return self.meter

    def enter(self, phase: asyncio.Task[Any]) -> asyncio.Future[None]:
        """`phase` is what may be cancelled now; the future is done when it is given up."""
        self.phase, self._abandoned = phase, asyncio.get_running_loop().create_future()
        return self._abandoned

    def abandon(self, phase: asyncio.Task[Any]) -> None:
        """Give up on `phase` if it still runs."""
        if self.phase is phase and not phase.done() and self._abandoned and not self._abandoned.done():
            self._abandoned.set_result(None)

    def position(self) -> int | None:
        """Place in the queue while it waits."""
        return self.queue.position(self.id) if self.state == "queued" else None

    @property
    def waited_s(self) -> float:
        """Seconds from its admission to its start; to its end or until now, if it has not started."""
        until = self.started_ns or self.ended_ns or self.clock()
        return (until - self.thread.created_ns) / NANO

    def request_cancel(self, *, compress: bool) -> None:
        """Ask for the end, from any thread."""
        if not self.future.done():
            self._cancel(self, compress)

    def spend(self, kind: CallKind, usage: Usage, cost_nusd: int | None) -> None:
        """Count one call of the model."""
        before = self.usage.get(kind)
        self.usage[kind] = usage if before is None else before + usage
        self.cost_nusd = None if cost_nusd is None or self.cost_nusd is None else self.cost_nusd + cost_nusd
        if self.meter:
            self.meter.spend(usage, cost_nusd)

    def progress(self) -> Progress:
        """What it is doing now."""
        meter = self.meter
        since = self.started_ns or self.thread.created_ns
        return Progress(
            id=self.id,
            label=self.thread.label,
            state=self.state,
            position=self.position(),
            doing="waiting" if self.state == "queued" else self.live.doing,
            elapsed_s=((self.ended_ns or self.clock()) - since) / NANO,
            turns=meter.turns if meter else 0,
            tool_calls=meter.tool_calls if meter else 0,
            tokens=meter.tokens if meter else 0,
            cost_nusd=self.cost_nusd,
            text=self.live.text,
        )

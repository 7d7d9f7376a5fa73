"""One job's way to its model: through the gate, under the caps, with every attempt stored whatever becomes of it.

In: a request of the worker, the compressor or a compaction. Out: the reply, from the granted route or from one that
recovery went on to. Called by the worker and by whoever concludes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from slate_lab.errors import ModelError
from slate_lab.models.gate import Gate
from slate_lab.models.protocol import Delta
from slate_lab.records import Attempt, Call, CallKind, Cost, Reply, Request, Route, Usage
from slate_lab.routing.policy import Grant
from slate_lab.routing.recovery import Candidate, Ended, Held, classify, plan_hop
from slate_lab.store import Store
from slate_lab.weave.job import Job
from slate_lab.weave.purse import Purse
from slate_lab.weave.recover import Ways, ended, fitted, look, note_hop, note_passed, retry_of

__all__ = ["Asker", "counted_once", "sum_attempts"]

Keep = Callable[[Reply], None]
"""Keeps what a reply says."""


class Asker:
    """Asks for `job`, on `grant` until its retries are proved to be used up, then on the next route of the order.

    Args:
        job, grant: who asks, and the route it was given.
        ways: models, and the order of recovery.
        gate, store, purse: what the lab wired.
        recover: False where somebody else goes on to the next route: the compressor has a list of its own.
        hop, cause: which step of a recovery this route is, and why.

    Attributes:
        grant: the route that is asked now.
        exhausted: the last request ended because the retries of its route were used up.
    """

    def __init__(
        self,
        job: Job,
        grant: Grant,
        *,
        ways: Ways,
        gate: Gate,
        store: Store,
        purse: Purse,
        recover: bool = True,
        hop: int = 0,
        cause: str = "",
    ) -> None:
        self._job, self.grant, self._first = job, grant, grant
        self._ways, self._gate, self._store, self._purse = ways, gate, store, purse
        self._recover = recover
        self._hop, self._cause = hop, cause
        self.exhausted = False

    async def __call__(
        self, request: Request, *, kind: CallKind, on_delta: Delta | None = None, keep: Keep | None = None
    ) -> Reply:
        """The reply; `keep` is given it in the same commit as the call's row.

        Raises:
            ModelError: the request failed for good, on every route that could be asked.
            LimitExceeded: what is left of a cap in dollars does not pay for the call.
        """
        tried: list[Route] = []
        order: tuple[Candidate, ...] = ()
        hop, cause, self.exhausted = self._hop, self._cause, False
        while True:
            tried.append(self.grant.route)
            try:
                reply = await self._once(request, kind, hop, cause, on_delta, keep)
            except ModelError as error:
                self.exhausted = classify(error) == "retry-exhausted"
                self._job.exhaustion = error.message
                if not (self.exhausted and self._recover):
                    raise
                order = order or self._ways.order(self.grant)
                plan = plan_hop(order, tried=tried, look=partial(self._look, request))
                if isinstance(plan, Ended):
                    raise ended(self._job, self._store, kind, error, plan, asked=len(tried)) from error
                note_passed(self._job, self._store, kind, plan.passed)
                hop, cause = hop + 1, error.message
                note_hop(self._job, self._store, kind, hop, self.grant, plan.grant, cause)
                self.grant = plan.grant
            else:
                if kind != "compressor":
                    self._answered()
                return reply

    def _answered(self) -> None:
        job = self._job
        if job.hops and job.ran is not self.grant:
            self._store.threads.hop(job.id, job.hops, ran_route=str(self.grant.route))
        job.ran = self.grant

    def _waits(self) -> Callable[[str], None]:
        """Shows what the request waits for, and again what it did before."""
        live = self._job.live
        before = live.doing

        def tell(text: str) -> None:
            live.doing = text or before

        return tell

    def _look(self, request: Request, candidate: Candidate) -> Grant | Held:
        return look(self._ways, candidate, request, priced=partial(self._purse.payable, self._job))

    async def _once(
        self, request: Request, kind: CallKind, hop: int, cause: str, on_delta: Delta | None, keep: Keep | None
    ) -> Reply:
        """One call on the current route, its row written whatever becomes of it."""
        job, grant = self._job, self.grant
        if job.ended_ns is not None or (job.cancelled and kind != "compressor"):
            raise asyncio.CancelledError  # a worker that swallowed its cancellation asks nothing more
        if grant is not self._first:
            request = fitted(request, grant)
            job.live.doing = f"asking {grant.logical} on {grant.route.provider}"
        model = job.own_model(grant.route.provider) or self._ways.model(grant)
        hold = self._purse.hold(job, grant, request, kind)
        trail: list[Attempt] = []
        started, outcome, error, finish = job.clock(), "cancelled", None, None
        reply: Reply | None = None
        try:
            rules = None if hasattr(model, "retry") else retry_of(grant.provider)
            reply = await self._gate.ask(
                model, grant.route, hold.request, trail=trail, on_delta=on_delta, on_wait=self._waits(), retry=rules
            )
            outcome, finish = "ok", reply.finish
            return reply
        except ModelError as e:
            outcome, error = e.kind, e.message
            raise
        finally:
            trail = counted_once(trail)
            usage, cost = sum_attempts(trail)
            job.spend(kind, usage, cost.nusd)
            call = Call(
                thread=job.id,
                kind=kind,
                logical=grant.logical,
                provider=grant.route.provider,
                model=grant.route.model,
                started_ns=started,
                ended_ns=job.clock(),
                outcome=outcome,
                finish=finish,
                usage=usage,
                cost=cost,
                attempts=tuple(trail),
                error=error,
                hop=hop,
                cause=cause or None,
            )
            with self._store.batch():
                self._store.calls.add(call)
                hold.settle(usage, cost)
                if reply is not None and reply.ignored:
                    self._store.events.add("stream.ignored", thread=job.id, data={**reply.ignored})
                if reply is not None and keep is not None:
                    keep(reply)


def counted_once(trail: Sequence[Attempt]) -> list[Attempt]:
    """Attempts whose answers are told apart by the provider's id: one answer that came twice is counted once.

    The fullest report of it counts; the others keep what the provider sent and cost nothing.
    """
    fullest: dict[str, Attempt] = {}
    for attempt in trail:
        id = attempt.response_id
        if id and (id not in fullest or _weight(attempt) >= _weight(fullest[id])):
            fullest[id] = attempt
    return [
        a
        if not a.response_id or fullest[a.response_id] is a
        else replace(a, usage=Usage(), cost=Cost(nusd=0, price="counted once"))
        for a in trail
    ]


def _weight(attempt: Attempt) -> tuple[int, int]:
    return attempt.cost.nusd or 0, attempt.usage.tokens or 0


def sum_attempts(trail: Sequence[Attempt]) -> tuple[Usage, Cost]:
    """Usage and cost of all attempts; one unknown cost makes the sum unknown."""
    if len(trail) == 1:
        return trail[0].usage, trail[0].cost
    usage, costs = Usage(), [a.cost for a in trail]
    for attempt in trail:
        usage = usage + attempt.usage
    price = next((c.price for c in reversed(costs) if c.price), None)
    known = [c.nusd for c in costs if c.nusd is not None]
    return usage, Cost(nusd=sum(known) if len(known) == len(costs) else None, price=price)

"""One job's way to its model: through the gate, under the caps, with every attempt stored whatever becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial

from slate_lab.config import LabConfig
from slate_lab.errors import LimitExceeded, ModelError
from slate_lab.models.gate import Gate
from slate_lab.models.protocol import Delta, Model
from slate_lab.records import Attempt, Call, CallKind, Cost, Reply, Request, Usage
from slate_lab.records.call import NANO
from slate_lab.routing.policy import Grant
from slate_lab.store import Store
from slate_lab.weave.job import Job

__all__ = ["Asker", "check_caps", "sum_attempts"]

Keep = Callable[[Reply], None]
"""Keeps what a reply says."""

_DAY_NS = 86_400 * NANO


class Asker:
    """Asks `model` for `job`; the call and its attempts are stored also when it fails or is cancelled."""

    def __init__(self, job: Job, grant: Grant, model: Model, *, gate: Gate, store: Store, config: LabConfig) -> None:
        self._job, self._grant, self._model = job, grant, model
        self._gate, self._store, self._config = gate, store, config

    async def __call__(
        self, request: Request, *, kind: CallKind, on_delta: Delta | None = None, keep: Keep | None = None
    ) -> Reply:
        """The reply; `keep` is given it in the same commit as the call's row.

        Raises:
            ModelError: the request failed for good.
            LimitExceeded: the session, the day or the project has spent what it may.
        """
        job, grant = self._job, self._grant
        if job.ended_ns is not None or (job.cancelled and kind != "compressor"):
            raise asyncio.CancelledError  # a worker that swallowed its cancellation asks nothing more
        check_caps(self._config, self._store, job.clock())
        trail: list[Attempt] = []
        started, outcome, error, finish = job.clock(), "cancelled", None, None
        reply: Reply | None = None
        try:
            reply = await self._gate.ask(self._model, grant.route, request, trail=trail, on_delta=on_delta)
            outcome, finish = "ok", reply.finish
            return reply
        except ModelError as e:
            outcome, error = e.kind, e.message
            raise
        finally:
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
            )
            with self._store.batch():
                self._store.calls.add(call)
                if reply is not None and keep is not None:
                    keep(reply)


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


def check_caps(config: LabConfig, store: Store, now_ns: int) -> None:
    """Refuse another call when a spending cap is reached.

    Raises:
        LimitExceeded: with the cap's name, dollars used and allowed.
    """
    limits, spent = config.limits, store.calls.spent_nusd
    scopes: tuple[tuple[str, Decimal | None, Callable[[], int]], ...] = (
        ("session_usd", limits.session.usd, partial(spent, session=store.session)),
        ("day_usd", limits.day.usd, partial(spent, since_ns=now_ns // _DAY_NS * _DAY_NS)),
        ("project_usd", limits.project.usd, spent),
    )
    for kind, cap, used in scopes:
        if cap is not None and used() >= cap * NANO:
            raise LimitExceeded(kind, used=used() / NANO, limit=float(cap))

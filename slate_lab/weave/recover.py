"""From one route to the next: whether a candidate can take a request over, and what is kept of every step.

In: a job, a request, the candidates of `routing.recovery`. Out: a grant to go on with, and events, hops and rows that
say why. The worker and its messages stay as they are, so a tool that has run never runs again. Called by `ask`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from msgspec.structs import replace

from slate_lab.config import ProviderSpec
from slate_lab.errors import DispatchError, ModelError
from slate_lab.models.estimate import count_request
from slate_lab.models.protocol import Model
from slate_lab.models.retry import RetrySpec
from slate_lab.records import CallKind, Hop, Request, Route
from slate_lab.routing.policy import Grant
from slate_lab.routing.recovery import Candidate, Ended, Held
from slate_lab.store import Store
from slate_lab.weave.admission import room_of
from slate_lab.weave.job import Job

__all__ = ["Ways", "compressors", "ended", "fitted", "look", "note_hop", "note_passed", "remember", "retry_of"]


class Ways(Protocol):
    """Where models and their order come from."""

    def grant(self, logical: str | None) -> Grant:
        """The route of a logical model (None: the default); raises `DispatchError`."""
        ...

    def model(self, grant: Grant) -> Model:
        """The model that answers on a granted route; raises `ModelError`."""
        ...

    def order(self, grant: Grant) -> tuple[Candidate, ...]:
        """What recovery from a route may ask, in order."""
        ...

    def compressors(self, grant: Grant, names: list[str], *, start: str | None = None) -> tuple[Candidate, ...]:
        """What may compress the work of a route, in order."""
        ...

    def take(self, candidate: Candidate) -> Grant:
        """The grant of a candidate; raises `DispatchError`."""
        ...


def look(ways: Ways, candidate: Candidate, request: Request, *, priced: Callable[[Route], bool]) -> Grant | Held:
    """The permission to send `request` to a candidate, or what holds it back.

    Args:
        priced: whether the price of a route is known, as far as that matters (always, without a cap in dollars).
    """
    try:
        grant = ways.take(candidate)
        ways.model(grant)
    except DispatchError as e:
        return Held(e.code, e.message)
    except ModelError as e:
        return Held(e.code, e.message)
    if request.tools and not grant.capabilities.tools:
        return Held("no_tools", f"{grant.route} cannot call tools")
    room, _ = room_of(grant)
    if room is not None and (needed := count_request(fitted(request, grant))) > room:
        return Held("window", f"the conversation takes about {needed} tokens, {grant.route} leaves room for {room}")
    if not priced(grant.route):
        return Held("unpriced", f"the price of {grant.route} is unknown, and a cap in dollars is set")
    return grant


def fitted(request: Request, grant: Grant) -> Request:
    """`request` as a route takes it: its effort, and no longer an answer than it gives."""
    _, reserved = room_of(grant)
    most = [n for n in (request.max_output_tokens, reserved) if n is not None]
    return replace(request, effort=grant.effort, max_output_tokens=min(most, default=None))


def retry_of(provider: ProviderSpec) -> RetrySpec:
    """The rules of asking again that the project set for a provider, for a model that brings none of its own."""
    return RetrySpec(
        max_retries=provider.max_retries, max_wait_s=provider.max_wait_s, max_concurrent=provider.max_concurrent
    )


def note_hop(job: Job, store: Store, kind: CallKind, n: int, before: Grant, after: Grant, cause: str) -> None:
    """Keep one step: on the job, on its thread, as an event."""
    hop = Hop(
        at_ns=job.clock(),
        kind=kind,
        n=n,
        from_logical=before.logical,
        from_route=str(before.route),
        to_logical=after.logical,
        to_route=str(after.route),
        effort=after.effort,
        cause=cause,
    )
    job.hops.append(hop)
    worker = (job.ran or job.admitted.grant).route
    with store.batch():
        store.events.add(
            "route.hop",
            thread=job.id,
            data={"kind": kind, "n": n, "from": hop.from_route, "to": hop.to_route, "to_model": hop.to_logical,
                  "effort": hop.effort, "cause": cause},
        )  # fmt: skip
        store.threads.hop(job.id, job.hops, ran_route=str(worker))


def note_passed(job: Job, store: Store, kind: CallKind, passed: tuple[tuple[Candidate, Held], ...]) -> None:
    """Keep which candidates were held back, and why."""
    for candidate, held in passed:
        data = {"kind": kind, "route": str(candidate.route), "model": candidate.logical, "code": held.code}
        store.events.add("route.skipped", thread=job.id, data={**data, "why": held.why})


def ended(job: Job, store: Store, kind: CallKind, error: ModelError, plan: Ended, *, asked: int) -> ModelError:
    """The error of an operation that has nothing left to ask; as it came where there was nothing else to begin with."""
    note_passed(job, store, kind, plan.passed)
    words = [f"{asked} routes were asked"] if asked > 1 else []
    words += [f"{c.route} was not asked: {held.why}" for c, held in plan.passed]
    if plan.at:
        words.append(f"recovery stopped at {plan.at[0].route}: {plan.at[1].why}")
    if not words:
        return error
    detail = "; ".join(words)
    code = plan.at[1].code if plan.at else "no_route"
    store.events.add("route.stopped", thread=job.id, data={"kind": kind, "code": code, "why": detail})
    final = ModelError(error.kind, f"{error.message}; {detail}", status=error.status, retry_after_s=error.retry_after_s)
    final.__cause__ = error
    return final


def compressors(
    job: Job, ways: Ways, store: Store, names: list[str], *, priced: Callable[[Route], bool]
) -> Iterator[tuple[Grant, int, str]]:
    """The routes that may write the episode, forward only: each with its hop, and why the one before it gave up.

    Whoever iterates goes on only when the retries of a route were proved to be used up. If none of the list can be
    asked, the worker's own route is.
    """
    own = job.ran or job.admitted.grant
    order = ways.compressors(own, names, start=store.preferences.compressor())
    tried: set[Route] = set()
    before: Grant | None = None
    for candidate in order:
        if candidate.route in tried:
            continue
        try:
            grant = ways.take(candidate)
            ways.model(grant)
            if not priced(grant.route):
                raise DispatchError.of("unpriced", f"the price of {grant.route} is unknown, and a cap is set")
        except (DispatchError, ModelError) as e:
            data = {"model": candidate.logical, "route": str(candidate.route), "code": e.code, "why": e.message}
            store.events.add("compressor.skipped", thread=job.id, data=data)
            if before is not None and e.code == "effort_unsupported":
                return
            continue
        hop, cause = len(tried), job.exhaustion if before else ""
        if before is not None:
            note_hop(job, store, "compressor", hop, before, grant, cause)
        tried.add(grant.route)
        before = grant
        yield grant, hop, cause
    if before is None:
        yield own, 0, ""


def remember(job: Job, store: Store) -> None:
    """After a success: the provider that answered, and the listed compressor that did, are asked first from now on."""
    started = job.started_ns or job.clock()
    if job.ran:
        store.preferences.answered(job.ran.logical, job.ran.route.provider, started_ns=started)
    if job.compressor:
        store.preferences.compressed(job.compressor, started_ns=started)

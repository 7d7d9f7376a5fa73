"""The purse: money is set aside before it is spent, so that caps hold however many threads and kernels share them.

In: an action that is admitted, a request that is about to go out, what it cost in the end. Out: money set aside, or a
refusal with figures. An action with a limit of its own sets all of it aside when it is admitted, any other the price of
its first call; before each call the prompt and the longest answer are set aside, and put back when the cost is known.
Rows stand in the store and go with their thread, or with their session if it died.

`plan_hold` and `shortest` decide. Called by the dispatcher (`admit`) and by `ask` (`hold`).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from slate_lab.config import ScopesSpec
from slate_lab.errors import DispatchError, LimitExceeded
from slate_lab.models.estimate import count_request
from slate_lab.models.prices import PriceBook
from slate_lab.records import CallKind, Cost, Request, Route, Usage
from slate_lab.records.call import NANO
from slate_lab.routing.policy import Grant
from slate_lab.store import Store
from slate_lab.weave.admission import Admitted
from slate_lab.weave.job import Job
from slate_lab.weave.meter import Meter

__all__ = ["LEAST_OUTPUT", "Hold", "Left", "Purse", "TooLittle", "plan_hold", "shortest"]

LEAST_OUTPUT = 1_024
"""Tokens of an answer that a call must be able to pay for; a model that gives shorter answers needs less."""
SHARE = 4
"""One call sets aside at most this part of what is left for its answer, so that others still find some."""
UNMEASURED = 1.5
"""Tokens a route may count for one of the lab's, until its first answer says so."""

_DAY_NS = 86_400 * NANO
Scope = Literal["session", "day", "project"]


class Left(Struct, frozen=True, kw_only=True):
    """One cap and how it stands, in nano-dollars.

    Attributes:
        kind: `usd` for an action or a block, `session_usd`, `day_usd` or `project_usd`.
        cap: what may be spent.
        used: what was spent.
        others: what is set aside for other threads.
    """

    kind: str
    cap: int
    used: int
    others: int = 0

    @property
    def nusd(self) -> int:
        """What may still be set aside."""
        return self.cap - self.used - self.others


class TooLittle(LimitExceeded):
    """What is left of a cap does not pay for the next call, though it may not all be spent yet."""

    def __init__(self, left: Left, needed: int) -> None:
        super().__init__(left.kind, used=left.used / NANO, limit=left.cap / NANO)
        if left.used < left.cap:
            self.message = (
                f"the limit {left.kind}={_usd(left.cap)} leaves too little for the next call: {_usd(left.used)} used, "
                f"{_usd(left.others)} set aside for other threads, about {_usd(needed)} needed"
            )
            self.args = (self.message,)


def plan_hold(left: int, *, prompt: int, token: Decimal, wanted: int | None) -> tuple[int, int | None] | None:
    """What to set aside for a call, and the longest answer it may give; None if too little is left.

    Args:
        left: nano-dollars that may be set aside.
        prompt: nano-dollars of the prompt.
        token: nano-dollars of one token of the answer.
        wanted: tokens of the longest answer; None if nobody knows.
    """
    if token <= 0:
        return (prompt, wanted) if prompt <= left else None
    payable = int((left - prompt) // token)
    if payable < min(LEAST_OUTPUT, wanted or LEAST_OUTPUT):
        return None
    fair = int((Decimal(left) / SHARE - prompt) // token)
    output = min(payable, max(LEAST_OUTPUT, fair), *(() if wanted is None else (wanted,)))
    return prompt + int((output * token).to_integral_value(rounding="ROUND_CEILING")), output


def shortest(caps: list[Left]) -> Left | None:
    """The cap that leaves least."""
    return min(caps, key=lambda c: c.nusd, default=None)


class Hold:
    """Money set aside for one call; `request` is what may be sent for it. `settle` puts back what it did not cost."""

    def __init__(self, request: Request, settle: Callable[[Usage, Cost], None] | None = None) -> None:
        self.request = request
        self._settle = settle

    def settle(self, usage: Usage, cost: Cost) -> None:
        """The call has ended, however it ended; in the transaction that keeps its row."""
        if self._settle is not None:
            self._settle(usage, cost)


class Purse:
    """The caps of one lab.

    Args:
        store: where spending and reserves stand.
        scopes: the caps.
        prices: what calls cost.
        clock: nanoseconds.
    """

    def __init__(self, store: Store, scopes: ScopesSpec, prices: PriceBook, *, clock: Callable[[], int]) -> None:
        self._store, self._prices, self._clock = store, prices, clock
        named: tuple[tuple[Scope, Decimal | None], ...] = (
            ("session", scopes.session.usd),
            ("day", scopes.day.usd),
            ("project", scopes.project.usd),
        )
        self._caps: dict[Scope, int] = {scope: int(usd * NANO) for scope, usd in named if usd is not None}
        self._measured: dict[Route, float] = {}
        self._held: dict[Meter, int] = {}

    @property
    def shared(self) -> bool:
        """Whether the session, the day or the project has a cap."""
        return bool(self._caps)

    def payable(self, job: Job, route: Route) -> bool:
        """Whether a route may be asked under the caps that hold for a job: without a known price none can hold."""
        return not (self._caps or self._meters(job, "worker")) or self._prices.knows(route, at_ns=self._clock())

    def admit(self, thread: str, admitted: Admitted) -> int:
        """Set money aside for an action, in the transaction that stores it as queued; returns how much.

        Raises:
            DispatchError: `over_budget`, with the figures of the cap that is short.
        """
        if not self._caps:
            return 0
        own, grant = admitted.limits.usd, admitted.grant
        tokens = sum(int(part["tokens"]) for part in admitted.brief.parts) if admitted.brief else 0
        output = min(LEAST_OUTPUT, admitted.reserved or LEAST_OUTPUT)
        needed = self._nusd(grant.route, self._scaled(grant.route, tokens), output)
        if needed == 0:
            return 0  # what runs here costs nothing, whatever is left
        needed = needed if own is None else int(own * NANO)
        short = self._short(thread, needed)
        if short is not None:
            raise DispatchError.of("over_budget", _refusal(short, needed, own is not None))
        self._store.reserves.put(thread, needed)
        return needed

    def hold(self, job: Job, grant: Grant, request: Request, kind: CallKind) -> Hold:
        """Set money aside for one call, or refuse it.

        Raises:
            LimitExceeded: a cap is spent, or what is left of it does not pay for this call.
        """
        meters = self._meters(job, kind)
        if not self._caps and not meters:
            return Hold(request)
        with self._store.batch():
            plan, caps = self._plan(job, grant, request, meters)
            if isinstance(plan, int) and self._store.reserves.sweep():  # a kernel died with money set aside
                plan, caps = self._plan(job, grant, request, meters)
            if isinstance(plan, int):
                short = shortest(caps)
                assert short is not None
                raise TooLittle(short, plan)
            nusd, output = plan
            if self._caps and nusd:
                self._store.reserves.put(job.id, max(nusd, job.reserved_nusd))
        for meter in meters:
            self._held[meter] = self._held.get(meter, 0) + nusd
        counted = count_request(request) if nusd else 0
        sent = request if output is None else replace(request, max_output_tokens=output)

        def settle(usage: Usage, cost: Cost) -> None:
            for meter in meters:
                left = self._held.get(meter, 0) - nusd
                if left > 0:
                    self._held[meter] = left
                else:
                    self._held.pop(meter, None)
            self._measure(grant.route, counted, usage.input_tokens)
            if self._caps and nusd:
                self._put_back(job, nusd, cost.nusd)

        return Hold(sent, settle)

    def _plan(
        self, job: Job, grant: Grant, request: Request, meters: list[Meter]
    ) -> tuple[tuple[int, int | None] | int, list[Left]]:
        """What to set aside and the longest answer, or what would be needed at least; and the caps as they stand."""
        caps = [self._left(scope, job.id) for scope in self._caps]
        caps += [self._left_of(meter) for meter in meters]
        tightest = shortest(caps)
        assert tightest is not None
        spent = [c for c in caps if c.used >= c.cap]
        if spent:
            return 0, spent
        route, wanted = grant.route, request.max_output_tokens or grant.capabilities.max_output
        prompt = self._nusd(route, self._scaled(route, count_request(request)), 0)
        token = Decimal(self._nusd(route, 0, 1_000)) / 1_000
        plan = plan_hold(tightest.nusd, prompt=prompt, token=token, wanted=wanted)
        if plan is None:
            return prompt + int(min(LEAST_OUTPUT, wanted or LEAST_OUTPUT) * token), caps
        nusd, output = plan
        return (nusd, None if output == request.max_output_tokens or token <= 0 else output), caps

    def _put_back(self, job: Job, nusd: int, cost: int | None) -> None:
        if job.ended_ns is not None:  # a worker that was given up: its thread has settled long ago
            self._store.reserves.release(job.id)
            return
        if cost is None:  # nobody knows: what was set aside stays so until the thread ends
            job.reserved_nusd = max(nusd, job.reserved_nusd)
            return
        job.reserved_nusd = max(0, job.reserved_nusd - cost)
        if job.reserved_nusd:
            self._store.reserves.put(job.id, job.reserved_nusd)
        else:
            self._store.reserves.release(job.id)

    def _short(self, thread: str, needed: int) -> Left | None:
        """The cap that does not hold `needed` more, if one does not."""
        for again in (True, False):
            short = shortest([c for s in self._caps if (c := self._left(s, thread)).nusd < needed])
            if short is None or not (again and self._store.reserves.sweep()):
                return short
        return None

    def _left(self, scope: Scope, thread: str) -> Left:
        spent, reserves, now = self._store.calls.spent_nusd, self._store.reserves, self._clock()
        if scope == "session":
            used, others = spent(session=self._store.session), reserves.others(thread, own_session=True)
        elif scope == "day":
            used, others = spent(since_ns=now // _DAY_NS * _DAY_NS), reserves.others(thread)
        else:
            used, others = spent(), reserves.others(thread)
        return Left(kind=f"{scope}_usd", cap=self._caps[scope], used=used, others=others)

    def _left_of(self, meter: Meter) -> Left:
        cap = int((meter.limits.usd or 0) * NANO)
        return Left(kind="usd", cap=cap, used=meter.spent_nusd, others=self._held.get(meter, 0))

    def _meters(self, job: Job, kind: CallKind) -> list[Meter]:
        """The limits in dollars of an action and its blocks; its own leaves the compression of its work alone."""
        if job.meter is None:
            return []
        own = () if kind == "compressor" else (job.meter,)
        return [meter for meter in (*own, *job.meter.blocks) if meter.limits.usd is not None]

    def _nusd(self, route: Route, tokens: int, output: int) -> int:
        """The most that so many tokens cost; a prompt may be written into a cache, which costs more."""
        now = self._clock()
        plain = self._prices.cost(route, Usage(input_fresh=tokens, output=output), at_ns=now)
        cached = self._prices.cost(route, Usage(input_fresh=0, cache_write_5m=tokens, output=output), at_ns=now)
        return max(plain.nusd or 0, cached.nusd or 0)

    def _scaled(self, route: Route, tokens: int) -> int:
        return int(tokens * self._measured.get(route, UNMEASURED))

    def _measure(self, route: Route, counted: int, reported: int | None) -> None:
        """A route's own count of a prompt, against the lab's: the largest share so far is what is reckoned with."""
        if counted and reported:
            self._measured[route] = max(1.0, self._measured.get(route, 1.0), reported / counted)


def _refusal(short: Left, needed: int, own: bool) -> str:
    scope = short.kind.removesuffix("_usd")
    what = "this action may use" if own else "its first call may cost"
    less = max(0, short.nusd)
    hint = f"give it less (limits usd={_usd(less)}), " if own and less else ""
    return (
        f"limits.{scope}.usd={_usd(short.cap)}: {_usd(short.used)} used, {_usd(short.others)} set aside for threads "
        f"that live, {what} {_usd(needed)}: {hint}wait for some to end, or raise limits.{scope}.usd"
    )


def _usd(nusd: int) -> str:
    return f"{Decimal(nusd).scaleb(-9).normalize():f}"

"""The gate: every request to a model passes here, once for all models.

In: a model, the route it stands for, a request. Out: its reply; and, in the caller's `trail`, one `Attempt` for every
exchange that was begun, also when it failed or was cancelled. The gate keeps the pace of a route (`routing.pacing`),
its places (`places.py`), the deadline of the request, and the retries (`retry.py` decides, the gate waits). Called by
the worker and the compressor.
"""

from __future__ import annotations

import asyncio
import random as _random
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from typing import Any, Protocol

from slate_lab import tokens
from slate_lab.config import RoutePaceSpec
from slate_lab.errors import LabError, ModelError
from slate_lab.models.border import plain_reply
from slate_lab.models.estimate import count_request
from slate_lab.models.faults import Fault, is_transient
from slate_lab.models.once import add_once
from slate_lab.models.places import BUSY, Places
from slate_lab.models.plain import plain_label, plain_payload, plain_text
from slate_lab.models.prices import PriceBook
from slate_lab.models.protocol import Delta, Model
from slate_lab.models.redact import redact
from slate_lab.models.retry import RetrySpec, Stop, plan_retry
from slate_lab.models.usage import plain_usage
from slate_lab.records import Attempt, Cost, Reply, Request, Route, Usage

__all__ = ["Gate", "Pace", "Tell"]

Tell = Callable[[str], None]
"""Told, in a few words, what a request waits for."""


def _silent(text: str) -> None:
    """Tells nobody."""


def _free(exchange: _Exchange) -> None:
    """The route has no count of places."""


class Pace(Protocol):
    """Holds requests to a route back until it has room."""

    async def admit(self, route: Route, *, tell: Tell) -> int | None:
        """Return when a request may be sent, with its place in the count; None if the route is not paced."""
        ...

    def forget(self, route: Route, place: int) -> None:
        """The request never went out: it does not count."""
        ...


class Gate:
    """Asks models, with pace, places, retries, deadline and cost.

    Args:
        prices: the price book.
        pace: holds requests back; None paces nothing.
        routes: places by exact route (`openai/gpt-6-luna`), where they are set.
        most: places of a route that learns its own number without a cap.
        clock: nanoseconds since the epoch, for the rows.
        sleep: waits seconds.
        random: a number in 0..1, for the jitter.
    """

    def __init__(
        self,
        prices: PriceBook | None = None,
        *,
        pace: Pace | None = None,
        routes: Mapping[str, RoutePaceSpec] | None = None,
        most: int = 8,
        clock: Callable[[], int] = time.time_ns,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = _random.random,
    ) -> None:
        self._prices = prices or PriceBook()
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._pace, self._routes, self._most = pace, dict(routes or {}), most
        self._places: dict[Route, Places] = {}

    async def ask(
        self,
        model: Model,
        route: Route,
        request: Request,
        *,
        trail: list[Attempt],
        on_delta: Delta | None = None,
        on_wait: Tell = _silent,
        retry: RetrySpec | None = None,
    ) -> Reply:
        """The reply of `model`.

        Args:
            model: what answers.
            route: what it is called in rows, prices and the cap.
            request: what is asked; `deadline_s` holds for all exchanges and waits together.
            trail: gets one `Attempt` for every exchange, in order.
            on_delta: given each piece of visible text as it arrives.
            on_wait: told why it waits when it begins to, and an empty text when the wait is over.
            retry: the rules of the route; None takes the model's own (its `retry`), else the defaults.

        Raises:
            ModelError: the request failed for good; `retry-exhausted`, `unreachable` and `timeout` may be tried on
                another route. An exception of the model that is no error of the lab is a `bad-reply`, with the
                exception as its cause.
            CancelledError: the caller was cancelled, even where the model went on; nothing more is asked.
        """
        spec = retry or getattr(model, "retry", None) or RetrySpec()
        deadline = None if request.deadline_s is None else self._clock() + int(request.deadline_s * 1e9)
        wait, n = 0.0, 0
        while True:
            n += 1
            asked = self._clock()
            paced = await self._paced(route, request, deadline, on_wait) if n == 1 else None
            async with self._place(route, spec, request, self._left(deadline), on_wait) as place:
                begun = self._clock()
                held_s = (begun - asked) / 1e9
                exchange = _Exchange(n, begun, wait + held_s, held_s, self._clock, on_delta)
                try:
                    reply = await self._once(model, route, request, exchange, self._left(deadline))
                    if reply.recorded and paced is not None and self._pace:
                        self._pace.forget(route, paced)
                    return reply
                except ModelError as error:
                    plan = plan_retry(
                        error,
                        attempt=n,
                        delivered=exchange.delivered,
                        spec=spec,
                        random=self._random(),
                        now_ns=self._clock(),
                        left_s=self._left(deadline),
                    )
                finally:
                    place(exchange)
                    add_once(trail, self._row(exchange, route, request))
            if isinstance(plan, Stop):
                raise plan.error
            wait = plan.seconds
            on_wait(f"waiting {wait:.0f} s to ask {route} again")
            await self._sleep(wait)
            on_wait("")

    async def _paced(self, route: Route, request: Request, deadline: int | None, on_wait: Tell) -> int | None:
        """Wait until the pace of the route lets the request through, no longer than the deadline."""
        if self._pace is None:
            return None
        told: list[str] = []

        def tell(text: str) -> None:
            told.append(text)
            on_wait(text)

        try:
            async with asyncio.timeout(self._left(deadline)):
                return await self._pace.admit(route, tell=tell)
        except TimeoutError as error:
            text = f"{route}: held back by requestThrottle until the deadline of {request.deadline_s:g} s; not sent"
            raise ModelError("timeout", text) from error
        finally:
            if told:
                on_wait("")

    async def _once(
        self, model: Model, route: Route, request: Request, exchange: _Exchange, left_s: float | None
    ) -> Reply:
        """One exchange, its end written into `exchange`."""
        limit = asyncio.timeout(left_s)
        try:
            with _cancellation():
                async with limit:
                    exchange.reply = plain_reply(await model.reply(request, on_delta=exchange))
        except asyncio.CancelledError:
            exchange.outcome = "cancelled"
            raise
        except ModelError as error:
            exchange.fail(error)
            raise
        except LabError as error:
            exchange.error = plain_text(error.message)
            raise
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                fault = Fault("timeout", f"no answer within the deadline of {request.deadline_s:g} s")
            else:
                fault = Fault("bad-reply", f"{route}: the model raised {_said(error)}")
            exchange.fail(fault)
            raise fault from error
        exchange.outcome = "ok"
        return exchange.reply

    def _place(
        self, route: Route, spec: RetrySpec, request: Request, left_s: float | None, on_wait: Tell
    ) -> AbstractAsyncContextManager[Callable[[_Exchange], None]]:
        """One place among the exchanges of a route, waited for no longer than the deadline; told how it ended."""
        places = self._places_of(route, spec)
        return nullcontext(_free) if places is None else self._taken(places, route, request, left_s, on_wait)

    @asynccontextmanager
    async def _taken(
        self, places: Places, route: Route, request: Request, left_s: float | None, on_wait: Tell
    ) -> AsyncIterator[Callable[[_Exchange], None]]:
        waits = places.full
        if waits:
            on_wait(f"waiting for one of {places.width.places} places on {route}")
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(left_s):
                    number = await held.enter_async_context(places.take())
            except TimeoutError as error:
                taken, end = places.width.places, f"{request.deadline_s:g}"
                text = f"{route}: all {taken} places were taken until the deadline of {end} s"
                raise ModelError("timeout", text) from error
            finally:
                if waits:
                    on_wait("")
            yield lambda exchange: places.ended(number, busy=exchange.status in BUSY)

    def _places_of(self, route: Route, spec: RetrySpec) -> Places | None:
        said = self._routes.get(str(route))
        adaptive = said is not None and said.adaptive
        caps = [n for n in (spec.max_concurrent, said.max_concurrent if said else None) if n is not None]
        if not caps and not adaptive:
            return None
        places = self._places.get(route)
        if places is None:
            places = self._places[route] = Places(min(caps, default=self._most), adaptive=adaptive)
        return places

    def _left(self, deadline: int | None) -> float | None:
        return None if deadline is None else max(0.0, (deadline - self._clock()) / 1e9)

    def _row(self, exchange: _Exchange, route: Route, request: Request) -> Attempt:
        usage, raw = exchange.used(request)
        cost = self._prices.cost(route, usage, at_ns=exchange.started_ns)
        if exchange.unbilled and cost.nusd is None:
            cost = Cost(nusd=0, price="no answer")
        elif raw is not None and raw.get("estimated_by") and cost.nusd:
            cost = Cost(nusd=cost.nusd, price=f"{cost.price}, estimated tokens")
        reply, recorded = exchange.reply, exchange.reply is not None and exchange.reply.recorded
        return Attempt(
            n=exchange.n,
            outcome=exchange.outcome,
            status=exchange.status,
            started_ns=exchange.started_ns,
            ended_ns=self._clock(),
            waited_s=exchange.waited_s,
            paced_s=exchange.paced_s,
            first_token_ns=(reply.first_token_ns if reply else None) or exchange.first_ns,
            usage=usage,
            cost=Cost(nusd=0, price="replay") if recorded else cost,
            recorded=recorded,
            recorded_cost=cost if recorded else None,
            response_id=reply.response_id if reply else exchange.response_id,
            raw_usage=raw,
            error=exchange.error,
        )


class _Exchange:
    """What is known of one exchange while it runs; called with each piece of text."""

    def __init__(
        self,
        n: int,
        started_ns: int,
        waited_s: float,
        paced_s: float,
        clock: Callable[[], int],
        on_delta: Delta | None,
    ) -> None:
        self.n = n
        self.started_ns = started_ns
        self.waited_s = waited_s
        self.paced_s = paced_s
        self.outcome = "error"
        self.error: str | None = None
        self.status: int | None = None
        self.first_ns: int | None = None
        self.reply: Reply | None = None
        self.response_id: str | None = None
        self.unbilled = False
        self._usage = Usage()
        self._raw: dict[str, Any] | None = None
        self._clock = clock
        self._on_delta = on_delta
        self._pieces: list[str] = []

    def __call__(self, piece: str) -> None:
        piece = plain_text(piece)
        if self.first_ns is None:
            self.first_ns = self._clock()
        self._pieces.append(piece)
        if self._on_delta is not None:
            self._on_delta(piece)

    @property
    def delivered(self) -> bool:
        """Whether the caller was given part of the answer."""
        return self._on_delta is not None and bool(self._pieces)

    def fail(self, error: ModelError) -> None:
        self.outcome = "transient" if is_transient(error) and error.kind == "retry-exhausted" else error.kind
        self.error = plain_text(error.message)
        self.status = error.status
        self.unbilled = not self._pieces and (error.kind == "unreachable" or (error.status or 0) >= 400)
        if isinstance(error, Fault):
            self._usage, self._raw = plain_usage(error.usage), plain_payload(error.raw_usage)
            self.response_id = plain_label(error.response_id) or None

    def used(self, request: Request) -> tuple[Usage, dict[str, Any] | None]:
        """Reported usage; for an answer that ended early with nothing reported, what the lab counts itself."""
        if self.reply is not None:
            return self.reply.usage, self.reply.raw_usage
        if self._raw is not None or not self._pieces:
            return self._usage, self._raw
        read, written = count_request(request), tokens.count("".join(self._pieces))
        raw = {"estimated_by": "slate_lab", "encoding": tokens.ENCODING, "input": read, "output": written}
        return Usage(input_fresh=read, output=written), raw


@contextmanager
def _cancellation() -> Iterator[None]:
    """A cancellation of this task that the code inside swallowed is raised again at its end."""
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        yield
    except Exception as error:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError from error
        raise
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError


def _said(error: Exception) -> str:
    """Type and text of an exception in one short line, without keys."""
    return redact("".join(traceback.format_exception_only(error)))

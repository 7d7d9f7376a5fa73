"""Pacing: how many requests a minute go to one provider and model, before the provider has to say no.

In: a route that is to be asked. Out: the moment it may be. One pacer belongs to one lab, so the limit holds for all its
threads together; every provider and model has a count of its own, over the last 60 seconds. Counted is a request, not
its retries. The order is by chance on purpose, as there is no queue: who waits looks again after `baseWaitMs` and up to
`jitterMs`, and who comes while others wait waits once before it looks. Nothing is sent for a wait that is cancelled.

`plan_pace` decides; the pacer keeps the counts and waits. Called by the gate.
"""

from __future__ import annotations

import asyncio
import random as _random
import time
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from slate_lab.config import LabConfig, ThrottleSpec
from slate_lab.records import Route

__all__ = ["WINDOW_NS", "Go", "Hold", "Pacer", "plan_pace", "throttled"]

WINDOW_NS = 60_000_000_000
"""The time over which requests are counted: what left it exactly 60 seconds ago counts no more."""


class Go(Struct, frozen=True):
    """The request may be sent; `times` are the moments that count from now on, its own included."""

    times: tuple[int, ...]


class Hold(Struct, frozen=True):
    """Wait `seconds`, then look again."""

    seconds: float
    times: tuple[int, ...]


def plan_pace(
    times: Sequence[int], *, waiters: int, waited: bool, now_ns: int, spec: ThrottleSpec, random: float
) -> Go | Hold:
    """Whether a request may be sent now.

    Args:
        times: when the counted requests were sent.
        waiters: how many others wait for this route now.
        waited: this one has waited already, so it looks for room like everybody else.
        now_ns: the time.
        spec: the rules.
        random: a number in 0..1 for the jitter.
    """
    live = tuple(t for t in times if t > now_ns - WINDOW_NS)
    if len(live) < spec.max_requests_per_minute and (waited or not waiters):
        return Go((*live, now_ns))
    jitter_ms = int(min(max(random, 0.0), 1 - 2**-52) * (spec.jitter_ms + 1))
    return Hold((spec.base_wait_ms + jitter_ms) / 1000, live)


def throttled(config: LabConfig, route: Route) -> bool:
    """Whether `requestThrottle` holds for a route: it speaks `responses`, unless its provider says otherwise."""
    provider = config.providers.get(route.provider)
    if provider is None or not config.request_throttle.enabled:
        return False
    said = provider.request_throttle
    return provider.protocol == "responses" if said is None else said


class Pacer:
    """Holds requests back until their route has room.

    Args:
        config: with the presets filled in under `providers`.
        clock: nanoseconds.
        sleep: waits seconds.
        random: a number in 0..1.
    """

    def __init__(
        self,
        config: LabConfig,
        *,
        clock: Callable[[], int] = time.time_ns,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = _random.random,
    ) -> None:
        self._config, self._clock, self._sleep, self._random = config, clock, sleep, random
        self._times: dict[Route, tuple[int, ...]] = {}
        self._waiters: dict[Route, int] = {}

    async def admit(self, route: Route, *, tell: Callable[[str], None]) -> int | None:
        """Return when a request may be sent, with its place in the count; None for a route that is not paced.

        Args:
            route: where it goes.
            tell: told why it waits, once, if it does.
        """
        if not throttled(self._config, route):
            return None
        spec, waited = self._config.request_throttle, False
        while True:  # looking and counting is one step: there is no await between them
            now, waiters = self._clock(), self._waiters.get(route, 0)
            plan = plan_pace(
                self._times.get(route, ()), waiters=waiters, waited=waited, now_ns=now, spec=spec, random=self._random()
            )
            self._times[route] = plan.times
            if isinstance(plan, Go):
                return now
            if not waited:
                tell(f"paced: at most {spec.max_requests_per_minute} requests a minute to {route}")
            self._waiters[route] = waiters + 1
            try:
                await self._sleep(plan.seconds)
            finally:
                self._leave(route)
            waited = True

    def forget(self, route: Route, place: int) -> None:
        """The request of `place` never went out (it was answered from a recording): it does not count."""
        times = list(self._times.get(route, ()))
        if place in times:
            times.remove(place)
            self._times[route] = tuple(times)

    def _leave(self, route: Route) -> None:
        left = self._waiters.get(route, 0) - 1
        if left > 0:
            self._waiters[route] = left
        else:
            self._waiters.pop(route, None)

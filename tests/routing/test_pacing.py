"""Pacing: the rule as a table, the pacer on a clock that moves when something sleeps on it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from slate_lab.config import LabConfig, ThrottleSpec
from slate_lab.models.gate import Gate
from slate_lab.models.scripted import ScriptedModel
from slate_lab.records import Attempt, Message, Reply, Request, Route
from slate_lab.routing.pacing import WINDOW_NS, Go, Hold, Pacer, plan_pace, throttled

S = 1_000_000_000
ROUTE, OTHER = Route("paced", "m"), Route("paced", "n")
RULES = ThrottleSpec.model_validate({"maxRequestsPerMinute": 2, "baseWaitMs": 1000, "jitterMs": 500})
ASK = Request(messages=(Message(role="user", text="x"),))


def lab_config(**throttle: Any) -> LabConfig:
    """A configuration whose provider `paced` speaks `responses`, `opted` opts in, `out` stays out."""
    said = {"maxRequestsPerMinute": 2, "baseWaitMs": 1000, "jitterMs": 0, **throttle}
    spoken = {"protocol": "responses", "baseUrl": "http://127.0.0.1/v1"}
    providers = {
        "paced": spoken,
        "out": {**spoken, "requestThrottle": False},
        "plain": {**spoken, "protocol": "chat"},
        "opted": {**spoken, "protocol": "chat", "requestThrottle": True},
    }
    return LabConfig.model_validate({"providers": providers, "requestThrottle": said})


def test_the_defaults_are_the_documented_ones() -> None:
    """12 requests a minute, a second of wait and up to one more, on."""
    spec = LabConfig().request_throttle
    assert (spec.enabled, spec.max_requests_per_minute, spec.base_wait_ms, spec.jitter_ms) == (True, 12, 1000, 1000)


@pytest.mark.parametrize(
    ("key", "bad"),
    [(key, bad) for key, low, high in (("maxRequestsPerMinute", 1, 1000), ("baseWaitMs", 1, 60_000),
     ("jitterMs", 0, 60_000)) for bad in (low - 1, high + 1, True, 1.5)],
)  # fmt: skip
def test_the_bounds_of_the_keys(key: str, bad: object) -> None:
    """1..1000 requests, 1..60000 ms of wait, 0..60000 ms of jitter; nothing is converted."""
    with pytest.raises(ValueError, match=key):
        LabConfig.model_validate({"requestThrottle": {key: bad}})


@pytest.mark.parametrize(
    ("times", "waiters", "waited", "random", "plan"),
    [
        ([], 0, False, 0.0, Go((100 * S,))),
        ([90 * S], 0, False, 0.0, Go((90 * S, 100 * S))),
        ([80 * S, 90 * S], 0, False, 0.0, Hold(1.0, (80 * S, 90 * S))),
        ([80 * S, 90 * S], 0, False, 0.999999, Hold(1.5, (80 * S, 90 * S))),
        ([80 * S, 90 * S], 0, True, 0.5, Hold(1.25, (80 * S, 90 * S))),
        ([100 * S - WINDOW_NS, 90 * S], 0, False, 0.0, Go((90 * S, 100 * S))),
        ([100 * S - WINDOW_NS + 1, 90 * S], 0, False, 0.0, Hold(1.0, (100 * S - WINDOW_NS + 1, 90 * S))),
        ([], 3, False, 0.0, Hold(1.0, ())),
        ([], 3, True, 0.0, Go((100 * S,))),
    ],
    ids=[
        "the first goes at once",
        "room is left",
        "full: the base wait",
        "full: the most jitter",
        "full after a wait: again",
        "what is 60 s old counts no more",
        "a nanosecond younger still counts",
        "who comes while others wait waits once",
        "who has waited competes whoever waits",
    ],
)
def test_whether_a_request_goes(times: list[int], waiters: int, waited: bool, random: float, plan: Go | Hold) -> None:
    """The rule of the trailing minute."""
    found = plan_pace(times, waiters=waiters, waited=waited, now_ns=100 * S, spec=RULES, random=random)
    assert found == plan


@pytest.mark.parametrize(
    ("provider", "enabled", "held"),
    [("paced", True, True), ("out", True, False), ("plain", True, False), ("opted", True, True),
     ("nobody", True, False), ("paced", False, False), ("opted", False, False)],
    ids=["responses", "responses, kept out", "another protocol", "another protocol, opted in", "unknown",
         "switched off", "switched off, opted in"],
)  # fmt: skip
def test_which_routes_are_paced(provider: str, enabled: bool, held: bool) -> None:
    """Routes that speak `responses`; other protocols by the key of their provider."""
    assert throttled(lab_config(enabled=enabled), Route(provider, "m")) is held


class Time:
    """A clock that moves while something sleeps on it, and lets others run meanwhile."""

    def __init__(self) -> None:
        self.now = 0
        self._sleepers: list[tuple[int, asyncio.Future[None]]] = []

    def __call__(self) -> int:
        """Nanoseconds."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Sleep until the clock is moved past the end."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + int(seconds * S), turn))
        await turn

    async def run(self, until_s: float) -> None:
        """Move on, waking sleepers in order."""
        end = int(until_s * S)
        while True:
            for _ in range(20):
                await asyncio.sleep(0)
            due = sorted((s for s in self._sleepers if s[0] <= end), key=lambda s: s[0])
            if not due:
                self.now = end
                return
            self._sleepers.remove(due[0])
            self.now = due[0][0]
            if not due[0][1].done():
                due[0][1].set_result(None)


async def test_never_more_than_the_limit_in_any_minute() -> None:
    """Thirty threads at once: each goes in the end, and no 60 seconds hold more than the limit; routes count apart."""
    time = Time()
    pacer = Pacer(lab_config(maxRequestsPerMinute=5), clock=time, sleep=time.sleep, random=lambda: 0.0)
    sent: dict[Route, list[int]] = {ROUTE: [], OTHER: []}

    async def one(route: Route) -> None:
        await pacer.admit(route, tell=lambda text: None)
        sent[route].append(time.now)

    tasks = [asyncio.create_task(one(route)) for route in (ROUTE, OTHER) for _ in range(15)]
    await time.run(600)
    await asyncio.gather(*tasks)
    for times in sent.values():
        assert len(times) == 15
        assert all(later - earlier >= WINDOW_NS for earlier, later in zip(times, times[5:], strict=False))


async def test_a_cancelled_wait_sends_nothing_and_leaves_nothing_behind() -> None:
    """The next one finds no waiter and no place taken by it."""
    time = Time()
    pacer = Pacer(lab_config(maxRequestsPerMinute=1), clock=time, sleep=time.sleep, random=lambda: 0.0)
    await pacer.admit(ROUTE, tell=lambda text: None)
    waiting = asyncio.create_task(pacer.admit(ROUTE, tell=lambda text: None))
    await time.run(0.5)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await time.run(61)
    assert await pacer.admit(ROUTE, tell=lambda text: None) == 61 * S


async def test_the_wait_is_a_column_of_its_own_and_is_told() -> None:
    """The row says how much of the wait was pacing; who asks is told why it waits, and when the wait is over."""
    time, trail, told = Time(), [], []
    pacer = Pacer(lab_config(maxRequestsPerMinute=1), clock=time, sleep=time.sleep, random=lambda: 0.0)
    gate = Gate(pace=pacer, clock=time, sleep=time.sleep)
    rows: list[Attempt] = trail
    model = ScriptedModel(lambda request: "ok")
    await gate.ask(model, ROUTE, ASK, trail=rows, on_wait=told.append)
    second = asyncio.create_task(gate.ask(model, ROUTE, ASK, trail=rows, on_wait=told.append))
    await time.run(90)
    await second
    assert [(a.waited_s, a.paced_s) for a in rows] == [(0.0, 0.0), (60.0, 60.0)]
    assert told == ["paced: at most 1 requests a minute to paced/m", ""]


async def test_an_answer_from_a_recording_does_not_count() -> None:
    """A notebook that is run again from its recording is not slowed down."""
    time = Time()
    pacer = Pacer(lab_config(maxRequestsPerMinute=1), clock=time, sleep=time.sleep)
    gate = Gate(pace=pacer, clock=time, sleep=time.sleep)
    model = ScriptedModel(lambda request: Reply(text="kept", recorded=True))
    for _ in range(5):
        await gate.ask(model, ROUTE, ASK, trail=[])
    assert time.now == 0


async def test_retries_of_a_request_count_once() -> None:
    """One request that is asked three times takes one place of the minute; back-off is the other part of the wait."""
    from slate_lab.models.faults import Fault

    time, trail = Time(), []
    pacer = Pacer(lab_config(maxRequestsPerMinute=2), clock=time, sleep=time.sleep)
    gate = Gate(pace=pacer, clock=time, sleep=time.sleep, random=lambda: 1.0)
    busy = Fault("retry-exhausted", "HTTP 429", transient=True, status=429)
    asked = asyncio.create_task(gate.ask(ScriptedModel([busy, busy, "ok"]), ROUTE, ASK, trail=trail))
    await time.run(5)
    await asked
    assert [(a.waited_s, a.paced_s) for a in trail] == [(0.0, 0.0), (0.5, 0.0), (1.0, 0.0)]
    assert await pacer.admit(ROUTE, tell=lambda text: None) == 5 * S

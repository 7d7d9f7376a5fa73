"""Places on a route: a fixed number, or one that is learned."""

from __future__ import annotations

import asyncio

import pytest

from slate_lab.config import RoutePaceSpec
from slate_lab.errors import ModelError
from slate_lab.models.gate import Gate
from slate_lab.models.places import Places, Width, plan_width
from slate_lab.models.retry import RetrySpec
from slate_lab.models.scripted import ScriptedModel
from slate_lab.records import Message, Request, Route

ASK = Request(messages=(Message(role="user", text="x"),))


@pytest.mark.parametrize(
    ("ends", "places"),
    [
        ("", 1),
        ("....", 5),
        (".........", 8),
        ("....x", 2),
        ("....xx", 1),
        ("xxx", 1),
        ("....x..", 3),
        ("....x.....", 4),
    ],
    ids=["begins with one", "widens with every answer", "never over the most", "halves when it is too much",
         "halves again", "never under one", "then a whole round for one more", "and a longer round for the next"],
)  # fmt: skip
def test_the_width_that_is_learned(ends: str, places: int) -> None:
    """Slow start, halving, and careful growth; `.` is an answer, `x` a 429."""
    width = Width(1, 8)
    for end in ends:
        width = plan_width(width, busy=end == "x")
    assert width.places == places


async def test_first_come_first_served_and_none_is_lost() -> None:
    """Two places, twenty who want one, some of whom give up: never three at once, in order, all places back."""
    places, order, most = Places(2), [], 0

    async def one(n: int) -> None:
        nonlocal most
        async with places.take():
            most = max(most, places.out)
            order.append(n)
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(one(n)) for n in range(20)]
    await asyncio.sleep(0)
    for n in (5, 11):
        tasks[n].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == [n for n in range(20) if n not in (5, 11)]
    assert (most, places.out, places.full) == (2, 0, False)


async def test_many_busy_answers_of_one_moment_halve_once() -> None:
    """Eight requests that are out together and all meet a 429 halve the width once, not eight times."""
    places = Places(8, adaptive=True)
    places.width = Width(8, 8)
    async with asyncio.TaskGroup() as group:
        gone = asyncio.Event()

        async def one() -> None:
            async with places.take() as number:
                await gone.wait()
                places.ended(number, busy=True)

        for _ in range(8):
            group.create_task(one())
        await asyncio.sleep(0)
        gone.set()
    assert places.width.places == 4


async def test_a_route_is_never_asked_more_at_once_than_its_places() -> None:
    """`routes.<route>.maxConcurrent` caps what is out, and a learned width begins with one."""
    busy, most = 0, 0

    async def answer(request: Request) -> str:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.001)
        busy -= 1
        return "ok"

    fixed, learned = Route("p", "fixed"), Route("p", "learned")
    rules = {
        "p/fixed": RoutePaceSpec.model_validate({"maxConcurrent": 3}),
        "p/learned": RoutePaceSpec.model_validate({"adaptive": True}),
    }
    gate, model = Gate(routes=rules, most=4), ScriptedModel(answer)
    await asyncio.gather(*(gate.ask(model, fixed, ASK, trail=[]) for _ in range(12)))
    assert most == 3
    most = 0
    await gate.ask(model, learned, ASK, trail=[])
    await asyncio.gather(*(gate.ask(model, learned, ASK, trail=[]) for _ in range(2)))
    assert most == 2


async def test_a_429_narrows_a_learned_route() -> None:
    """The gate tells the places how an exchange ended."""
    gate = Gate(routes={"p/m": RoutePaceSpec.model_validate({"adaptive": True})}, most=8)
    route, no_retry = Route("p", "m"), RetrySpec(max_retries=0)
    for _ in range(5):
        await gate.ask(ScriptedModel(["ok"]), route, ASK, trail=[])
    with pytest.raises(ModelError):
        await gate.ask(
            ScriptedModel([ModelError("retry-exhausted", "HTTP 429", status=429)]), route, ASK, trail=[], retry=no_retry
        )
    assert gate._places[route].width.places == 3

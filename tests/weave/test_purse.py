"""What is set aside before a call, as a table."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_lab.records import Attempt, Cost, Usage
from slate_lab.weave.ask import counted_once
from slate_lab.weave.purse import LEAST_OUTPUT, Left, TooLittle, plan_hold, shortest

D = Decimal


@pytest.mark.parametrize(
    ("left", "prompt", "token", "wanted", "plan"),
    [
        (1_000_000, 100, 10, 512, (5_220, 512)),
        (1_000_000, 100, 10, None, (250_000, 24_990)),
        (1_000_000, 100, 10, 128_000, (250_000, 24_990)),
        (20_000, 100, 10, 128_000, (10_340, LEAST_OUTPUT)),
        (10_340, 100, 10, None, (10_340, LEAST_OUTPUT)),
        (10_339, 100, 10, None, None),
        (1_000, 100, 10, 50, (600, 50)),
        (99, 100, 10, 0, None),
        (0, 0, 0, None, (0, None)),
        (5, 6, 0, None, None),
    ],
    ids=[
        "a short answer is set aside whole",
        "an answer of unknown length: a quarter of what is left",
        "a very long one is cut to a quarter",
        "never under the least that is worth asking for",
        "just enough for the least",
        "a nano-dollar too little",
        "a model of short answers needs less",
        "the prompt alone is too much",
        "what costs nothing is always paid for",
        "free answers, but not the prompt",
    ],
)
def test_what_is_set_aside(
    left: int, prompt: int, token: int, wanted: int | None, plan: tuple[int, int | None] | None
) -> None:
    """The prompt and the longest answer, cut so that it can be paid and others still find something."""
    assert plan_hold(left, prompt=prompt, token=D(token), wanted=wanted) == plan


@given(st.integers(0, 10**12), st.integers(0, 10**9), st.decimals(0, 10**6, places=3), st.integers(1, 200_000))
def test_never_more_than_is_left(left: int, prompt: int, token: Decimal, wanted: int) -> None:
    """What is set aside is there, covers prompt and answer, and the answer is no longer than asked."""
    plan = plan_hold(left, prompt=prompt, token=token, wanted=wanted)
    if plan is not None:
        nusd, output = plan
        assert nusd <= left
        assert output is not None
        assert output <= wanted
        assert nusd >= prompt + output * token - 1


def test_the_error_tells_the_figures() -> None:
    """What was used, what is set aside for others, what would be needed: in dollars."""
    short = Left(kind="day_usd", cap=10**9, used=4 * 10**8, others=5 * 10**8)
    error = TooLittle(short, 2 * 10**8)
    assert error.code == "limit_day_usd"
    assert error.message == (
        "the limit day_usd=1 leaves too little for the next call: 0.4 used, 0.5 set aside for other threads, "
        "about 0.2 needed"
    )
    assert TooLittle(Left(kind="usd", cap=5, used=5), 1).message.startswith("the limit usd=5e-09 was reached")
    assert shortest([short, Left(kind="usd", cap=9, used=8)]) == Left(kind="usd", cap=9, used=8)
    assert shortest([]) is None


def tried(id: str | None, tokens: int, n: int) -> Attempt:
    """An attempt whose answer has an id and a cost."""
    return Attempt(n=n, outcome="ok", started_ns=1, ended_ns=2, usage=Usage(input_fresh=tokens, output=0),
                   cost=Cost(nusd=tokens, price="config"), response_id=id, raw_usage={"n": tokens})  # fmt: skip


@pytest.mark.parametrize(
    ("trail", "counted"),
    [
        ([("a", 5), ("b", 7)], [5, 7]),
        ([("a", 5), ("a", 5)], [0, 5]),
        ([("a", 9), ("a", 5)], [9, 0]),
        ([(None, 5), (None, 5)], [5, 5]),
        ([("", 5), ("", 5)], [5, 5]),
        ([("a", 5), ("b", 7), ("a", 6)], [0, 7, 6]),
    ],
    ids=["two answers", "the same twice", "the fullest report counts", "without ids", "empty ids", "with one between"],
)
def test_a_response_id_is_counted_once(trail: list[tuple[str | None, int]], counted: list[int]) -> None:
    """An answer that came twice is billed once; what the provider sent is kept with both."""
    once = counted_once([tried(id, tokens, n) for n, (id, tokens) in enumerate(trail, 1)])
    assert [a.cost.nusd for a in once] == counted
    assert [a.usage.tokens or 0 for a in once] == counted
    assert [a.raw_usage for a in once] == [{"n": tokens} for _, tokens in trail]
    assert {a.cost.price for a in once if not a.cost.nusd} <= {"counted once"}

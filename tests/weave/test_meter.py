"""Limits are checked before each call, counted while running, and told to the model."""

from __future__ import annotations

from decimal import Decimal

import pytest

from slate_lab.errors import LimitExceeded
from slate_lab.records import Limits, Usage
from slate_lab.weave.meter import Meter


class Clock:
    """A clock that moves when told."""

    now = 0

    def __call__(self) -> int:
        return self.now


@pytest.mark.parametrize(
    ("limits", "kind"),
    [
        (Limits(turns=2), "turns"),
        (Limits(tokens=100), "tokens"),
        (Limits(seconds=5), "seconds"),
        (Limits(usd=Decimal("0.001")), "usd"),
    ],
    ids=["turns", "tokens", "seconds", "usd"],
)
def test_a_limit_that_is_used_up_stops_the_next_call(limits, kind):
    """The error names the limit, what was used and what was allowed."""
    clock = Clock()
    meter = Meter(limits, clock)
    meter.check()
    meter.turns = 2
    meter.spend(Usage(input_fresh=60, output=40), 1_000_000)
    clock.now = 5 * 10**9
    with pytest.raises(LimitExceeded) as caught:
        meter.check()
    assert caught.value.kind == kind
    assert caught.value.used >= caught.value.limit


def test_tools_are_withheld_on_the_last_turn_and_when_none_is_left():
    """A worker at its limit can still answer instead of failing with its hands full."""
    meter = Meter(Limits(turns=2, tool_calls=3), Clock())
    assert meter.may_call_tools
    meter.tool_calls = 3
    assert not meter.may_call_tools
    meter.tool_calls, meter.turns = 0, 1
    assert not meter.may_call_tools
    meter.check()


def test_more_calls_in_one_reply_than_allowed_end_the_action():
    """A reply cannot overshoot the limit by asking for many tools at once."""
    meter = Meter(Limits(tool_calls=3), Clock())
    meter.check_tools(3)
    with pytest.raises(LimitExceeded):
        meter.check_tools(4)


def test_a_call_of_unknown_cost_does_not_lift_the_cap():
    """What is known goes on counting against the limit."""
    meter = Meter(Limits(usd=Decimal("0.00000001")), Clock())
    meter.spend(Usage(output=1), 5)
    meter.spend(Usage(output=1), None)
    meter.check()
    meter.spend(Usage(output=1), 5)
    with pytest.raises(LimitExceeded):
        meter.check()


def test_what_is_left_is_told_in_words():
    """Only limits that were set are mentioned."""
    meter = Meter(Limits(turns=5, usd=Decimal("0.5")), Clock())
    meter.turns = 2
    assert meter.left() == "You have left: 3 turns, 0.5 USD."
    assert Meter(Limits(), Clock()).left() == ""

"""The cost audit: reports of providers, and the cents they come to."""

from __future__ import annotations

from decimal import Decimal

import pytest

from bench.audit import ROWS, Row, rows
from slate_lab.models.gate import Gate
from slate_lab.models.once import AGAIN
from slate_lab.models.retry import RetrySpec
from slate_lab.models.scripted import ScriptedModel
from slate_lab.records import Attempt, Message, Reply, Request, Route, Usage


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_buckets_and_cents_are_as_worked_out_by_hand(row: Row) -> None:
    """Expected and computed, equal to the last nano-dollar; what is not known is None, never 0."""
    usage, cost = row.computed()
    assert usage == row.expect
    assert cost == (None if row.usd is None else Decimal(row.usd))


def test_the_table_says_so() -> None:
    """The printed table has a row for every report, each of them equal."""
    table = list(rows())
    assert len(table) == len(ROWS) + 1
    assert all("  yes  " in line for line in table[1:])


async def test_an_answer_that_is_delivered_twice_is_counted_once() -> None:
    """Within a call: two rows with the same response id; the emptied one says why, the sum holds one answer."""
    from slate_lab.models.faults import Fault

    half = Fault("bad-reply", "broke off", transient=True, usage=Usage(input_fresh=10, output=1), response_id="r1")
    whole = Reply(text="hi", usage=Usage(input_fresh=10, output=5), response_id="r1")
    trail: list[Attempt] = []
    request = Request(messages=(Message(role="user", text="x"),))
    await Gate().ask(
        ScriptedModel([half, whole]), Route("scripted", "m"), request, trail=trail, retry=RetrySpec(base_s=0.001)
    )
    assert [(a.usage.output, a.cost.price) for a in trail] == [(None, AGAIN), (5, "scripted")]

"""Each answer of a provider is counted once, however often it is delivered.

In: the rows of a call so far, and the next one. Out: the rows with it; of two rows with the same response id the one
that reports less is emptied, with cost 0 and the reason in its price. Pure. Called by the gate.
"""

from __future__ import annotations

import msgspec

from slate_lab.records import Attempt, Cost, Usage

__all__ = ["AGAIN", "add_once"]

AGAIN = "counted once"
"""The price of a row whose answer is counted in another row of the same call."""


def add_once(trail: list[Attempt], row: Attempt) -> None:
    """Append `row` to `trail`; an answer that stands in it already is not counted a second time."""
    twin = next((n for n, a in enumerate(trail) if a.response_id and a.response_id == row.response_id), None)
    if twin is not None:
        if (trail[twin].usage.tokens or 0) > (row.usage.tokens or 0):
            row = _emptied(row)
        else:
            trail[twin] = _emptied(trail[twin])
    trail.append(row)


def _emptied(row: Attempt) -> Attempt:
    cost = Cost(nusd=0, price=AGAIN)
    return msgspec.structs.replace(row, usage=Usage(), cost=cost, recorded_cost=cost if row.recorded else None)

"""Limits of a block: context managers with usage and what remains, checked before each call, told to the model."""

from __future__ import annotations

import pytest

import slate_lab as sl
from slate_lab.errors import DispatchError
from slate_lab.records import Request
from slate_lab.weave.limit import limit, meters_here

READ_A = {"tool": "read", "args": {"path": "notes/a.md"}}


def test_a_block_holds_everything_dispatched_inside_together(open_lab):
    """Two actions share three turns: the second is stopped before the call that would be one too many."""
    lab = open_lab(lambda r: "{}" if r.schema else READ_A if len(r.messages) == 2 and r.tools else "done")
    with sl.limit(turns=3) as cap:
        assert lab.thread("one", type="researcher").status == "ok"
        assert (cap.usage["turns"], cap.remaining) == (2, {"turns": 1})
        assert lab.thread("two", type="researcher").status == "ok"  # its last turn has no tools: it answers at once
        over = lab.thread("three", type="researcher")
    assert (over.status, over.code) == ("failed", "limit_turns")
    assert (cap.exceeded, cap.remaining["turns"]) == ("turns", 0)
    assert lab.thread("outside", type="researcher").status == "ok"
    assert cap.usage["turns"] == 3


def test_blocks_nest_and_the_model_is_told_the_least_that_is_left(open_lab):
    """The action's own limit, the inner and the outer block all hold."""
    model = sl.ScriptedModel([READ_A, "done"])
    lab = open_lab(model)
    with sl.limit(tokens=900_000, turns=9), sl.limit(tokens=800_000) as inner:
        lab.thread("x", type="researcher", limits={"turns": 5})
    told = [m.text for r in model.requests for m in r.messages if m.text.startswith("You have left")]
    assert told[0].startswith("You have left: 4 turns, 7")
    assert inner.usage["tokens"] > 0


def test_seconds_count_from_the_start_of_the_block():
    """On the clock that is given."""
    now = [0]
    with limit(seconds=5, clock=lambda: now[0]) as cap:
        now[0] = 3 * 10**9
        assert cap.remaining == {"seconds": 2.0}
        now[0] = 9 * 10**9
        assert (cap.remaining, cap.exceeded) == ({"seconds": 0.0}, "seconds")
    assert meters_here() == ()


def test_time_of_a_block_ends_a_call_that_hangs(open_lab):
    """The thread is stopped while it waits for the model, with the limit's code."""
    import asyncio

    async def answer(request: Request) -> str:
        await asyncio.sleep(60)
        return "never"

    with sl.limit(seconds=0.1):
        episode = open_lab(answer).thread("x", type="query")
    assert (episode.status, episode.code) == ("failed", "limit_seconds")


@pytest.mark.parametrize("bad", [{"turns": 0}, {"tokns": 5}, {"turns": "x"}], ids=str)
def test_a_limit_that_cannot_hold_is_refused(bad):
    """At once, not at the first call."""
    with pytest.raises(DispatchError):
        limit(**bad)


def test_a_limit_holds_one_block():
    """Entering it twice would start its clock anew."""
    cap = limit(turns=1)
    with cap, pytest.raises(DispatchError, match="one block"), cap:
        pass


def test_the_limits_of_a_block_do_not_leak_into_the_next():
    """Also when the block ends by an error."""
    with pytest.raises(KeyError), limit(turns=1):
        raise KeyError
    assert meters_here() == ()

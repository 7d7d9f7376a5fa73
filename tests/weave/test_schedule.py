"""The permit queue as tables and properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_lab.weave.schedule import Queue


def test_permits_are_granted_in_order_of_joining():
    """A freed permit goes straight to the next waiter."""
    queue = Queue(2)
    assert [queue.join(id, "r") for id in ("t1", "t2", "t3", "t4")] == [["t1"], ["t2"], [], []]
    assert queue.position("t3") == 1
    assert queue.position("t4") == 2
    assert queue.position("t1") is None
    assert queue.leave("t2") == ["t3"]
    assert queue.leave("t1") == ["t4"]
    assert queue.leave("t3") == []


def test_a_waiter_that_leaves_frees_its_place_and_no_permit():
    """Cancelled while queued: the place is freed at once and nobody starts because of it."""
    queue = Queue(1)
    queue.join("t1", "r")
    queue.join("t2", "r")
    queue.join("t3", "r")
    assert queue.leave("t2") == []
    assert queue.position("t3") == 1
    assert queue.leave("t1") == ["t3"]


def test_a_capped_route_never_holds_up_the_others():
    """The embedded model answers one at a time; hosted models behind it in line go on."""
    queue = Queue(3, caps={"local": 1})
    assert queue.join("t1", "local") == ["t1"]
    assert queue.join("t2", "local") == []
    assert queue.join("t3", "hosted") == ["t3"]
    assert queue.leave("t1") == ["t2"]


def test_a_cap_of_a_route_and_one_of_its_provider_both_hold():
    """A waiter starts when all its caps allow it, and what holds it up is named."""
    queue = Queue(9, caps={"openai": 2, "openai/small": 1})
    assert queue.join("t1", "openai", "openai/small") == ["t1"]
    assert queue.join("t2", "openai", "openai/small") == []
    assert queue.join("t3", "openai", "openai/large") == ["t3"]
    assert queue.join("t4", "openai", "openai/large") == []
    assert queue.join("t5", "groq", "groq/x") == ["t5"]
    assert (queue.held_up("t2"), queue.held_up("t4"), queue.held_up("t5")) == ("openai", "openai", None)
    assert queue.leave("t1") == ["t2"]
    assert queue.leave("t3") == ["t4"]
    assert queue.leave("t2") == []


def test_joining_twice_is_a_fault():
    """One action is in line once."""
    queue = Queue(1)
    queue.join("t1", "r")
    with pytest.raises(ValueError, match="already"):
        queue.join("t1", "r")


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.sampled_from("ab")), max_size=60),
)
def test_never_more_holders_than_permits_and_no_idle_permit(permits, steps):
    """At every moment: holders <= permits, caps hold, first come first served per route, nobody waits for nothing."""
    queue = Queue(permits, caps={"a": 2})
    routes: dict[str, str] = {}
    joined: list[str] = []
    started: list[str] = []
    for number, (join, pick, route) in enumerate(steps):
        if join:
            id = f"t{number}"
            routes[id] = route
            joined.append(id)
            started += queue.join(id, route)
        elif joined:
            gone = joined.pop(pick % len(joined))
            started += queue.leave(gone)
        held = [routes[id] for id in queue.holding]
        assert len(held) <= permits
        assert held.count("a") <= 2
        if len(held) < permits:
            assert all(routes[id] == "a" and held.count("a") == 2 for id in queue.waiting)
    for route in "ab":
        order = [id for id in started if routes[id] == route]
        assert order == sorted(order, key=lambda id: int(id[1:]))

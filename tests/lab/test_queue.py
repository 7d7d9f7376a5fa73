"""The queue as a person sees it: places, waiting times, who holds the permits, and what keeps a waiter."""

from __future__ import annotations

import asyncio
import itertools
import signal
import threading
import time

import pytest

import slate_lab as sl
from slate_lab.errors import DispatchError
from slate_lab.records import Request


class Gate:
    """A model that answers when it is let."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.asked: list[str] = []

    async def __call__(self, request: Request) -> str:
        self.asked.append(request.messages[-1].text)
        while not self.open.is_set():
            await asyncio.sleep(0.002)
        return "{}" if request.schema else "done"

    def until(self, n: int) -> None:
        """Wait until `n` requests have come."""
        for _ in range(2_000):
            if len(self.asked) >= n:
                return
            threading.Event().wait(0.005)
        raise AssertionError(f"{len(self.asked)} requests, not {n}")


def test_who_holds_and_who_waits_is_visible_in_status_handle_and_frame(open_lab):
    """Position, waiting time, holders: the same three facts wherever a person looks."""
    gate = Gate()
    lab = open_lab(gate, maxConcurrent=2)
    handles = [lab.dispatch(f"Task {i}.", type="query", name=f"n{i}") for i in range(4)]
    last = lab.dispatch("After.", type="query", after=[handles[3].id])
    gate.until(2)
    while handles[3].position is None:  # it joins the line on the lab's loop
        time.sleep(0.01)
    queue = lab.status()["queue"]
    assert (queue["permits"], queue["free"]) == (2, 0)
    assert [(h["id"], h["label"], h["route"]) for h in queue["holding"]] == [
        ("t1", "n0", "scripted/own"),
        ("t2", "n1", "scripted/own"),
    ]
    assert [(w["id"], w["position"], w["for"]) for w in queue["waiting"]] == [
        ("t3", 1, "a permit"),
        ("t4", 2, "a permit"),
        ("t5", None, "t4"),
    ]
    assert handles[2].position == 1
    assert handles[2].holders == ("t1", "t2")
    later, earlier = handles[3].waited_s, handles[2].waited_s  # in this order the clock between them helps nobody
    assert earlier >= later > 0
    assert last.position is None
    frame = lab.frames.threads().set_index("id")
    assert list(frame["position"].fillna(0)) == [0, 0, 1, 2, 3]
    assert list(frame["holds_permit"]) == [True, True, False, False, False]
    assert frame["waited_s"]["t3"] > 0
    gate.open.set()
    lab.wait(10)
    assert lab.status()["queue"]["holding"] == lab.status()["queue"]["waiting"] == []
    assert list(lab.frames.threads()["holds_permit"]) == [False] * 5


def test_a_cap_of_a_provider_is_named_as_what_keeps_a_waiter(project):
    """A local model answers one at a time: the second waits for it, with permits free, and others pass it."""
    gate = Gate()
    config = {"maxConcurrent": 4, "providers": {"scripted": {"protocol": "scripted", "maxConcurrent": 1}}}
    with sl.Lab.open(project, store=":memory:", config=config, models=sl.ScriptedModel(gate)) as lab:
        handles = [lab.dispatch(f"{i}", type="query") for i in range(2)]
        gate.until(1)
        while handles[1].position is None:
            threading.Event().wait(0.005)
        (waiter,) = lab.status()["queue"]["waiting"]
        assert (waiter["id"], waiter["for"]) == ("t2", "the cap of scripted")
        assert lab.status()["queue"]["free"] == 3
        gate.open.set()


def test_a_permit_is_held_through_the_compression_and_handed_straight_on(open_lab):
    """The next one starts when the episode is stored, not when the conversation ends."""
    order: list[str] = []

    async def answer(request: Request) -> str:
        what = "compress" if request.schema else request.messages[-1].text
        order.append(what)
        await asyncio.sleep(0.005)
        return "{}" if request.schema else "done"

    lab = open_lab(answer, maxConcurrent=1)
    for handle in [lab.dispatch(word, type="query") for word in ("one", "two", "three")]:
        handle.result(10)
    compressed = [i for i, what in enumerate(order) if what == "compress"]
    assert [order.index(word) for word in ("one", "two", "three")] == [0, compressed[1] + 1, compressed[3] + 1]
    threads = lab.threads()
    assert all(b.started_ns >= a.ended_ns for a, b in itertools.pairwise(threads))


@pytest.mark.parametrize("depth", [0, 2])
def test_as_many_may_wait_as_the_depth_says(open_lab, depth):
    """Those that run do not count as waiting; depth 0 lets nobody wait and everybody run."""
    gate = Gate()
    lab = open_lab(gate, maxConcurrent=2, queue={"depth": depth})
    for i in range(2 + depth):
        lab.dispatch(f"{i}", type="query")
    with pytest.raises(DispatchError, match=f"depth={depth}") as caught:
        lab.dispatch("one too many", type="query")
    assert caught.value.code == "queue_full"
    with pytest.raises(DispatchError, match=r"queue.depth"):
        lab.batch([sl.Action(task="a", type="query"), sl.Action(task="b", type="query")])
    assert len(lab.threads()) == 2 + depth
    gate.open.set()


class Alarm:
    """A clock that sends Ctrl-C to the main thread when it is read by it for the `at`-th time after `set`."""

    def __init__(self) -> None:
        self.left = -1

    def __call__(self) -> int:
        if threading.current_thread() is threading.main_thread() and self.left >= 0:
            self.left -= 1
            if self.left < 0:
                signal.raise_signal(signal.SIGINT)
        import time

        return time.time_ns()


CUTS = [("dispatch", 0), ("thread", 0), ("retry", 0), ("batch", 0), ("batch", 1), ("batch", 2)]


@pytest.mark.parametrize(("how", "at"), CUTS)
def test_an_interrupt_that_lands_inside_a_dispatch_leaves_no_orphan(project, how, at):
    """Whatever was stored is cancelled and settles; the queue is free again, and the interrupt reaches the caller."""
    alarm = Alarm()

    async def answer(request: Request) -> str:
        await asyncio.sleep(0 if request.messages[-1].text == "free" or request.schema else 0.4)
        return "{}" if request.schema else "done"

    model = sl.ScriptedModel(answer)
    with sl.Lab.open(project, store=":memory:", models=model, clock=alarm, config={"maxConcurrent": 1}) as lab:
        lab.thread("free", type="query")
        calls = {
            "dispatch": lambda: lab.dispatch("x", type="query"),
            "thread": lambda: lab.thread("x", type="query"),
            "batch": lambda: lab.batch([sl.Action(task=t, type="query") for t in ("x", "y", "z")]),
            "retry": lambda: lab.retry("t1", task="x"),
        }
        alarm.left = at
        with pytest.raises(KeyboardInterrupt):
            calls[how]()
        lab.wait(5)
        ended = [thread.state for thread in lab.threads()[1:]]
        assert ended == ["cancelled"] * (3 if how == "batch" else 1)
        assert lab.live() == []
        assert lab.thread("free", type="query").status == "ok"

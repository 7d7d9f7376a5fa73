"""Cancel against completion, step by step on a loop and a clock that move when told: one terminal record each.

At every step of an action's life a cancel, or two, is sent. A trigger in the store notes each change into a terminal
state, so that a second one, or one that overwrites, is seen whoever wrote it.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import sqlite3
from pathlib import Path

import pytest

from slate_lab.errors import DispatchError
from slate_lab.models.scripted import ScriptedModel
from slate_lab.records import Episode, Request
from slate_lab.store import Store
from slate_lab.weave.handle import Handle
from tests.weave.engine import Engine, Ticks, steps

AUDIT = """
CREATE TABLE ended (n INTEGER, was TEXT, now TEXT);
CREATE TRIGGER note AFTER UPDATE ON thread WHEN NEW.state NOT IN ('queued', 'running')
    AND (OLD.state <> NEW.state OR OLD.code IS NOT NEW.code)
    BEGIN INSERT INTO ended VALUES (NEW.n, OLD.state, NEW.state); END;
"""
GROUP = 40
LOOK = {"tool": "nothing", "args": {}}


def audited(path: Path) -> Store:
    """A store that notes every change into a terminal state."""
    store = Store.open(path, clock=Ticks())
    with sqlite3.connect(path) as other:
        other.executescript(AUDIT)
    other.close()
    return store


async def answer(request: Request):
    """Two turns with a fact in between, or one without; each takes a few steps of the loop."""
    await steps(2)
    if request.schema:
        await steps(2)
        return "{}"
    if request.messages[-1].text.startswith("facts"):
        return LOOK
    return "done"


async def cancel_at(handle: Handle, first: int, second: int | None, compress: bool) -> None:
    """Cancel after `first` steps, and again `second` steps later."""
    await steps(first)
    handle.cancel(compress=compress)
    if second is not None:
        await steps(second)
        handle.cancel()


def outcome(handle: Handle) -> Episode | str:
    """What the caller got."""
    assert handle.done()
    try:
        return handle.result(0)
    except DispatchError as e:
        return e.code


def check(engine: Engine, handles: list[Handle]) -> dict[str, int]:
    """Every handle settled once, as the store says; returns how many ended in which state."""
    counts: dict[str, int] = {}
    _, rows = engine.store.query("SELECT n, was, now FROM ended ORDER BY rowid")
    assert len(rows) == len({n for n, _, _ in rows}) == len(handles), "a second terminal record, or one lost"
    assert all(was in ("queued", "running") for _, was, _ in rows), "a terminal record was overwritten"
    for handle in handles:
        got, thread = outcome(handle), engine.store.threads.get(handle.id)
        stored = engine.store.episodes.get(f"{handle.id}.e1")
        assert thread is not None
        assert thread.ended
        assert thread.state == handle.state
        counts[thread.state] = counts.get(thread.state, 0) + 1
        assert (thread.state == "cancelled") == (stored is None) == (got == "cancelled")
        if isinstance(got, Episode):
            assert got == stored
            assert (got.status == "ok") == (thread.state == "successful")
        assert engine.store.threads.settle(handle.id, state="successful") is False, "a late result was let in"
    assert engine.dispatcher.holding == engine.dispatcher.waiting == ()
    return counts


async def race(engine: Engine, cases: list[tuple[str, int, int | None, bool]]) -> dict[str, int]:
    """All cases in groups of forty, the cancels of a group at their own steps; returns the counts."""
    handles: list[Handle] = []
    for start in range(0, len(cases), GROUP):
        group = cases[start : start + GROUP]
        made = [engine.dispatch(task, type="query") for task, *_ in group]
        await asyncio.gather(*(cancel_at(h, *rest) for h, (_, *rest) in zip(made, group, strict=True)))
        await engine.settled()
        handles += made
    return check(engine, handles)


SECOND = (None, 0, 1, 2, 3, 5, 8, 13)


@pytest.mark.parametrize(
    ("permits", "second"),
    [
        pytest.param(64, SECOND[::3], id="all run at once"),
        pytest.param(4, SECOND[::3], id="most wait in the queue"),
        pytest.param(64, SECOND, id="all run at once, every second cancel", marks=pytest.mark.drill),
        pytest.param(4, SECOND, id="most wait in the queue, every second cancel", marks=pytest.mark.drill),
    ],
)
async def test_cancel_at_every_step_against_completion_gives_one_terminal_record(tmp_path, permits, second):
    """Hundreds of races: at each step of its life, once or twice, with and without compression; one record each."""
    engine = Engine(tmp_path, ScriptedModel(answer), store=audited(tmp_path / "s.db"), maxConcurrent=permits)
    cases = list(itertools.product(("facts", "none"), range(32), second, (True, False)))
    counts = await race(engine, cases)
    assert sum(counts.values()) == 128 * len(second)
    assert set(counts) == {"successful", "failed", "cancelled"}, counts
    engine.store.close()


@pytest.mark.drill
@pytest.mark.parametrize("seed", range(5))
async def test_twenty_thousand_races_at_random_steps(tmp_path, seed):
    """The same with up to three cancels at random steps; prints the counts."""
    chance = random.Random(seed)
    engine = Engine(
        tmp_path, ScriptedModel(answer), store=audited(tmp_path / "s.db"), maxConcurrent=chance.randint(1, 64)
    )
    cases = [
        (
            chance.choice(("facts", "none")),
            chance.randint(0, 90),
            chance.choice((None, 0, 1, 2, 5, 9)),
            chance.random() < 0.5,
        )
        for _ in range(4_000)
    ]
    print(f"seed {seed}: {len(cases)} races, {await race(engine, cases)}, none double, lost or overwritten")
    engine.store.close()

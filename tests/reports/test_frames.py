"""Frames: declared columns, the same for no rows as for many."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import msgspec
import pandas as pd
import pytest

from slate_lab.config import LabConfig
from slate_lab.errors import LabError, StoreError
from slate_lab.records import Action, Attempt, Call, Cost, Episode, Fact, Finding, SlotEvent, Usage
from slate_lab.reports.columns import build
from slate_lab.reports.declared import FRAMES, SUMMARY
from slate_lab.reports.frames import Frames
from slate_lab.slates import Slates
from slate_lab.store import Store

EVERY = [*FRAMES, SUMMARY.name]
S = 1_000_000_000


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty store in memory, with a clock that moves a second at each look."""
    ticks = iter(range(1_700_000_000, 1_800_000_000))
    with Store.open(":memory:", clock=lambda: next(ticks) * S) as store:
        yield store


def remember(store: Store) -> None:
    """A folder of 4 tokens with one block, after one was evicted and one replaced."""
    folder = {"name": "f", "tokenLimit": 4}
    declared = LabConfig.model_validate({"slates": [{"title": "M", "folders": [folder]}]}).slates
    slates = Slates(declared, store.blocks, count=lambda text: len(text.split()), encoding="words", clock=lambda: 1)
    slates.write("M/f/a", "one two three", cause="t1")
    slates.write("M/f/b", "four five", cause="t2")
    slates.write("M/f/b", "six", mode="replace")


def fill(store: Store) -> None:
    """Three threads: one with an episode, one that failed, one still queued; calls with known and unknown costs."""
    for name, kind in (("a", "researcher"), ("b", "general"), (None, "general")):
        store.threads.queue(
            Action(task=f"Look into {name}\nand more", name=name, type=kind),
            logical="sonnet",
            provider="anthropic",
            model="claude",
            window=1000,
        )
    remember(store)
    store.threads.start("t1")
    store.threads.brief("t1", [{"source": "preamble", "tokens": 150, "exact": False}])
    store.facts.add("t1", Fact(n=1, kind="text", text="found it"))
    add(store, "t1", nusd=1_234_567_891, kind="worker", usage=Usage(input_fresh=10, cache_read=5, output=3))
    add(store, "t1", nusd=0, kind="compressor", recorded=Cost(nusd=7, price="genai-prices"))
    add(store, "t2", nusd=None, kind="worker", outcome="timeout", usage=Usage())
    store.events.add("worker.fault", thread="t2", data={"x": 1})
    store.events.add("opened")
    session = store.turns.open().id
    store.turns.begin(session, "t2")
    event = SlotEvent(session=session, turn=1, slot="a", phase="input", lane="serial", what="failed", at_ns=1)
    store.turns.add([event, msgspec.structs.replace(event, turn=0, duration_ns=2_000, detail="x", allowed=True)])
    episode = Episode(
        id="t1.e1",
        thread="t1",
        type="researcher",
        findings=(Finding(text="it"),),
        fact_count=1,
        facts_tokens=40,
        episode_tokens=16,
        cost_nusd=1_234_567_891,
        started_ns=1 * S,
        ended_ns=3 * S,
    )
    store.threads.settle("t1", state="successful", episode=episode)
    store.threads.start("t2")
    store.threads.settle("t2", state="failed", code="timeout", detail="no answer")


def add(
    store: Store,
    thread: str,
    *,
    nusd: int | None,
    kind: str,
    outcome: str = "ok",
    usage: Usage | None = None,
    recorded: Cost | None = None,
) -> None:
    """One call with one attempt."""
    usage = usage or Usage()
    cost = Cost(nusd=nusd, price=None if nusd is None else "config")
    times = {"started_ns": 5 * S, "ended_ns": 7 * S + 500_000_000}
    attempt = Attempt(
        n=1,
        outcome="transient" if outcome == "timeout" else outcome,
        usage=usage,
        cost=cost,
        recorded=recorded is not None,
        recorded_cost=recorded,
        **times,
    )
    store.calls.add(
        Call(
            thread=thread,
            kind=kind,
            logical="sonnet",
            provider="anthropic",
            model="claude",
            outcome=outcome,
            finish="stop" if outcome == "ok" else None,
            usage=usage,
            cost=cost,
            attempts=(attempt,),
            **times,
        )
    )


def read(frames: Frames, name: str) -> pd.DataFrame:
    """The frame of this name."""
    frame = getattr(frames, name)()
    assert isinstance(frame, pd.DataFrame)
    return frame


@pytest.mark.parametrize("name", EVERY)
def test_dtypes_are_declared_and_do_not_depend_on_the_rows(store: Store, name: str) -> None:
    """An empty store, rows with nulls and many rows give the same columns, dtypes and categories: the declared ones."""
    frames = Frames(store)
    empty = read(frames, name)
    fill(store)
    full = read(frames, name)
    assert len(empty) == 0
    assert len(full) > 0
    assert dict(empty.dtypes) == dict(full.dtypes)
    assert [str(d) for d in full.dtypes] == list(frames.schema(name)["dtype"])
    assert list(full.columns) == list(frames.schema(name)["name"])


@pytest.mark.parametrize("name", EVERY)
def test_a_column_of_nulls_keeps_its_dtype(name: str) -> None:
    """A frame in which nothing is known has the declared dtypes, and everything in it is null, not 0 and not empty."""
    declared = FRAMES.get(name, SUMMARY)
    nulls = [tuple(None for _ in declared.reads)] * 3
    optional = [c for c in declared.columns if c.kind != "joined"]
    frame = build(type(declared)(declared.name, declared.row, tuple(optional), declared.source), _kept(declared, nulls))
    assert frame.isna().all().all()
    assert [str(d) for d in frame.dtypes] == [c.dtype for c in optional]


def _kept(declared: object, rows: list[tuple[None, ...]]) -> list[tuple[None, ...]]:
    optional = [c for c in declared.columns if c.kind != "joined"]  # type: ignore[attr-defined]
    width = len({source for c in optional for source in c.sources})
    return [row[:width] for row in rows]


@pytest.mark.parametrize("name", EVERY)
def test_every_column_says_what_it_means(store: Store, name: str) -> None:
    """The schema gives each column a meaning, tokens, seconds and dollars their unit, each category its words."""
    schema = Frames(store).schema(name)
    assert (schema["meaning"].str.len() > 3).all()
    assert schema["name"].is_unique
    for suffix, unit in (("_tokens", "tokens"), ("_s", "s"), ("_usd", "USD"), ("_usd_exact", "USD")):
        assert (schema[schema["name"].str.endswith(suffix)]["unit"] == unit).all()
    assert ((schema["dtype"] == "category") == (schema["words"] != "")).all()


def test_an_unknown_cost_stays_null_and_a_known_one_is_exact(store: Store) -> None:
    """Dollars stand twice, as a float and as an exact decimal; what is unknown is null in both, free is 0 in both."""
    fill(store)
    calls = Frames(store).calls()
    assert calls["cost_usd"].tolist()[:2] == [1.234567891, 0.0]
    assert calls["cost_usd"].isna().tolist() == [False, False, True]
    assert [Decimal(x) for x in calls["cost_usd_exact"].dropna()] == [Decimal("1.234567891"), Decimal(0)]
    assert pd.isna(calls["cost_usd_exact"][2])


def test_tokens_add_what_is_known(store: Store) -> None:
    """All input is the sum of the buckets somebody reported; where nobody reported any it is null, not 0."""
    fill(store)
    calls = Frames(store).calls()
    assert calls["input_tokens"].tolist()[0] == 15
    assert calls["input_tokens"].isna().tolist() == [False, True, True]
    assert calls["took_s"].tolist() == [2.5, 2.5, 2.5]


def test_costs_join_each_attempt_with_its_thread(store: Store) -> None:
    """One row per attempt: thread, its type, kind, model, route, cost, whether recorded and what it cost then."""
    fill(store)
    costs = Frames(store).costs()
    wanted = ["thread", "type", "kind", "logical", "route", "outcome", "recorded"]
    assert costs[wanted].astype(object).to_numpy().tolist() == [
        ["t1", "researcher", "worker", "sonnet", "anthropic/claude", "ok", False],
        ["t1", "researcher", "compressor", "sonnet", "anthropic/claude", "ok", True],
        ["t2", "general", "worker", "sonnet", "anthropic/claude", "transient", False],
    ]
    assert costs["recorded_cost_usd_exact"].tolist()[1] == "0.000000007"


def test_the_summary_does_not_pass_an_unknown_cost_off_as_nothing(store: Store) -> None:
    """Cost by model and thread type: a group with an unpriced call has a null cost, and says what is known of it."""
    fill(store)
    summary = Frames(store).summary().set_index("type")
    assert summary["cost_usd_exact"].to_dict()["researcher"] == "1.234567891"
    assert pd.isna(summary["cost_usd"]["general"])
    assert summary["unpriced"].to_dict() == {"general": 1, "researcher": 0}
    assert summary["calls"].to_dict() == {"general": 1, "researcher": 2}


def test_threads_episodes_context_and_events_say_what_the_store_holds(store: Store) -> None:
    """States, waiting and running seconds, compression ratio, the brief by source, and events with their JSON."""
    fill(store)
    frames = Frames(store)
    threads = frames.threads()
    assert threads["state"].tolist() == ["successful", "failed", "queued"]
    assert threads["label"].tolist() == ["a", "b", "Look into None"]
    assert threads["ran_s"].isna().tolist() == [False, False, True]
    assert threads["episode"].tolist()[0] == "t1.e1"
    assert frames.episodes()[["ratio", "ran_s", "findings"]].to_numpy().tolist() == [[2.5, 2.0, 1]]
    assert frames.context()[["source", "tokens", "share"]].to_numpy().tolist() == [["preamble", 150, 0.15]]
    assert frames.events()["data"].tolist() == ['{"x":1}', "{}"]


def test_a_word_outside_the_categories_is_refused() -> None:
    """A category never turns an unknown word silently into a null."""
    rows = [tuple("asleep" for _ in FRAMES["threads"].reads)]
    state = tuple(c for c in FRAMES["threads"].columns if c.name == "state")
    with pytest.raises(StoreError, match="'asleep', which is none of queued"):
        build(type(FRAMES["threads"])("threads", "", state, ""), [rows[0][:1]])


def test_an_unknown_frame_names_near_ones(store: Store) -> None:
    """A mistyped name is answered with the name that was meant."""
    with pytest.raises(LabError, match="no frame 'thread': threads"):
        Frames(store).schema("thread")


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-2", "@sum", "\t=x", "\r=x"])
def test_csv_texts_are_no_formulas(store: Store, tmp_path: Path, text: str) -> None:
    """A task that begins like a formula is written with a quote before it, so that a spreadsheet shows it as text."""
    store.threads.queue(Action(task="x", name=text), logical="l", provider="p", model="m")
    path = Frames(store).to_csv("threads", tmp_path / "threads.csv")
    assert pd.read_csv(path)["name"][0] == "'" + text


def test_a_hundred_thousand_calls_come_through(tmp_path: Path) -> None:
    """A store of 100,000 calls is read whole, each in its place."""
    with Store.open(tmp_path / "s.db") as store:
        store.threads.queue(Action(task="x"), logical="l", provider="p", model="m")
        with store.batch():
            add(store, "t1", nusd=1, kind="worker")
        columns = "thread, session, kind, logical, provider, model, started_ns, ended_ns, outcome, flagged, attempts"
        store._db.run(
            f"INSERT INTO call ({columns}, cost_nusd) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
            f"WHERE i < 99999) SELECT {columns}, i FROM call, n"
        )
        calls = Frames(store).calls()
    assert len(calls) == 100_000
    assert calls["id"].is_monotonic_increasing
    assert calls["cost_usd_exact"].iloc[-1] == "0.000099999"


def test_every_count_says_how_it_was_counted(open_lab):
    """Attempts and parts of a brief are `exact`, `estimated` or `unknown`: a scripted answer is the lab's own count."""
    lab = open_lab(["the answer"], compressor={"mode": "fixed"})
    lab.thread("x")
    assert set(lab.frames.attempts()["counted"]) == {"estimated"}
    assert set(lab.frames.context()["counted"]) <= {"exact", "estimated"}


def test_memory_is_told_by_its_frames(store: Store) -> None:
    """Fill, blocks by their turn, and what left, why and because of whom; looking changes nothing."""
    remember(store)
    frames = Frames(store)
    before = store.query("SELECT count(*), max(seq) FROM ledger_rows")
    folder = frames.folders().iloc[0]
    assert (folder["total_tokens"], folder["limit_tokens"], folder["fill"], folder["files"]) == (1, 4, 0.25, 2)
    assert frames.blocks()[["file", "turn", "tokens", "text"]].to_numpy().tolist() == [["b", 1, 1, "six"]]
    left = frames.evictions()[["how", "text", "written_by", "cause"]].to_numpy().tolist()
    assert left == [["FIFO", "one two three", "t1", "t2"], ["replace", "four five", "t2", "api"]]
    assert store.query("SELECT count(*), max(seq) FROM ledger_rows") == before

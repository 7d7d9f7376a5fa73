"""Every record comes back as it went in, in lists that are paged and in SQL views that are typed."""

from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from slate_lab.errors import StoreError
from slate_lab.records import Action, Attempt, Call, Cost, Event, Fact, Limits, Usage
from slate_lab.store import Store

from .making import episode_of, queue

HOUR = 3_600_000_000_000
USAGE = Usage(
    input_fresh=5,
    cache_read=0,
    cache_write_5m=None,
    cache_write_1h=7,
    output=3,
    reasoning=1,
    total_reported=16,
    flagged=True,
)
ACTION = Action(
    task='count\n  the files\t`$x {y} "z"`',
    name="count",
    type="researcher",
    context=("t1.e1",),
    slates=("Notes/today",),
    variables={"df": "a b\n1 2"},
    model="local",
    reason="cheap",
    tools=("read", "grep"),
    limits=Limits(turns=3, seconds=1.5, usd=Decimal("0.05")),
    review_perspectives=("security",),
    track="x",
    claims=("src/**",),
    after=("t1",),
    fit=True,
)


def call(thread: str, **rest: object) -> Call:
    """One call of `thread` that cost 100 nano-dollars."""
    values: dict[str, object] = {
        "kind": "worker",
        "logical": "local",
        "provider": "local",
        "model": "small",
        "started_ns": 10,
        "ended_ns": 20,
        "outcome": "ok",
        "cost": Cost(nusd=100, price="config"),
    }
    return Call(thread=thread, **(values | rest))  # type: ignore[arg-type]


def test_a_thread_keeps_everything_that_was_asked(path: Path) -> None:
    """A thread read from another opening of the store is the record that was returned when it was queued."""
    with Store.open(path, clock=lambda: 1_000) as store:
        queued = store.threads.queue(ACTION, logical="big", provider="acme", model="acme-1", window=128_000)
        assert (queued.id, queued.state, queued.session, queued.created_ns) == ("t1", "queued", "s1", 1_000)
        store.threads.brief(queued.id, [{"source": "task", "tokens": 7, "exact": False}])
        assert store.threads.start(queued.id)
        assert store.threads.settle(
            queued.id, state="failed", code="limit_turns", detail="3 of 3", truncated=True, facts_omitted=9
        )
    with Store.open(path) as store:
        assert store.threads.get("t1") == msgspec.structs.replace(
            queued,
            state="failed",
            code="limit_turns",
            detail="3 of 3",
            truncated=True,
            started_ns=1_000,
            ended_ns=1_000,
            brief=({"source": "task", "tokens": 7, "exact": False},),
        )
        assert store.query("SELECT facts_omitted, window FROM threads")[1] == [(9, 128_000)]


def test_threads_are_listed_in_pages(store: Store) -> None:
    """Lists go by id, or newest first, by state and by session, with a limit and an offset."""
    for n in range(12):
        queue(store, f"task {n}")
    store.threads.start("t3")
    assert store.threads.ids() == [f"t{n}" for n in range(1, 13)]
    assert store.threads.count() == 12
    assert [t.id for t in store.threads.list(limit=2, offset=9)] == ["t10", "t11"]
    assert [t.id for t in store.threads.list(limit=2, newest=True)] == ["t12", "t11"]
    assert [t.id for t in store.threads.list(states=["running"])] == ["t3"]
    assert store.threads.list(states=[]) == []
    assert store.threads.list(session="s2") == []
    assert len(store.threads.list(session="s1")) == 12


def test_facts_keep_their_kind_call_and_order(store: Store) -> None:
    """Facts come back whole, in order, in slices as Python takes them; the oldest can be dropped."""
    thread, other = queue(store).id, queue(store).id
    facts = [Fact(n=1, kind="text", text="a", at_ns=5, omitted=3)]
    facts += [
        Fact(n=n, kind="tool", text="b", tool="read", arguments={"path": [n]}, ok=n % 2 == 0) for n in range(2, 9)
    ]
    for fact in facts:
        store.facts.add(thread, fact)
        store.facts.add(other, Fact(n=fact.n, kind="text", text="other"))
    for start, stop in ((None, None), (2, 4), (None, 3), (5, None), (-2, None), (1, -1), (4, 2), (0, 99), (8, 9)):
        assert store.facts.list(thread, start, stop) == facts[start:stop]
    store.facts.drop(thread, 3)
    assert store.facts.list(thread) == facts[3:]
    assert (store.facts.count(thread), store.facts.count(other)) == (5, 8)
    assert store.facts.list(thread, 0, 1) == [facts[3]]


def test_calls_keep_attempts_tokens_and_exact_money(store: Store) -> None:
    """A call comes back with every attempt; buckets nobody reported are None and a reported 0 is 0."""
    thread = queue(store).id
    attempts = (
        Attempt(n=1, outcome="unreachable", started_ns=1, ended_ns=2, error="refused"),
        Attempt(
            n=2,
            outcome="ok",
            started_ns=3,
            ended_ns=9,
            status=200,
            waited_s=0.25,
            first_token_ns=4,
            usage=USAGE,
            cost=Cost(nusd=0, price="replay"),
            recorded=True,
            recorded_cost=Cost(nusd=12_345_678_901, price="genai-prices 2026-01-01"),
            response_id="r1",
            raw_usage={"prompt_tokens": 5, "details": {"x": [1, None]}},
        ),
    )
    kept = store.calls.add(
        call(thread, kind="compressor", finish="stop", usage=USAGE, attempts=attempts, cost=Cost(), error="late")
    )
    assert kept.id == 1
    assert store.calls.list() == [kept]
    assert store.query("SELECT thread, attempts, cost_nusd, cache_write_5m, cache_read FROM calls")[1] == [
        ("t1", 2, None, None, 0)
    ]


def test_calls_are_listed_by_thread_and_in_pages(store: Store) -> None:
    """A page of one thread's calls holds their own attempts only."""
    one, two = queue(store).id, queue(store).id
    for n in range(1, 7):
        attempt = Attempt(n=1, outcome="ok", started_ns=n, ended_ns=n, response_id=f"r{n}")
        store.calls.add(call(one if n % 2 else two, attempts=(attempt,)))
    page = store.calls.list(one, limit=2, offset=1)
    assert [(c.id, c.thread, c.attempts[0].response_id) for c in page] == [(3, one, "r3"), (5, one, "r5")]
    assert [c.id for c in store.calls.list(limit=2, offset=4)] == [5, 6]
    assert store.calls.list("t9") == []


def test_spending_is_summed_exactly_from_any_moment(path: Path) -> None:
    """The sum since a moment counts whole hours and the part of the first hour, by session or in all."""
    starts = [0, 5, HOUR - 1, HOUR, HOUR + 1, 5 * HOUR, 5 * HOUR + 7]
    with Store.open(path) as first:
        thread = queue(first).id
        for started in starts[:4]:
            first.calls.add(call(thread, started_ns=started))
        first.calls.add(call(thread, cost=Cost(nusd=None)))
    with Store.open(path) as second:
        for started in starts[4:]:
            second.calls.add(call(thread, started_ns=started))
        assert second.calls.spent_nusd() == 700
        assert second.calls.spent_nusd(session="s1") == 400
        assert second.calls.spent_nusd(session="s2") == 300
        for since in (0, 1, 5, 6, HOUR - 1, HOUR, HOUR + 1, 2 * HOUR, 5 * HOUR + 7, 9 * HOUR):
            assert second.calls.spent_nusd(since_ns=since) == 100 * sum(s >= since for s in starts)
        assert second.calls.spent_nusd(since_ns=5, session="s1") == 300


def test_events_are_read_on_from_the_last_one_seen(store: Store) -> None:
    """Events keep order, thread and data; `after` reads on."""
    queue(store)
    first = store.events.add("opened")
    second = store.events.add("steered", thread="t1", data={"text": "left"})
    assert store.events.list() == [first, second]
    assert second == Event(id=2, at_ns=second.at_ns, kind="steered", thread="t1", data={"text": "left"})
    assert store.events.list(after=1) == [second]
    assert store.events.list("t1") == [second]
    assert store.events.list(limit=1) == [first]


@pytest.mark.parametrize("view", ["sessions", "threads", "facts", "episodes", "calls", "attempts", "events"])
def test_every_view_can_be_read_when_it_is_empty_and_when_it_is_not(store: Store, view: str) -> None:
    """Views have the same columns with 0 rows and with some."""
    before, _ = store.query(f"SELECT * FROM {view}")
    thread = queue(store).id
    store.facts.add(thread, Fact(n=1, kind="text", text="a"))
    store.calls.add(call(thread, attempts=(Attempt(n=1, outcome="ok", started_ns=1, ended_ns=2),)))
    store.events.add("k", thread=thread)
    store.threads.settle(thread, state="successful", episode=episode_of(thread))
    columns, rows = store.query(f"SELECT * FROM {view}")
    assert columns == before
    assert len(rows) == 1


def test_a_query_cannot_write(store: Store) -> None:
    """`query` refuses whatever is not reading, on disk and in memory."""
    with Store.open(":memory:") as memory:
        for each in (store, memory):
            queue(each)
            with pytest.raises(StoreError, match="readonly"):
                each.query("DELETE FROM action")
            assert each.query("SELECT count(*) AS n FROM threads WHERE state = ?", ("queued",)) == (["n"], [(1,)])
            queue(each)

"""What the store keeps of recovery, remembered providers and reserved money."""

from pathlib import Path

import pytest

from slate_lab.records import Attempt, Call, Hop
from slate_lab.store import Store
from slate_lab.store.database import Database
from slate_lab.store.migrations import STEPS, migrate

from .making import queue

HOP = Hop(
    at_ns=5, kind="worker", n=1, from_logical="a", from_route="p/m", to_logical="b", to_route="q/m", cause="HTTP 429"
)


def test_hops_and_causes_come_back_as_they_were_kept(store: Store) -> None:
    """A thread knows its hops and the route it ended on, a call its hop and cause, an attempt what pacing took."""
    thread = queue(store).id
    assert store.threads.get(thread).hops == ()  # type: ignore[union-attr]
    store.threads.hop(thread, [HOP], ran_route="q/m")
    found = store.threads.get(thread)
    assert found is not None
    assert (found.requested_route, found.ran_route, found.hops) == ("local/small", "q/m", (HOP,))
    attempt = Attempt(n=1, outcome="ok", started_ns=1, ended_ns=2, waited_s=3.0, paced_s=2.0)
    call = Call(
        thread=thread, kind="worker", logical="b", provider="q", model="m", started_ns=1, ended_ns=2, outcome="ok",
        attempts=(attempt,), hop=1, cause="HTTP 429",
    )  # fmt: skip
    kept = store.calls.add(call)
    assert store.calls.list(thread) == [kept]
    assert store.query("SELECT waited_s, paced_s, retried_s FROM attempts")[1] == [(3.0, 2.0, 1.0)]
    assert store.query("SELECT requested_route, ran_route, hop_count FROM threads")[1] == [("local/small", "q/m", 1)]


def test_an_older_store_gets_the_columns(tmp_path: Path) -> None:
    """A store of the first version opens, its threads without hops and on the route they were granted."""
    path = tmp_path / "slate.db"
    database = Database(path)
    migrate(database, clock=lambda: 0, steps=STEPS[:1])
    database.run("INSERT INTO session (pid, host, started_ns, ended_ns) VALUES (1, 'h', 1, 2)")
    database.run(
        "INSERT INTO thread (session, state, type, label, logical, provider, model, created_ns) "
        "VALUES (1, 'failed', 'general', 'x', 'l', 'p', 'm', 1)"
    )
    database.close()
    with Store.open(path) as store:
        assert store.query("SELECT ran_route, hop_count FROM threads")[1] == [("p/m", 0)]


@pytest.mark.parametrize(
    ("told", "remembered"),
    [
        ([("p", 1), ("q", 2)], "q"),
        ([("q", 2), ("p", 1)], "q"),
        ([("p", 2), ("q", 2)], "q"),
    ],
    ids=["in order", "an earlier-started success ends later", "started at the same time: the later one told"],
)
def test_a_later_started_success_wins(store: Store, told: list[tuple[str, int]], remembered: str) -> None:
    """Remembered is the provider of the success that started last, not of the one that ended last."""
    for provider, started in told:
        store.preferences.answered("m", provider, started_ns=started)
        store.preferences.compressed(provider, started_ns=started)
    assert store.preferences.providers() == {"m": remembered}
    assert store.preferences.compressor() == remembered
    assert ("s1", "provider", "m", remembered) in store.query("SELECT session, kind, name, value FROM preferences")[1]


def test_a_new_session_remembers_nothing(path: Path) -> None:
    """A provider that was down in an earlier session is asked first again."""
    with Store.open(path) as store:
        store.preferences.answered("m", "p", started_ns=1)
    with Store.open(path) as store:
        assert store.preferences.providers() == {}


def test_what_is_set_aside_goes_with_its_thread_and_is_seen_by_other_kernels(path: Path) -> None:
    """Another session sees it; it goes when the thread ends, however it ends, and when its session closes."""
    with Store.open(path) as other:
        with Store.open(path) as store:
            first, second = queue(store).id, queue(store).id
            store.reserves.put(first, 70)
            store.reserves.put(second, 5)
            store.reserves.put(second, 7)
            assert (other.reserves.others(None), store.reserves.others(first)) == (77, 7)
            assert other.reserves.others(None, own_session=True) == 0
            assert other.reserves.sweep() == 0
            store.threads.settle(first, state="cancelled")
            assert other.reserves.others(None) == 7
        assert other.reserves.others(None) == 0

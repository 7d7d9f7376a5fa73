"""A thread ends exactly once, with its episode or not at all."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from slate_lab.errors import StoreError
from slate_lab.records import Action, ThreadState
from slate_lab.store import Store

from .making import episode_of, queue


def test_a_late_result_changes_nothing(store: Store) -> None:
    """After the end, settling again writes neither state nor episode, and starting is refused."""
    thread = queue(store).id
    assert store.threads.settle(thread, state="cancelled", code="cancelled", detail="by hand")
    before = store.threads.get(thread)
    assert not store.threads.settle(thread, state="successful", episode=episode_of(thread))
    assert not store.threads.start(thread)
    assert store.threads.get(thread) == before
    assert store.episodes.get(f"{thread}.e1") is None
    assert store.episodes.ids() == []


def test_a_thread_starts_once(store: Store) -> None:
    """Only the first start of a queued thread counts."""
    thread = queue(store).id
    assert store.threads.start(thread)
    assert not store.threads.start(thread)


def test_an_episode_that_cannot_be_stored_leaves_the_thread_running(store: Store) -> None:
    """State and episode are one commit: if the episode is refused, the thread has not ended."""
    thread = queue(store).id
    store.threads.start(thread)
    for bad in (
        episode_of("t9"),
        episode_of(thread, hash="0" * 64),
        episode_of(thread, artifacts=({"path": object()},)),
        episode_of(thread, name="\ud800"),
        episode_of(thread, cost_nusd=2**80),
        episode_of(thread, type=None),
    ):
        with pytest.raises(StoreError):
            store.threads.settle(thread, state="successful", episode=bad)
        found = store.threads.get(thread)
        assert found is not None
        assert (found.state, found.ended_ns) == ("running", None)
    assert store.threads.settle(thread, state="successful", episode=episode_of(thread))


@pytest.mark.parametrize(
    ("act", "code"),
    [
        pytest.param(lambda s: s.threads.settle("t9", state="failed"), "unknown_thread", id="settle an unknown thread"),
        pytest.param(lambda s: s.threads.start("t9"), "unknown_thread", id="start an unknown thread"),
        pytest.param(lambda s: s.threads.brief("t9", []), "unknown_thread", id="brief of an unknown thread"),
        pytest.param(lambda s: s.threads.start("t1; --"), "bad_id", id="no thread id"),
        pytest.param(lambda s: s.threads.settle("t1", state="running"), "bad_state", id="end as running"),
        pytest.param(lambda s: s.threads.settle("t1", state="done"), "constraint", id="end as a word of no state"),
        pytest.param(lambda s: s.facts.list("e1"), "bad_id", id="facts of no thread id"),
        pytest.param(lambda s: s.calls.spent_nusd(session="1"), "bad_id", id="no session id"),
    ],
)
def test_what_cannot_be_done_is_told_with_a_code(store: Store, act: Callable[[Store], object], code: str) -> None:
    """Unknown ids and impossible states are errors with a code, and change nothing."""
    queue(store)
    with pytest.raises(StoreError) as caught:
        act(store)
    assert caught.value.code == code
    assert [t.state for t in store.threads.list()] == ["queued"]


def test_a_clock_that_goes_back_never_ends_a_thread_before_it_began(path: Path) -> None:
    """Times of one thread are in order whatever the clock does."""
    times = iter([100, 90, 80, 70, 60, 50])
    with Store.open(path, clock=lambda: next(times, 10)) as store:
        thread = queue(store).id
        store.threads.start(thread)
        store.threads.settle(thread, state="successful")
        found = store.threads.get(thread)
        assert found is not None
        assert found.created_ns == found.started_ns == found.ended_ns == 90


def race(threads: list[str], runners: list[Store]) -> list[list[bool]]:
    """Each runner settles every thread at the same moment as the others, under its own name; who won what."""
    barrier = threading.Barrier(len(runners))
    won: list[list[bool]] = [[] for _ in runners]

    def run(me: int) -> None:
        for thread in threads:
            barrier.wait(timeout=60)
            won[me].append(
                runners[me].threads.settle(
                    thread, state="failed", code=f"runner{me}", episode=episode_of(thread, name=f"runner{me}")
                )
            )

    pool = [threading.Thread(target=run, args=(me,)) for me in range(len(runners))]
    for one in pool:
        one.start()
    for one in pool:
        one.join(timeout=120)
    return won


@pytest.mark.parametrize(("rounds", "stores"), [(2_000, 1), (150, 2)], ids=["two threads", "two connections"])
def test_of_two_that_settle_at_once_exactly_one_wins(path: Path, rounds: int, stores: int) -> None:
    """State and episode are the winner's, every time."""
    opened = [Store.open(path) for _ in range(stores)]
    try:
        with opened[0].batch():
            threads = [queue(opened[0]).id for _ in range(rounds)]
        first, second = race(threads, [opened[0], opened[-1]])
        assert all(a != b for a, b in zip(first, second, strict=True))
        assert len(first) == rounds
        for thread, zero_won in zip(threads, first, strict=True):
            winner = "runner0" if zero_won else "runner1"
            found, episode = opened[0].threads.get(thread), opened[0].episodes.get(f"{thread}.e1")
            assert found is not None
            assert episode is not None
            assert found.code == episode.name == winner
    finally:
        for one in opened:
            one.close()


class Lifecycle(RuleBasedStateMachine):
    """Queue, start and settle in any order, beside a dictionary that says what must be."""

    threads = Bundle("threads")

    def __init__(self) -> None:
        super().__init__()
        self.store = Store.open(":memory:")
        self.model: dict[str, tuple[str, str | None]] = {}

    @rule(target=threads, task=st.text(min_size=1))
    def queue(self, task: str) -> str:
        """A new thread is queued under the next id."""
        thread = self.store.threads.queue(Action(task=task), logical="l", provider="p", model="m")
        assert thread.id == f"t{len(self.model) + 1}"
        self.model[thread.id] = ("queued", None)
        return thread.id

    @rule(thread=threads)
    def start(self, thread: str) -> None:
        """Only a queued one starts."""
        can = self.model[thread][0] == "queued"
        assert self.store.threads.start(thread) is can
        if can:
            self.model[thread] = ("running", None)

    @rule(
        thread=threads,
        state=st.sampled_from(["successful", "failed", "cancelled"]),
        name=st.none() | st.text(st.characters(codec="utf-8")),
    )
    def settle(self, thread: str, state: ThreadState, name: str | None) -> None:
        """Only one that has not ended ends, and its episode is the one given then."""
        can = self.model[thread][0] in ("queued", "running")
        episode = None if name is None else episode_of(thread, name=name)
        assert self.store.threads.settle(thread, state=state, episode=episode) is can
        if can:
            self.model[thread] = (state, name)

    @invariant()
    def as_the_model_says(self) -> None:
        """The store holds what the dictionary holds."""
        found = {}
        for thread in self.store.threads.list():
            episode = self.store.episodes.get(f"{thread.id}.e1")
            found[thread.id] = (thread.state, None if episode is None else episode.name)
            assert thread.ended == (thread.ended_ns is not None)
        assert found == self.model

    def teardown(self) -> None:
        """Close the store."""
        self.store.close()


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)

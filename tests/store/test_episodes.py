"""Episodes are immutable, checked by their hash, and read their facts only when touched."""

import sqlite3
from pathlib import Path

import msgspec
import pytest

from slate_lab.errors import StoreError
from slate_lab.records import Fact, Usage
from slate_lab.store import Store, episode_hash, seal

from .making import episode_of, queue


def settled(store: Store, facts: int = 0) -> str:
    """The id of a stored episode with so many facts."""
    thread = queue(store).id
    with store.batch():
        for n in range(1, facts + 1):
            store.facts.add(thread, Fact(n=n, kind="text", text=f"fact {n}"))
    store.threads.settle(thread, state="successful", episode=episode_of(thread, fact_count=facts))
    return f"{thread}.e1"


def test_an_episode_comes_back_whole(store: Store) -> None:
    """Every field survives, and the content hash is set."""
    thread = queue(store).id
    episode = episode_of(
        thread,
        name="n",
        status="failed",
        code="stuck",
        detail="same call three times",
        reason="r",
        truncated=True,
        compression="uncompressed",
        notice="as it stood",
        context=(("t1.e1", "ab"),),
        slates=("Notes/today",),
        logical="local",
        requested_route="a/b",
        ran_route="c/d",
        omitted=3,
        lost=("x",),
        lost_count=1,
        invented=("42",),
        facts_tokens=100,
        episode_tokens=10,
        usage={"worker": Usage(output=1), "compressor": Usage(reasoning=2)},
        cost_nusd=12_345,
        created_ns=1,
        started_ns=2,
        ended_ns=3,
    )
    assert store.threads.settle(thread, state="failed", episode=episode)
    found = store.episodes.get(f"{thread}.e1")
    assert found == msgspec.structs.replace(episode, hash=episode_hash(episode))
    assert found == seal(episode)


def test_the_hash_is_of_the_content_alone() -> None:
    """Times, usage, cost and sizes do not change it; any word of the content does."""
    episode = episode_of("t1")
    same = msgspec.structs.replace(episode, ended_ns=9, cost_nusd=1, usage={}, facts_tokens=5, episode_tokens=4)
    assert episode_hash(same) == episode_hash(episode)
    for change in ({"handoff": "x"}, {"context": (("t1.e1", "ab"),)}, {"artifacts": ()}, {"code": "x"}):
        assert episode_hash(msgspec.structs.replace(episode, **change)) != episode_hash(episode)


def test_what_never_was_is_none(store: Store) -> None:
    """An unknown id, a thread without an episode, and no id at all are None and no error."""
    queue(store)
    assert [store.episodes.get(id) for id in ("t1.e1", "t7.e1", "t1", "nonsense'; --")] == [None] * 4


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        pytest.param("DELETE FROM episode", "missing", id="removed"),
        pytest.param("UPDATE episode SET body = replace(body, 'go on', 'stop')", "edited", id="content edited"),
        pytest.param("UPDATE episode SET body = 'x'", "edited", id="body destroyed"),
        pytest.param("UPDATE episode SET body = '{}'", "edited", id="body emptied"),
        pytest.param("UPDATE episode SET hash = 'ab'", "edited", id="hash column edited"),
        pytest.param("UPDATE thread SET episode = 'ab'", "edited", id="other hash in the thread"),
    ],
)
def test_an_edited_or_missing_episode_is_an_error(path: Path, sql: str, code: str) -> None:
    """Nobody gets an episode that is not the one that was stored, alone or in a list; `verify` names it."""
    with Store.open(path) as store:
        episode = settled(store)
    with sqlite3.connect(path) as other:
        other.execute(sql)
    other.close()
    with Store.open(path) as store:
        for read in (lambda: store.episodes.get(episode), store.episodes.list):
            with pytest.raises(StoreError, match=episode) as caught:
                read()
            assert caught.value.code == code
        assert [episode in problem for problem in store.verify()] == [True]


def test_episodes_are_listed_in_pages(store: Store) -> None:
    """In the order of their threads, or the newest first."""
    ids = [settled(store) for _ in range(3)]
    queue(store)
    assert store.episodes.ids() == ids
    assert store.episodes.count() == 3
    assert [e.id for e in store.episodes.list()] == ids
    assert [e.id for e in store.episodes.list(limit=1, offset=1)] == ids[1:2]
    assert [e.id for e in store.episodes.list(limit=2, newest=True)] == [ids[2], ids[1]]
    assert store.verify() == []


def test_facts_of_an_episode_are_a_sequence(store: Store) -> None:
    """They have a length, indexes, slices, iteration and equality like the list they stand for."""
    episode = store.episodes.get(settled(store, 230))
    assert episode is not None
    facts = [Fact(n=n, kind="text", text=f"fact {n}") for n in range(1, 231)]
    kept = episode.facts
    assert len(kept) == 230
    assert list(kept) == facts
    assert (kept[0], kept[-1], kept[229]) == (facts[0], facts[-1], facts[229])
    for cut in (slice(3, 7), slice(-3, None), slice(None, None, -50), slice(7, 3), slice(220, 999), slice(5, 60, 7)):
        assert list(kept[cut]) == facts[cut]
    for outside in (230, -231):
        with pytest.raises(IndexError):
            kept[outside]
    assert kept == facts
    assert tuple(facts) == kept
    assert kept != facts[:-1]
    assert kept != 5
    assert facts[4] in kept
    assert len(repr(kept)) < 80


def test_facts_are_read_only_when_touched(path: Path) -> None:
    """An episode is read without its facts; they come from the store, so a closed one cannot give them."""
    with Store.open(path) as store:
        episode = store.episodes.get(settled(store, 3))
        assert episode is not None
    with pytest.raises(StoreError, match="closed"):
        list(episode.facts)

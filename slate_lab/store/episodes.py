"""Episodes: written once with the end of their thread, and believed only if their hash still fits.

In: an `Episode`, from `Threads.settle`. Out: the same, with facts that are read when touched. Called by settlement,
by briefs that cite earlier episodes, and by every view of them.
"""

# ruff: noqa: S608 - only names of columns are put into statements, never values
from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import msgspec

from slate_lab.errors import StoreError
from slate_lab.records import Episode, episode_id, is_episode_id
from slate_lab.store.codec import decode, encode, episode_number, thread_number
from slate_lab.store.database import Database
from slate_lab.store.facts import Facts, StoredFacts

__all__ = ["Episodes", "episode_hash", "seal"]

_CONTENT = (
    "id",
    "thread",
    "name",
    "type",
    "task",
    "status",
    "code",
    "detail",
    "reason",
    "truncated",
    "compression",
    "notice",
    "intent",
    "actions",
    "findings",
    "artifacts",
    "issues",
    "handoff",
    "context",
    "slates",
    "logical",
    "requested_route",
    "ran_route",
    "fact_count",
    "omitted",
    "lost",
    "lost_count",
    "invented",
)
_SELECT = (
    "SELECT t.n, t.episode, e.hash, e.body FROM thread AS t LEFT JOIN episode AS e ON e.thread = t.n "
    "WHERE t.episode IS NOT NULL"
)
_decoder = msgspec.json.Decoder(Episode)
_last: Episode | None = None
"""The one that was sealed last: it is frozen, and about to be stored."""


def episode_hash(episode: Episode) -> str:
    """SHA-256 of what the episode says, in hexadecimal.

    Times, usage, cost and token estimates are left out: the same work measured twice has one hash.
    """
    content = {name: getattr(episode, name) for name in _CONTENT}
    return hashlib.sha256(f"slate-lab episode 1\n{encode(content, ordered=True)}".encode()).hexdigest()


def seal(episode: Episode) -> Episode:
    """`episode` with its content hash; one that carries another hash is refused.

    Raises:
        StoreError: the hash it carries is not its own (code `edited`).
    """
    global _last
    if episode is _last:
        return episode
    found = episode_hash(episode)
    if episode.hash and episode.hash != found:
        raise StoreError(f"the episode {episode.id} was changed after it was sealed", code="edited")
    _last = sealed = msgspec.structs.replace(episode, hash=found)
    return sealed


class Episodes:
    """The episodes of all threads."""

    def __init__(self, database: Database, facts: Facts) -> None:
        self._db, self._facts = database, facts

    def get(self, episode: str) -> Episode | None:
        """The episode of this id, or None if there never was one.

        Raises:
            StoreError: it is there no more (code `missing`), or not as it was stored (`edited`).
        """
        if not is_episode_id(episode):
            return None
        row = self._db.row(f"{_SELECT} AND t.n = ?", (episode_number(episode),))
        return None if row is None else self._load(row)

    def ids(self) -> list[str]:
        """The ids of all episodes, in the order of their threads."""
        rows = self._db.rows("SELECT n FROM thread WHERE episode IS NOT NULL ORDER BY n")
        return [episode_id(f"t{n}") for (n,) in rows]

    def count(self) -> int:
        """How many episodes there are."""
        return int(self._db.rows("SELECT count(*) FROM thread WHERE episode IS NOT NULL")[0][0])

    def facts(self, thread: str) -> StoredFacts:
        """The facts of `thread`, read when touched."""
        thread_number(thread)
        return StoredFacts(self._facts, thread)

    def insert(self, episode: Episode) -> None:
        """Write a sealed episode; only `Threads.settle` calls this, inside its transaction."""
        body = encode(msgspec.structs.replace(episode, facts=()))
        values: dict[str, Any] = {
            "thread": thread_number(episode.thread),
            "name": episode.name,
            "type": episode.type,
            "status": episode.status,
            "code": episode.code,
            "truncated": episode.truncated,
            "compression": episode.compression,
            "logical": episode.logical,
            "requested_route": episode.requested_route,
            "ran_route": episode.ran_route,
            "created_ns": episode.created_ns,
            "started_ns": episode.started_ns,
            "ended_ns": episode.ended_ns,
            "fact_count": episode.fact_count,
            "omitted": episode.omitted,
            "context_count": len(episode.context),
            "finding_count": len(episode.findings),
            "artifact_count": len(episode.artifacts),
            "issue_count": len(episode.issues),
            "lost_count": episode.lost_count,
            "invented_count": len(episode.invented),
            "facts_tokens": episode.facts_tokens,
            "episode_tokens": episode.episode_tokens,
            "cost_nusd": episode.cost_nusd,
            "hash": episode.hash,
            "body": body,
        }
        self._db.run(_insert(tuple(values)), tuple(values.values()))

    def _load(self, row: tuple[Any, ...]) -> Episode:
        number, wanted, found, body = row
        thread = f"t{number}"
        what = f"the episode {episode_id(thread)}"
        if body is None:
            raise StoreError(f"{what} is missing from the store: restore a backup", code="missing")
        episode = decode(_decoder, body, what)
        if not (wanted == found == episode.hash == episode_hash(episode) and episode.thread == thread):
            raise StoreError(
                f"{what} is not as it was stored (its content hash does not fit): restore a backup", code="edited"
            )
        return msgspec.structs.replace(episode, facts=StoredFacts(self._facts, thread))

    def list(self, *, limit: int | None = None, offset: int = 0, newest: bool = False) -> list[Episode]:
        """A page of the episodes in the order of their threads, or the newest first."""
        order = "DESC" if newest else "ASC"
        rows = self._db.rows(
            f"{_SELECT} ORDER BY t.n {order} LIMIT ? OFFSET ?", (-1 if limit is None else limit, offset)
        )
        return [self._load(row) for row in rows]


@lru_cache
def _insert(columns: tuple[str, ...]) -> str:
    return f"INSERT INTO episode ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"

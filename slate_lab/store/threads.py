"""Threads: ids that no two kernels share, and states that end exactly once.

In: actions that were admitted, and what became of them. Out: `Thread` records. Called by the dispatcher.

A thread goes `queued → running → successful | failed | cancelled`. Every step is a compare-and-set in the store, so a
late result or a second kernel can never change what has ended; the episode is written in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from slate_lab.errors import StoreError
from slate_lab.records import Action, Episode, Hop, Thread, ThreadState, episode_id, is_thread_id
from slate_lab.store.codec import decode, encode, session_number, thread_number
from slate_lab.store.database import Database
from slate_lab.store.episodes import Episodes, seal

__all__ = ["Threads"]

_SELECT = """SELECT t.n, a.body, t.state, t.code, t.detail, t.truncated, t.logical, t.provider, t.model, t.session,
    t.created_ns, t.started_ns, t.ended_ns, t.brief, t.window, t.ran_route, t.hops
    FROM thread AS t JOIN action AS a ON a.thread = t.n"""
_action = msgspec.json.Decoder(Action)
_hops = msgspec.json.Decoder(tuple[Hop, ...])
_brief = msgspec.json.Decoder(tuple[dict[str, Any], ...])


class Threads:
    """The threads of the store; new ones belong to the session `session`."""

    def __init__(self, database: Database, episodes: Episodes, *, session: int, clock: Callable[[], int]) -> None:
        self._db, self._episodes, self._session, self._clock = database, episodes, session, clock

    def queue(
        self,
        action: Action,
        *,
        logical: str,
        provider: str,
        model: str,
        window: int | None = None,
        brief: Iterable[dict[str, Any]] | None = None,
    ) -> Thread:
        """Record an admitted action as a new queued thread, under an id that no other process gets.

        Args:
            brief: what its prompt is made of, if it is assembled already (see `brief`).
        """
        body, now = encode(action), self._clock()
        parts = None if brief is None else encode(tuple(brief))
        draft = Thread(
            id="t0",
            action=action,
            state="queued",
            logical=logical,
            provider=provider,
            model=model,
            session=f"s{self._session}",
            created_ns=now,
            window=window,
        )
        row = (self._session, action.type, action.name, draft.label, logical, provider, model, now, window, parts)
        with self._db.transaction(joined=True):
            number = self._db.insert(
                "INSERT INTO thread (session, state, type, name, label, logical, provider, model, created_ns, window, "
                "brief) VALUES (?, 'queued', ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )
            self._db.run("INSERT INTO action (thread, body) VALUES (?, ?)", (number, body))
        return msgspec.structs.replace(draft, id=f"t{number}")

    def start(self, thread: str) -> bool:
        """Set a queued thread running; False if it is queued no more."""
        changed = self._db.run(
            "UPDATE thread SET state = 'running', started_ns = max(?, created_ns) WHERE n = ? AND state = 'queued'",
            (self._clock(), thread_number(thread)),
        )
        return changed == 1 or self._known(thread)

    def brief(self, thread: str, parts: Iterable[dict[str, Any]]) -> None:
        """Keep what the prompt of `thread` is made of: `[{"source", "tokens", "exact"}]`."""
        text = encode(tuple(parts))
        if self._db.run("UPDATE thread SET brief = ? WHERE n = ?", (text, thread_number(thread))) == 0:
            self._known(thread)

    def hop(self, thread: str, hops: Iterable[Hop], *, ran_route: str) -> None:
        """Keep how recovery went so far, and the route that its worker is now on."""
        row = (encode(tuple(hops)), ran_route, thread_number(thread))
        if self._db.run("UPDATE thread SET hops = ?, ran_route = ? WHERE n = ?", row) == 0:
            self._known(thread)

    def settle(
        self,
        thread: str,
        *,
        state: ThreadState,
        code: str | None = None,
        detail: str | None = None,
        truncated: bool = False,
        episode: Episode | None = None,
        facts_omitted: int = 0,
    ) -> bool:
        """End `thread`, with its episode, if it has not ended; both are stored or neither.

        Returns:
            False if it had ended before: then nothing is written.

        Raises:
            StoreError: no such thread, an episode of another thread, or it cannot be stored.
        """
        if state in ("queued", "running"):
            raise StoreError(f"{thread} cannot end as {state}", code="bad_state")
        if episode is not None:
            if (episode.id, episode.thread) != (episode_id(thread), thread):
                raise StoreError(f"the episode {episode.id} does not belong to {thread}", code="bad_id")
            episode = seal(episode)
        with self._db.transaction(joined=True):
            changed = self._db.run(
                "UPDATE thread SET state = ?, code = ?, detail = ?, truncated = ?, facts_omitted = ?, episode = ?, "
                "ended_ns = max(?, coalesce(started_ns, created_ns)) WHERE n = ? AND state IN ('queued', 'running')",
                (
                    state,
                    code,
                    detail,
                    truncated,
                    facts_omitted,
                    None if episode is None else episode.hash,
                    self._clock(),
                    thread_number(thread),
                ),
            )
            if changed == 1 and episode is not None:
                self._episodes.insert(episode)
            self._db.run("DELETE FROM reserve WHERE thread = ?", (thread_number(thread),))
        return changed == 1 or self._known(thread)

    def get(self, thread: str) -> Thread | None:
        """The thread of this id, or None."""
        if not is_thread_id(thread):
            return None
        row = self._db.row(f"{_SELECT} WHERE t.n = ?", (thread_number(thread),))
        return None if row is None else _thread(row)

    def ids(self) -> list[str]:
        """The ids of all threads, in order."""
        return [f"t{n}" for (n,) in self._db.rows("SELECT n FROM thread ORDER BY n")]

    def count(self) -> int:
        """How many threads there are."""
        return int(self._db.rows("SELECT count(*) FROM thread")[0][0])

    def _known(self, thread: str) -> bool:
        """False for a thread that exists; an unknown one is an error."""
        if self._db.row("SELECT 1 FROM thread WHERE n = ?", (thread_number(thread),)) is None:
            raise StoreError(f"there is no thread {thread} in the store {self._db.path}", code="unknown_thread")
        return False

    def list(
        self,
        *,
        states: Iterable[ThreadState] | None = None,
        session: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        newest: bool = False,
    ) -> list[Thread]:
        """A page of the threads in the order of their ids, or the newest first; of some states or one session."""
        where, params = _filter(states, session)
        rows = self._db.rows(
            f"{_SELECT} {where} ORDER BY t.n {'DESC' if newest else 'ASC'} LIMIT ? OFFSET ?",
            (*params, -1 if limit is None else limit, offset),
        )
        return [_thread(row) for row in rows]


def _filter(states: Iterable[ThreadState] | None, session: str | None) -> tuple[str, list[Any]]:
    clauses: list[str] = []
    params: list[Any] = []
    if states is not None:
        wanted = list(states)
        clauses.append(f"t.state IN ({', '.join('?' * len(wanted))})")
        params += wanted
        if set(wanted) <= {"queued", "running"}:
            clauses.append("t.state IN ('queued', 'running')")  # in these words it is the index of the unfinished
    if session is not None:
        clauses.append("t.session = ?")
        params.append(session_number(session))
    return ("WHERE " + " AND ".join(clauses) if clauses else ""), params


def _thread(row: tuple[Any, ...]) -> Thread:
    number, body, state, code, detail, truncated, logical, provider, model, session, *rest = row
    created_ns, started_ns, ended_ns, brief, window, ran_route, hops = rest
    what = f"the thread t{number}"
    return Thread(
        id=f"t{number}",
        action=decode(_action, body, what),
        state=state,
        code=code,
        detail=detail,
        truncated=bool(truncated),
        logical=logical,
        provider=provider,
        model=model,
        session=f"s{session}",
        created_ns=created_ns,
        started_ns=started_ns,
        ended_ns=ended_ns,
        brief=() if brief is None else decode(_brief, brief, what),
        window=window,
        ran_route=ran_route or "",
        hops=() if hops is None else decode(_hops, hops, what),
    )

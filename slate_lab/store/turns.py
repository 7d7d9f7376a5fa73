"""Sessions that carry slots, their turns, what was said in them, what slots keep, and what happened to slots.

In: records as a turn comes to its end. Out: the same, and rows for frames. Called by the adapter of slots in the weave.
A session is `c2`; a worker whose type carries slots has one of its own. What a turn adds to its session is one commit.
"""

# ruff: noqa: S608 - only names of columns are put into statements, never values
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from slate_lab.errors import StoreError
from slate_lab.records import HistoryEntry, SlotEvent, Turn
from slate_lab.store.codec import decode, encode, thread_number
from slate_lab.store.database import MEMORY, Database

__all__ = ["TurnSession", "Turns"]

_EVENT = ("turn", "slot", "phase", "lane", "what", "at_ns", "duration_ns", "detail", "traceback", "allowed")
_ROWS = 50
"""Events that one statement writes."""

_ORPHANS = """
UPDATE turn SET state = 'failed', code = 'interrupted', detail = 'its kernel died', ended_ns = ?
WHERE chat = ? AND state = 'running' AND thread IN (SELECT n FROM thread WHERE state NOT IN ('queued', 'running'))"""
"""Turns whose thread was settled without them: their kernel died."""

_event = attrgetter(*_EVENT)

_fragments = msgspec.json.Decoder(tuple[str, ...])
_turn = msgspec.json.Decoder(Turn)
State = Literal["running", "ok", "failed", "cancelled"]


class TurnSession(Struct, frozen=True, kw_only=True):
    """One session that carries slots.

    Attributes:
        id: `c2`.
        thread: the worker whose own it is, None for one that a person talks to.
        fragments: what its bootstrap slots added; None until they have run.
    """

    id: str
    thread: str | None
    created_ns: int
    fragments: tuple[str, ...] | None


class Turns:
    """Sessions, turns, history, state and slot events of one store."""

    def __init__(self, database: Database, *, clock: Callable[[], int]) -> None:
        self._db, self._clock = database, clock

    @property
    def locks(self) -> Path | None:
        """The folder of the locks of sessions; None in memory."""
        return None if self._db.path == MEMORY else Path(self._db.path).parent / "sessions"

    # sessions

    def open(self, thread: str | None = None) -> TurnSession:
        """A new session, of a worker or of a person."""
        of = None if thread is None else thread_number(thread)
        number = self._db.insert("INSERT INTO chat (thread, created_ns) VALUES (?, ?)", (of, self._clock()))
        found = self.session(f"c{number}")
        assert found is not None
        return found

    def session(self, id: str | None = None) -> TurnSession | None:
        """The session `id`, or the newest that a person talks to."""
        where, params = ("n = ?", (_chat(id),)) if id else ("thread IS NULL ORDER BY n DESC LIMIT 1", ())
        row = self._db.row(f"SELECT n, thread, created_ns, fragments FROM chat WHERE {where}", params)
        if row is None:
            return None
        n, of, created_ns, text = row
        fragments = None if text is None else decode(_fragments, text, f"the session c{n}")
        return TurnSession(
            id=f"c{n}", thread=None if of is None else f"t{of}", created_ns=created_ns, fragments=fragments
        )

    def sessions(self) -> list[str]:
        """Ids of all sessions that people talk to."""
        return [f"c{n}" for (n,) in self._db.rows("SELECT n FROM chat WHERE thread IS NULL ORDER BY n")]

    def snapshot(self, session: str, fragments: Sequence[str]) -> None:
        """Keep what the bootstrap of a session added; it has run."""
        self._db.run("UPDATE chat SET fragments = ? WHERE n = ?", (encode(list(fragments)), _chat(session)))

    # turns

    def begin(self, session: str, thread: str) -> int:
        """A turn begins; its number within the session."""
        chat = _chat(session)
        with self._db.transaction():
            self._db.run(_ORPHANS, (self._clock(), chat))
            row = self._db.row("SELECT coalesce(max(n), 0) + 1 FROM turn WHERE chat = ?", (chat,))
            n = int(row[0]) if row else 1
            self._db.run(
                "INSERT INTO turn (chat, n, thread, state, started_ns) VALUES (?, ?, ?, 'running', ?)",
                (chat, n, thread_number(thread), self._clock()),
            )
        return n

    def end(self, turn: Turn, history: Iterable[HistoryEntry]) -> None:
        """A turn ended well: keep it with what it adds to the session."""
        chat, now = _chat(turn.session), self._clock()
        rows = [(chat, e.turn, e.role, e.kind, e.slot, e.visible, e.at_ns or now, e.text, e.data) for e in history]
        with self._db.transaction():
            self._db.run(
                "UPDATE turn SET state = 'ok', ended_ns = ?, body = ? WHERE chat = ? AND n = ?",
                (now, encode(turn), chat, turn.n),
            )
            for row in rows:
                self._db.run(
                    "INSERT INTO said (chat, turn, role, kind, slot, visible, at_ns, text, data) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    row,
                )

    def fail(self, session: str, n: int, *, state: State, code: str, detail: str) -> None:
        """A turn ended otherwise: nothing of it stays in the session."""
        self._db.run(
            "UPDATE turn SET state = ?, code = ?, detail = ?, ended_ns = ? WHERE chat = ? AND n = ?",
            (state, code, detail, self._clock(), _chat(session), n),
        )

    # what was said

    def recent(self, session: str, *, limit: int, roles: Sequence[str] | None = None) -> list[HistoryEntry]:
        """The newest entries of a session, oldest first."""
        return self._said(session, limit=max(0, limit), roles=roles)

    def seen(self, session: str) -> list[HistoryEntry]:
        """Everything of a session that later calls of the model see, in order."""
        return self._said(session, limit=-1, roles=None, visible=True)

    def _said(
        self, session: str, *, limit: int, roles: Sequence[str] | None, visible: bool = False
    ) -> list[HistoryEntry]:
        where, params = "chat = ?", [_chat(session)]
        if visible:
            where += " AND visible"
        if roles is not None:
            wanted = [roles] if isinstance(roles, str) else list(roles)
            where += f" AND role IN ({', '.join('?' * len(wanted))})"
            params += wanted  # type: ignore[arg-type]
        rows = self._db.rows(
            f"SELECT turn, role, kind, slot, visible, at_ns, text, data FROM said WHERE {where} "
            "ORDER BY id DESC LIMIT ?",
            [*params, limit],
        )
        return [
            HistoryEntry(
                turn=turn, role=role, kind=kind, slot=slot, visible=bool(seen), at_ns=at_ns, text=text, data=data
            )
            for turn, role, kind, slot, seen, at_ns, text, data in reversed(rows)
        ]

    # what slots keep

    def read(self, scope: str) -> dict[str, Any]:
        """Everything kept under `scope`: a session's id, or `project`."""
        rows = self._db.rows("SELECT name, value FROM kept WHERE scope = ?", (scope,))
        return {name: msgspec.json.decode(value) for name, value in rows}

    def update(self, changes: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]) -> None:
        """Replace what is kept under each scope by what its change makes of it: one commit, or nothing."""
        with self._db.transaction():
            for scope, change in changes.items():
                before = self.read(scope)
                after = change(before)
                for name in before.keys() - after.keys():
                    self._db.run("DELETE FROM kept WHERE scope = ? AND name = ?", (scope, name))
                for name, value in after.items():
                    if name not in before or before[name] is not value:
                        self._db.run(
                            "INSERT INTO kept (scope, name, value) VALUES (?, ?, ?) "
                            "ON CONFLICT (scope, name) DO UPDATE SET value = excluded.value",
                            (scope, name, encode(value)),
                        )

    # what happened

    def add(self, events: Iterable[SlotEvent]) -> None:
        """Keep events of slots, in one commit."""
        rows = [(_chat(e.session), *_event(e)) for e in events]
        batches = [rows[at : at + _ROWS] for at in range(0, len(rows), _ROWS)]
        if len(batches) == 1:  # one statement is one commit
            self._db.run(_insert(len(rows)), list(chain.from_iterable(rows)))
            return
        with self._db.transaction():
            for some in batches:
                self._db.run(_insert(len(some)), list(chain.from_iterable(some)))

    def events(self, session: str | None = None) -> list[SlotEvent]:
        """Events of slots, in order."""
        where, params = ("WHERE chat = ?", (_chat(session),)) if session else ("", ())
        rows = self._db.rows(
            "SELECT chat, turn, slot, phase, lane, what, at_ns, duration_ns, detail, traceback, allowed "
            f"FROM slot_event {where} ORDER BY id",
            params,
        )
        return [
            SlotEvent(
                session=f"c{chat}",
                turn=turn,
                slot=slot,
                phase=phase,
                lane=lane,
                what=what,
                at_ns=at_ns,
                duration_ns=took,
                detail=detail,
                traceback=trace,
                allowed=None if allowed is None else bool(allowed),
            )
            for chat, turn, slot, phase, lane, what, at_ns, took, detail, trace, allowed in rows
        ]

    def list(self, session: str | None = None) -> list[Turn]:
        """The turns that ended well, in order; of one session or of all."""
        where, params = ("AND chat = ?", (_chat(session),)) if session else ("", ())
        rows = self._db.rows(f"SELECT body FROM turn WHERE state = 'ok' {where} ORDER BY chat, n", params)
        return [decode(_turn, body, "a turn") for (body,) in rows]


@lru_cache(maxsize=_ROWS)
def _insert(rows: int) -> str:
    marks = f"({', '.join('?' * (len(_EVENT) + 1))})"
    return f"INSERT INTO slot_event (chat, {', '.join(_EVENT)}) VALUES {', '.join([marks] * rows)}"


def _chat(session: str) -> int:
    """2 for `c2`."""
    if not (session[:1] == "c" and session[1:].isascii() and session[1:].isdecimal() and len(session) < 20):
        raise StoreError(f"{session[:40]!r} is no session of turns: ids look like c2", code="bad_id")
    return int(session[1:])

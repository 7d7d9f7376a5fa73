"""Money that is set aside for live threads, in the store, so that kernels on one project share their caps.

In: a thread and nano-dollars. Out: what is set aside by others. A row goes when its thread ends, by settlement; rows of
a session that died count no more as soon as anyone looks. Every change belongs into a transaction of the caller, who
reads, decides and writes in one. Called by the purse.
"""

from __future__ import annotations

from collections.abc import Callable

from slate_lab.store.codec import thread_number
from slate_lab.store.database import Database
from slate_lab.store.sessions import Sessions

__all__ = ["Reserves"]


class Reserves:
    """What is set aside now; new rows belong to the own session."""

    def __init__(self, database: Database, sessions: Sessions, *, clock: Callable[[], int]) -> None:
        self._db, self._sessions, self._clock = database, sessions, clock

    def put(self, thread: str, nusd: int) -> None:
        """Set aside `nusd` for a thread, instead of what was set aside for it before."""
        self._db.run(
            "INSERT INTO reserve (thread, session, at_ns, nusd) VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET nusd = excluded.nusd",
            (thread_number(thread), self._sessions.number, self._clock(), nusd),
        )

    def of(self, thread: str) -> int:
        """What is set aside for a thread."""
        row = self._db.row("SELECT nusd FROM reserve WHERE thread = ?", (thread_number(thread),))
        return int(row[0]) if row else 0

    def others(self, thread: str | None, *, own_session: bool = False) -> int:
        """What is set aside for all threads but one, of this session or of all."""
        number = 0 if thread is None else thread_number(thread)
        where, params = ("AND session = ?", [self._sessions.number]) if own_session else ("", [])
        found = self._db.rows(
            f"SELECT coalesce(sum(nusd), 0) FROM reserve WHERE thread <> ? {where}",  # noqa: S608 - no values
            [number, *params],
        )
        return int(found[0][0])

    def release(self, thread: str) -> None:
        """Set nothing aside for a thread any more."""
        self._db.run("DELETE FROM reserve WHERE thread = ?", (thread_number(thread),))

    def sweep(self) -> int:
        """Forget what sessions that died had set aside; returns how many rows went."""
        held = self._db.rows("SELECT DISTINCT session FROM reserve WHERE session <> ?", (self._sessions.number,))
        gone = [n for (n,) in held if self._sessions.is_over(n)]
        return sum(self._db.run("DELETE FROM reserve WHERE session = ?", (n,)) for n in gone)

"""Sessions: which kernels have the store open, and what a dead one left behind.

A session holds a lock on `sessions/<id>.lock` beside the store while it is open; the operating system frees it when
the process dies, however it dies. In: the database of a store that is being opened. Out: the number of the new session
and those of sessions that ended without saying so. Called by `Store.open` and `Store.close`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock
from msgspec import Struct

from slate_lab.errors import StoreError
from slate_lab.store.alone import taken
from slate_lab.store.database import MEMORY, Database

__all__ = ["Session", "Sessions"]


class Session(Struct, frozen=True, kw_only=True):
    """One opening of the store.

    Attributes:
        id: `s3`.
        pid, host: the process that opened it.
        ended_ns: when it closed, or was found dead; None while it is open.
        interrupted: it died without closing.
    """

    id: str
    pid: int
    host: str
    started_ns: int
    ended_ns: int | None = None
    interrupted: bool = False


class Sessions:
    """The sessions of one store; `number` is the own one after `enter`."""

    def __init__(self, database: Database, *, clock: Callable[[], int]) -> None:
        self._db, self._clock = database, clock
        self._folder = None if database.path == MEMORY else Path(database.path).parent / "sessions"
        self._lock: FileLock | None = None
        self.number = 0

    def enter(self) -> list[int]:
        """Become a session, and mark the dead ones as ended; in a transaction of the caller.

        Returns:
            The numbers of the sessions found dead.
        """
        self.number = self._db.insert(
            "INSERT INTO session (pid, host, started_ns) VALUES (?, ?, ?)",
            (os.getpid(), socket.gethostname(), self._clock()),
        )
        if self._folder is None:
            return []
        self._lock = self._take(self.number)
        if self._lock is None:
            raise StoreError(
                f"the session s{self.number} of {self._db.path} is held by another process, though the store does not "
                "know it (was the file replaced while a kernel had it open?): close the other kernels, open again",
                code="locked",
            )
        dead = [n for n in self._open() if self._is_dead(n)]
        for number in dead:
            self._end(number, interrupted=True)
        return dead

    def leave(self) -> None:
        """Mark the own session as ended."""
        self._end(self.number, interrupted=False)

    def release(self) -> None:
        """Free the own lock; twice is once."""
        if self._lock is not None:
            self._lock.release()
            self._path(self.number).unlink(missing_ok=True)
            self._lock = None

    def is_over(self, number: int) -> bool:
        """Whether another session has ended, said or unsaid; looking changes nothing in the store."""
        row = self._db.row("SELECT ended_ns FROM session WHERE n = ?", (number,))
        return row is None or row[0] is not None or (self._folder is not None and self._is_dead(number))

    def _open(self) -> list[int]:
        rows = self._db.rows("SELECT n FROM session WHERE ended_ns IS NULL AND n <> ? ORDER BY n", (self.number,))
        return [n for (n,) in rows]

    def _end(self, number: int, *, interrupted: bool) -> None:
        self._db.run(
            "UPDATE session SET ended_ns = max(?, started_ns), interrupted = ? WHERE n = ?",
            (self._clock(), interrupted, number),
        )

    def _is_dead(self, number: int) -> bool:
        lock = self._take(number)
        if lock is None:
            return False
        lock.release()
        self._path(number).unlink(missing_ok=True)
        return True

    def _take(self, number: int) -> FileLock | None:
        """The lock of a session, or None if a living process holds it."""
        path = self._path(number)
        lock = FileLock(path, thread_local=False)
        return lock if taken(lock) else None

    def _path(self, number: int) -> Path:
        if self._folder is None:
            raise StoreError("a store in memory has no sessions but its own", code="bad_state")
        return self._folder / f"s{number}.lock"

    def list(self) -> list[Session]:
        """All sessions, in order."""
        rows = self._db.rows("SELECT n, pid, host, started_ns, ended_ns, interrupted FROM session ORDER BY n")
        return [
            Session(id=f"s{n}", pid=pid, host=host, started_ns=start, ended_ns=end, interrupted=bool(dead))
            for n, pid, host, start, end, dead in rows
        ]

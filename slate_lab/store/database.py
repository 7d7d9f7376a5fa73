"""One SQLite file: a connection that any thread may use, transactions, and errors that say what to do.

In: a path and SQL. Out: rows, or `StoreError`; never a bare `sqlite3.Error`. Called by the other modules of this room.

The journal is a write-ahead log. With `durability="normal"` a commit survives the death of the process at any point,
and a power cut may cost the last commits but never the integrity of the file; `"full"` waits for the disk at every
commit. Where the filesystem cannot hold a write-ahead log, a warning says so and the rollback journal is used, then
always with `full`, because only this is safe there.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from slate_lab.errors import StoreError

__all__ = ["BUSY_S", "MEMORY", "Database", "Durability"]

Durability = Literal["normal", "full"]
MEMORY = ":memory:"
BUSY_S = 30.0
JOINED = -1
"""The depth of what is a part of the transaction around it."""

_TROUBLE: tuple[tuple[str, str, str], ...] = (
    ("SQLITE_BUSY", "locked", "another process keeps it locked: close what writes to it, try again"),
    ("SQLITE_LOCKED", "locked", "another statement keeps it locked: finish reading, try again"),
    ("SQLITE_FULL", "disk_full", "the disk is full: free some space, try again (what was stored before is intact)"),
    ("SQLITE_READONLY", "read_only", "it cannot be written: make the file and its folder writable, or copy them"),
    ("SQLITE_CANTOPEN", "read_only", "it cannot be opened for writing: check that its folder exists and is writable"),
    ("SQLITE_PERM", "read_only", "access is refused: make the file and its folder writable, or copy them"),
    ("SQLITE_NOTADB", "corrupt", "it is not an SQLite file: move it away, or restore a backup"),
    ("SQLITE_CORRUPT", "corrupt", "it is damaged: move it away, or restore a backup (`store.db.v*.bak`)"),
    ("SQLITE_IOERR", "io", "the disk failed to read or write it: check the disk, then open the lab again"),
    ("SQLITE_CONSTRAINT", "constraint", "this does not fit what is stored"),
    ("SQLITE_TOOBIG", "bad_value", "a value is larger than the store can hold"),
)
_REFUSED = (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError)


_forks = 0
"""How many forks lie between the first process and this one."""


def _forked() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):  # where there is no fork there is nothing to count
    os.register_at_fork(after_in_child=_forked)


class _Transaction:
    """One `with`: begun when it is entered, committed or undone when it is left."""

    __slots__ = ("_database", "_depth", "_joined", "_reads")

    def __init__(self, database: Database, reads: bool, joined: bool) -> None:
        self._database, self._reads, self._joined = database, reads, joined

    def __enter__(self) -> None:
        self._depth = self._database._begin(self._reads, self._joined)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database._end(self._depth, ok=kind is None)


class Database:
    """One connection behind one re-entrant lock; every statement may come from any thread.

    Attributes:
        path: the file, or `":memory:"`.
        journal: `wal`, `delete` (rollback journal) or `memory`.
        begun, undone: how many transactions this object began, and how often something in one was undone; for those
            who remember what they read inside a transaction.

    Args:
        durability: see the module.
        busy_s: seconds a statement waits for another process that is writing.
        vfs: SQLite's name of another way to reach files, e.g. `unix-dotfile` for disks without locks.
        look: SQLite's words for opening it to read only, e.g. `mode=ro`; None opens it to write.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        durability: Durability = "normal",
        busy_s: float = BUSY_S,
        vfs: str | None = None,
        look: str | None = None,
    ) -> None:
        self.path = path if path == MEMORY else Path(path)
        self._name = os.fspath(self.path)
        self._closed = False
        self._forks = _forks
        self._lock = threading.RLock()
        self._depth = 0
        self.begun = self.undone = 0
        self._vfs, self._busy_s, self._look = vfs, busy_s, look
        self._kept: object = None
        self._reader: sqlite3.Connection | None = None
        self._reading = threading.Lock()
        self._conn = self._connect()
        self._file: tuple[int, int] | None = None
        self.journal = ""
        try:
            if look is None:
                self._settle_in(durability)
            else:
                self._settle_to_look()
            self._file = self._identity()
        except BaseException:
            self._conn.close()
            raise

    @property
    def looking(self) -> bool:
        """Whether it only reads."""
        return self._look is not None

    @property
    def within(self) -> bool:
        """Whether a transaction is under way; meaningful to the thread that holds it."""
        return self._depth > 0

    def keep(self, thing: object) -> None:
        """Hold `thing` as long as this database: the folder of a private copy."""
        self._kept = thing

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Execute one statement; outside a transaction it is committed at once. Returns the rows it changed."""
        with self._lock:
            if not self._depth:
                self._check_there()
            return self._execute(sql, params).rowcount

    def insert(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Execute one INSERT and return the rowid it was given."""
        with self._lock:
            if not self._depth:
                self._check_there()
            return self._execute(sql, params).lastrowid or 0

    def run_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Execute one statement for every row, inside a transaction."""
        with self._lock:
            self._check_fork()
            try:
                self._conn.executemany(sql, rows)
            except _REFUSED as error:
                raise self._explain(error) from error

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of one statement."""
        with self._lock:
            return self._fetch(self._execute(sql, params))

    def row(self, sql: str, params: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row of one statement, or None."""
        found = self.rows(sql, params)
        return found[0] if found else None

    def transaction(self, *, reads: bool = False, joined: bool = False) -> AbstractContextManager[None]:
        """Everything inside is one commit, or nothing of it; other threads and processes wait.

        With `reads`, everything read inside is of one moment, and other processes do not wait.
        Nested, it is a savepoint: what an inner one did is undone when it raises, and the outer one decides the rest.
        The lock is held by the calling thread until the end, so a coroutine must not await inside.

        Args:
            joined: nested, it is a part of the outer one and no savepoint: what raises in it must end that one too.
        """
        return _Transaction(self, reads, joined)

    def _begin(self, reads: bool, joined: bool) -> int:
        """Take the lock and open a transaction, or a savepoint in one; returns how deep it lies."""
        self._lock.acquire()
        try:
            depth = self._depth
            if depth and joined:
                return JOINED
            opened = f"SAVEPOINT s{depth}" if depth else "BEGIN" if self.looking or reads else "BEGIN IMMEDIATE"
            self.run(opened)
            self._depth = depth + 1
            if not depth:
                self.begun += 1
        except BaseException:
            self._lock.release()
            raise
        return depth

    def _end(self, depth: int, *, ok: bool) -> None:
        """Commit, or undo where that fails or is not wanted; and let the lock go."""
        if depth == JOINED:
            self._lock.release()
            return
        try:
            try:
                if ok:
                    self.run(f"RELEASE s{depth}" if depth else "COMMIT")
            except BaseException:
                ok = False
                raise
            finally:
                if not ok:
                    self._undo(depth)
        finally:
            self._depth = depth
            self._lock.release()

    def query(self, sql: str, params: Sequence[Any] = ()) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The column names and rows of a statement that only reads.

        It runs on a second connection that refuses to write, so that a long query keeps no writer waiting; a store
        in memory has only one.
        """
        if self.path == MEMORY:
            with self._lock:
                self.run("PRAGMA query_only = ON")
                try:
                    return self._read(self._conn, sql, params)
                finally:
                    self.run("PRAGMA query_only = OFF")
        with self._reading:
            if self._closed:
                raise self._explain(sqlite3.ProgrammingError("closed database"))
            if self._reader is None:
                self._reader = self._connect()
                self._reader.execute("PRAGMA query_only = ON")
            return self._read(self._reader, sql, params)

    def backup(self, target: Path) -> None:
        """Copy what is committed to a new file `target`, all of it or nothing."""
        part = target.with_name(target.name + ".part")
        try:
            source, copy = self._connect(), sqlite3.connect(part)
            try:
                source.backup(copy)
            finally:
                copy.close()
                source.close()
            part.replace(target)
        except (*_REFUSED, OSError) as error:
            part.unlink(missing_ok=True)
            raise StoreError(
                f"the backup {target} cannot be written ({error}): free some space; nothing was changed",
                code="no_backup",
            ) from error

    def close(self) -> None:
        """Close the file; the write-ahead log is folded in if this is the last connection. Twice is once."""
        with self._reading:
            self._closed = True
            if self._reader is not None:
                self._reader.close()
                self._reader = None
        with self._lock:
            self._conn.close()

    def _check_fork(self) -> None:
        if self._forks != _forks:
            raise StoreError(
                f"the store {self.path} was opened before this process was forked: open the lab again in this process",
                code="forked",
            )

    def _execute(self, sql: str, params: Sequence[Any]) -> sqlite3.Cursor:
        self._check_fork()
        try:
            return self._conn.execute(sql, params)
        except _REFUSED as error:
            raise self._explain(error) from error

    def _fetch(self, cursor: sqlite3.Cursor) -> list[tuple[Any, ...]]:
        try:
            return cursor.fetchall()
        except _REFUSED as error:
            raise self._explain(error) from error

    def _read(
        self, conn: sqlite3.Connection, sql: str, params: Sequence[Any]
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        try:
            cursor = conn.execute(sql, params)
        except _REFUSED as error:
            raise self._explain(error) from error
        return [column[0] for column in cursor.description or ()], self._fetch(cursor)

    def _connect(self) -> sqlite3.Connection:
        target = str(self.path)
        words = [f"vfs={self._vfs}"] if self._vfs is not None else []
        words += [self._look] if self._look is not None else []
        if words:
            target = f"{Path(self.path).absolute().as_uri()}?{'&'.join(words)}"
        try:
            return sqlite3.connect(
                target,
                timeout=self._busy_s,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
                uri=bool(words),
            )
        except _REFUSED as error:
            raise self._explain(error) from error

    def _settle_in(self, durability: Durability) -> None:
        self.run("PRAGMA foreign_keys = ON")
        self.run("PRAGMA temp_store = MEMORY")
        self.run("PRAGMA cache_size = -16000")  # KiB
        if self.path == MEMORY:
            self.journal = "memory"
            return
        self.journal = self._wal()
        wal = self.journal == "wal"
        if not wal:
            warnings.warn(
                f"the filesystem of {self.path} cannot hold a write-ahead log (is it a network disk?): the rollback "
                "journal is used, which is slower and lets one process at a time in; a local disk is better",
                stacklevel=5,
            )
        self.run(f"PRAGMA synchronous = {'NORMAL' if wal and durability == 'normal' else 'FULL'}")
        self.run("PRAGMA wal_autocheckpoint = 4000")  # 16 MB: fewer waits for the disk than at the usual 4 MB
        self.run("PRAGMA journal_size_limit = 67108864")

    def _settle_to_look(self) -> None:
        self._execute("PRAGMA query_only = ON", ())
        self.rows("SELECT count(*) FROM sqlite_schema")
        self.journal = str(self.rows("PRAGMA journal_mode")[0][0])

    def _identity(self) -> tuple[int, int] | None:
        """Which file the path names now; None if it names none."""
        if self.path == MEMORY:
            return None
        try:
            found = os.stat(self._name)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _check_there(self) -> None:
        """Before a commit: SQLite would go on writing to a file that no path names any more."""
        if self._file is not None and self._identity() != self._file:
            raise StoreError(
                f"the store {self.path} was deleted or replaced while it was open: what is stored from now on would be "
                "in no file; close the lab and open it again (Lab.open), restore the file from a backup if you need it",
                code="gone",
            )

    def _wal(self) -> str:
        """The journal mode that the file really has after it was asked for a write-ahead log."""
        try:
            row = self.row("PRAGMA journal_mode = WAL")
            self.rows("SELECT count(*) FROM sqlite_schema")
        except StoreError as error:
            if error.code not in ("io", "protocol"):
                raise
            row = self.row("PRAGMA journal_mode = DELETE")
        return str(row[0]) if row else ""

    def _undo(self, depth: int) -> None:
        self.undone += 1
        if not self._conn.in_transaction:  # a full disk has rolled it back already
            return
        if depth:
            self.run(f"ROLLBACK TO s{depth}")
            self.run(f"RELEASE s{depth}")
        else:
            self.run("ROLLBACK")

    def _explain(self, error: Exception) -> StoreError:
        if isinstance(error, UnicodeError):
            return StoreError(
                f"{self.path}: a text is not valid Unicode ({error}): pass it through `slate_lab.tokens.clean` first",
                code="bad_text",
            )
        name = getattr(error, "sqlite_errorname", "") or ""
        for start, code, advice in _TROUBLE:
            if name.startswith(start):
                return StoreError(f"the store {self.path}: {advice} ({error})", code=code)
        if "closed database" in str(error):
            return StoreError(f"the store {self.path} is closed: open the lab again", code="closed")
        code = "protocol" if name == "SQLITE_PROTOCOL" else "bad_value" if isinstance(error, OverflowError) else "sql"
        return StoreError(f"the store {self.path}: {error}", code=code)

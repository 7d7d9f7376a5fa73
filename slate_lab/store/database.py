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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from slate_lab.errors import StoreError

__all__ = ["BUSY_S", "MEMORY", "Database", "Durability"]

Durability = Literal["normal", "full"]
MEMORY = ":memory:"
BUSY_S = 30.0

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


class Database:
    """One connection behind one re-entrant lock; every statement may come from any thread.

    Attributes:
        path: the file, or `":memory:"`.
        journal: `wal`, `delete` (rollback journal) or `memory`.

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
        self._closed = False
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._depth = 0
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

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of one statement."""
        with self._lock:
            return self._fetch(self._execute(sql, params))

    def row(self, sql: str, params: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row of one statement, or None."""
        found = self.rows(sql, params)
        return found[0] if found else None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside is one commit, or nothing of it; other threads and processes wait.

        Nested, it is a savepoint: what an inner one did is undone when it raises, and the outer one decides the rest.
        The lock is held by the calling thread until the end, so a coroutine must not await inside.
        """
        with self._lock:
            depth = self._depth
            opened = f"SAVEPOINT s{depth}" if depth else "BEGIN" if self.looking else "BEGIN IMMEDIATE"
            self.run(opened)
            self._depth = depth + 1
            try:
                yield
                self.run(f"RELEASE s{depth}" if depth else "COMMIT")
            except BaseException:
                self._undo(depth)
                raise
            finally:
                self._depth = depth

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

    def _execute(self, sql: str, params: Sequence[Any]) -> sqlite3.Cursor:
        if os.getpid() != self._pid:
            raise StoreError(
                f"the store {self.path} was opened before this process was forked: open the lab again in this process",
                code="forked",
            )
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
            found = os.stat(self.path)
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

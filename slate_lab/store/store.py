"""The store of a lab: one SQLite file that outlives every kernel.

In: records as they come about. Out: the same records, and rows for frames. Opened by the lab, once; used by any of its
threads. What a call has returned from is committed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from slate_lab.errors import StoreError
from slate_lab.records import Episode, Fact, Thread
from slate_lab.store.approvals import Approvals
from slate_lab.store.blocks import Blocks
from slate_lab.store.calls import Calls
from slate_lab.store.database import MEMORY, Database, Durability
from slate_lab.store.episodes import Episodes
from slate_lab.store.events import Events
from slate_lab.store.facts import Facts
from slate_lab.store.looking import LOOKABLE, open_to_look
from slate_lab.store.migrations import check_version, migrate
from slate_lab.store.preferences import Preferences
from slate_lab.store.reserves import Reserves
from slate_lab.store.sessions import Sessions
from slate_lab.store.threads import Threads
from slate_lab.store.turns import Turns

__all__ = ["Interrupted", "Store"]

Interrupted = Callable[[Thread, Sequence[Fact]], Episode | None]
"""Makes the episode of a thread whose kernel died, from its record (already `failed`) and its facts, or None."""

_CHECKED_BYTES = 256 * 1024 * 1024
"""After a crash, files up to this size are read through before they are trusted; `verify` reads any size."""


class Store:
    """An opened store.

    Attributes:
        path: its file, or `":memory:"`.
        session: the id of this opening, `s3`.
        read_only: it can only be looked at.
        journal: `wal`, `delete` where the filesystem cannot hold a write-ahead log, or `memory`.
        backup: the copy made before an older store was brought to this version, if one was.
        interrupted: ids of the threads that were found unfinished by a dead kernel when it was opened.
        threads, facts, episodes, calls, events, turns, turns, sessions, preferences, reserves: its tables.
    """

    def __init__(self, database: Database, *, clock: Callable[[], int], interrupted: Interrupted | None) -> None:
        self._db = database
        self._make = interrupted
        self._closed = False
        self._pid = os.getpid()
        self.path = database.path
        self.journal = database.journal
        self.read_only = database.looking
        self.backup: Path | None = None
        self.interrupted: tuple[str, ...] = ()
        self.sessions = Sessions(database, clock=clock)
        if database.looking:
            check_version(database)
            self._room(clock)
            return
        self.backup = migrate(database, clock=clock)
        try:
            with database.transaction():
                dead = self.sessions.enter()
                self._room(clock)
                if dead:
                    self._check_file()
                self.interrupted = tuple(id for number in dead for id in self._settle(f"s{number}"))
        except BaseException:
            self.sessions.release()
            raise

    def _room(self, clock: Callable[[], int]) -> None:
        """The tables, under the session that was entered."""
        database, number = self._db, self.sessions.number
        self.session = f"s{number}"
        self.facts = Facts(database)
        self.episodes = Episodes(database, self.facts)
        self.threads = Threads(database, self.episodes, session=number, clock=clock)
        self.calls = Calls(database, session=number)
        self.events = Events(database, clock=clock)
        self.blocks = Blocks(database, clock=clock)
        self.approvals = Approvals(database, clock=clock)
        self.turns = Turns(database, clock=clock)
        self.preferences = Preferences(database, session=number)
        self.reserves = Reserves(database, self.sessions, clock=clock)

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        clock: Callable[[], int] = time.time_ns,
        durability: Durability = "normal",
        interrupted: Interrupted | None = None,
    ) -> Store:
        """Open the store at `path`, made if it is not there; an older one is backed up and brought to this version.

        Threads that a dead kernel left unfinished become `failed: interrupted`, with an episode if `interrupted` makes
        one; their facts are kept. A store that is there but cannot be written (a read-only folder, a full disk) is
        opened to look at, with a warning: then `read_only` is set, and every write is refused.

        Args:
            path: the file, or `":memory:"`.
            clock: nanoseconds since the epoch.
            durability: `normal`, or `full` to wait for the disk at every commit.
            interrupted: makes the episode of an unfinished thread; it must not use the store.

        Raises:
            StoreError: it cannot be written, is damaged, or is a newer version's; the message says what to do.
        """
        if path != MEMORY:
            path = Path(path).absolute()
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(
                    f"the folder {path.parent} of the store cannot be made ({error}): make the project folder "
                    "writable, or open the lab with another `store`",
                    code="read_only",
                ) from error
        try:
            return cls._over(Database(path, durability=durability), clock, interrupted)
        except StoreError as error:
            if path == MEMORY or error.code not in LOOKABLE or not Path(path).is_file():
                raise
            return cls._over(open_to_look(Path(path), error), clock, interrupted)

    @classmethod
    def _over(cls, database: Database, clock: Callable[[], int], interrupted: Interrupted | None) -> Store:
        try:
            return cls(database, clock=clock, interrupted=interrupted)
        except BaseException:
            database.close()
            raise

    def batch(self) -> AbstractContextManager[None]:
        """Everything written inside is one commit, or nothing of it if it raises; batches may nest.

        Other threads wait for its end, so keep it short, and do not await inside.
        """
        return self._db.transaction()

    def query(self, sql: str, params: Sequence[Any] = ()) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and rows of SQL that only reads; the views and their columns are in `migrations`.

        Raises:
            StoreError: the SQL is wrong, or would write.
        """
        return self._db.query(sql, params)

    def verify(self) -> list[str]:
        """What is wrong with the store, a sentence each: the file, its references, every episode. Reads it all."""
        problems = [f"file: {text}" for (text,) in self._db.rows("PRAGMA integrity_check") if text != "ok"]
        problems += [
            f"{table}: row {row} refers to a missing {parent}"
            for table, row, parent, _ in self._db.rows("PRAGMA foreign_key_check")
        ]
        for episode in self.episodes.ids():
            try:
                self.episodes.get(episode)
            except StoreError as error:
                problems.append(error.message)
        return problems + self.blocks.verify()

    def close(self) -> None:
        """End the session and close the file; threads left unfinished become `failed: interrupted`. Twice is once."""
        if self._closed or os.getpid() != self._pid:  # a forked child leaves it to its parent
            return
        self._closed = True
        if self.read_only:
            self._db.close()
            return
        try:
            with self._db.transaction():
                self._settle(self.session)
                self.sessions.leave()
        finally:
            self.sessions.release()
            self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.path}, session {self.session}>"

    def _settle(self, session: str) -> list[str]:
        """End what `session` left unfinished; returns the ids."""
        threads = self.threads.list(states=("queued", "running"), session=session)
        for thread in threads:
            when = "while it ran" if thread.state == "running" else "before it started"
            detail = f"the kernel ended {when}"
            ended = msgspec.structs.replace(thread, state="failed", code="interrupted", detail=detail)
            episode = self._make(ended, self.facts.list(thread.id)) if self._make else None
            self.threads.settle(thread.id, state="failed", code="interrupted", detail=detail, episode=episode)
        return [thread.id for thread in threads]

    def _check_file(self) -> None:
        size = self._db.rows("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")[0][0]
        if size > _CHECKED_BYTES:
            return
        found = self._db.rows("PRAGMA quick_check(1)")
        if found != [("ok",)]:
            raise StoreError(
                f"the store {self.path} is damaged ({found[0][0]}): move it away, or restore a backup",
                code="corrupt",
            )

"""How folders stand, remembered between writes, so that a write need not ask for what this connection wrote itself.

In: a database. Out: per folder its counters and rules, some of its files, and the blocks that leave next. It holds as
long as no other connection has committed and nothing was undone; then it is forgotten and read anew. Every use lies
inside a transaction that holds the write lock. Used by `blocks` only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slate_lab.slates.keep import FileKind, Leaver
from slate_lab.slates.results import PREVIEW, Stored
from slate_lab.store.database import Database

__all__ = ["Standing", "Standings"]

_AHEAD = 64
"""Blocks read at once of those that leave next."""
_FILES = 1024
_FOLDERS = 256
"""Files of a folder, and folders, that are remembered."""

_FOLDER = "SELECT total, blocks, max_tokens, policy FROM folder WHERE n = ?"
_FILE = "SELECT n, kind FROM file WHERE folder = ? AND name = ?"
_TURNS = f"""SELECT b.id, b.file, b.pos, b.tokens, x.name, substr(l.text, 1, {PREVIEW}), b.touched FROM block AS b
    CROSS JOIN file AS x ON x.n = b.file CROSS JOIN ledger AS l ON l.seq = b.id
    WHERE b.folder = ? AND (b.touched, b.id) > (?, ?) ORDER BY b.touched, b.id LIMIT {_AHEAD}"""  # noqa: S608  numbers
_START = (-1, -1)


class Standing:
    """One folder: its counters and rules; some of its files by name; the next blocks to leave, in order, by id."""

    __slots__ = ("blocks", "files", "last", "limit", "policy", "total", "turns")

    def __init__(self, total: int, blocks: int, limit: int, policy: Any) -> None:
        self.total, self.blocks, self.limit, self.policy = total, blocks, limit, policy
        self.files: dict[str, tuple[int, FileKind]] = {}
        self.turns: dict[int, Leaver] = {}
        self.last = _START  # the turn of the last block in `turns`, or that was

    def gone(self, id: int) -> None:
        """A block has left, or its turn is later than that of all in `turns`."""
        self.turns.pop(id, None)


class Standings:
    """All that is remembered of one store."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._folders: dict[int, Standing] = {}
        self._seq: int | None = None
        self._mark = (-1, -1)
        self._version = -1

    def forget(self) -> None:
        """Read everything anew."""
        self._folders.clear()
        self._seq = None

    def of(self, folder: int) -> Standing:
        """How a folder stands."""
        self._check()
        found = self._folders.get(folder)
        if found is None:
            row = self._db.row(_FOLDER, (folder,))
            assert row is not None
            if len(self._folders) >= _FOLDERS:
                self._folders.clear()
            found = self._folders[folder] = Standing(*row)
        return found

    def file(self, folder: int, name: str) -> tuple[int, FileKind] | None:
        """Number and kind of a file, None if it does not exist."""
        files = self.of(folder).files
        if (found := files.get(name)) is None:
            row = self._db.row(_FILE, (folder, name))
            if row is None:
                return None
            if len(files) >= _FILES:
                files.clear()
            found = files[name] = (row[0], row[1])
        return found

    def turns(self, folder: int) -> Iterator[Leaver]:
        """The blocks of a folder in the order of their turn. To be read before anything is changed."""
        standing = self.of(folder)
        yield from list(standing.turns.values())
        while page := self._db.rows(_TURNS, (folder, *standing.last)):
            more = {row[0]: Leaver(row[0], row[1], row[2], row[3], row[4], row[5] or "") for row in page}
            standing.turns |= more
            standing.last = (page[-1][6], page[-1][0])
            yield from more.values()

    def touched(self, block: Stored, folder: int) -> None:
        """A block goes to the end of the order."""
        self.of(folder).gone(block.id)

    @property
    def last(self) -> int:
        """The last row of the ledger."""
        self._check()
        if self._seq is None:
            self._seq = self._db.rows("SELECT coalesce(max(seq), 0) FROM ledger")[0][0]
        return self._seq

    def noted(self, seq: int) -> None:
        """The ledger now ends with row `seq`."""
        self._seq = seq

    def _check(self) -> None:
        """Forget everything unless it is still so."""
        db = self._db
        mark = (db.begun, db.undone)
        if mark == self._mark and db.within:
            return
        version = db.rows("PRAGMA data_version")[0][0]
        if version != self._version or mark[1] != self._mark[1] or not db.within:
            self.forget()
        self._mark, self._version = mark, version

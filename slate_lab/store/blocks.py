"""Blocks of slates, kept: counters, files, live blocks and the ledger, for `slates.Slates`.

In: what a write decided. Out: rows. Every statement runs inside the transaction of the caller, which takes the write
lock first, so that two kernels take turns. The index of words is brought up to date by the search that needs it, not by
the writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec
from msgspec import Struct

from slate_lab.slates.eviction import Policy
from slate_lab.slates.keep import Coming, FileKind, Leaver, Place, Spot
from slate_lab.slates.results import Hit, Lost, SlateFolder, Stored
from slate_lab.slates.spec import Folder
from slate_lab.store.block_checks import verify
from slate_lab.store.block_words import drop_words, search
from slate_lab.store.codec import decode
from slate_lab.store.database import Database
from slate_lab.store.standing import Standings

__all__ = ["Blocks"]

_tags = msgspec.json.Decoder(dict[str, Any])

_NOTE = """INSERT INTO ledger (at_ns, kind, folder, file, block, tokens, policy, cause, by_seq, code, tags, text)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_NOTES = """INSERT INTO ledger (seq, at_ns, kind, folder, file, block, tokens, policy, cause, by_seq, code, tags, text)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_PUT = "INSERT INTO block (file, pos, id, folder, touched, tokens, encoding) VALUES (?, ?, ?, ?, ?, ?, ?)"
_DROP = "DELETE FROM block WHERE file = ? AND pos = ?"
_COUNTERS = "UPDATE folder SET total = ?, blocks = ? WHERE n = ?"
_STORED = """SELECT b.id, b.file, x.name, b.pos, b.tokens, b.touched, l.tags, l.text FROM block AS b
    JOIN file AS x ON x.n = b.file JOIN ledger AS l ON l.seq = b.id WHERE b.file = ?"""
_PAGE, _LARGEST = 16, 256
"""Blocks of a file read at once: at first, and at most."""
_NO_FILE: tuple[None, FileKind] = (None, "")


class _Place(Struct, frozen=True):
    """A live block and where it is."""

    id: int
    file: int
    pos: int
    tokens: int


def _stored(row: tuple[Any, ...]) -> Stored:
    id, file, name, pos, size, touched, tags, text = row
    return Stored(id, file, name, pos, size, touched, decode(_tags, tags, f"block {id}") if tags else {}, text)


class Blocks:
    """The slates' side of one store."""

    def __init__(self, database: Database, *, clock: Callable[[], int]) -> None:
        self._db, self._clock = database, clock
        self._standing = Standings(database)

    def transaction(self) -> AbstractContextManager[None]:
        """Everything inside lands together or not at all."""
        return self._db.transaction()

    def look(self) -> AbstractContextManager[None]:
        """Everything read inside is of one moment."""
        return self._db.transaction(reads=True)

    # opening

    def enter(self, folders: Sequence[Folder]) -> list[Folder]:
        """Lay the declarations over what is kept; returns every folder with its number, also orphaned ones."""
        db = self._db
        found: list[Folder] = []
        self._standing.forget()
        if not db.looking:
            db.run("UPDATE folder SET declared = 0 WHERE declared")
        for folder in folders:
            n = self._unkept(folder, found) if db.looking else self._lay(folder)
            found.append(msgspec.structs.replace(folder, n=n))
        known = {folder.n for folder in found}
        return found + [
            Folder(n=n, slate=slate, name=name, limit=limit, policy=policy, writable=False, orphaned=True)
            for n, slate, name, limit, policy in db.rows(
                "SELECT n, slate, name, max_tokens, policy FROM folder ORDER BY n"
            )
            if n not in known
        ]

    def _lay(self, folder: Folder) -> int:
        """Lay one declaration over what is kept; returns its number."""
        db, access = self._db, "readWrite" if folder.writable else "read"
        row = db.row("SELECT n, policy FROM folder WHERE slate = ? AND name = ?", (folder.slate, folder.name))
        if row is None:
            return db.insert(
                "INSERT INTO folder (slate, name, max_tokens, policy, access, declared) VALUES (?, ?, ?, ?, ?, 1)",
                (folder.slate, folder.name, folder.limit, folder.policy, access),
            )
        n, policy = row
        if policy != folder.policy and folder.policy != "LRU":
            db.run("UPDATE block SET touched = id WHERE folder = ?", (n,))  # the order of writes again
        db.run(
            "UPDATE folder SET max_tokens = ?, policy = ?, access = ?, declared = 1 WHERE n = ?",
            (folder.limit, folder.policy, access, n),
        )
        return int(n)

    def _unkept(self, folder: Folder, found: Sequence[Folder]) -> int:
        """The number of a folder in a store that can only be looked at; one that no folder has, if it is not there."""
        row = self._db.row("SELECT n FROM folder WHERE slate = ? AND name = ?", (folder.slate, folder.name))
        return int(row[0]) if row else -1 - len(found)

    def recount(self, encoding: str, count: Callable[[str], int]) -> int:
        """Count anew every block that another encoding counted; returns how many."""
        rows = self._db.rows(
            "SELECT b.file, b.pos, l.text, b.folder, b.id, b.tokens FROM block AS b JOIN ledger AS l ON l.seq = b.id "
            "WHERE b.encoding <> ?",
            (encoding,),
        )
        for file, pos, text, folder, id, _ in rows:
            size = count(text)
            self._db.run(
                "UPDATE block SET tokens = ?, encoding = ? WHERE file = ? AND pos = ?", (size, encoding, file, pos)
            )
            self.note("recount", folder, cause="encoding", file=file, block=id, tokens=size, code=encoding)
        if rows:
            self._db.run(
                "UPDATE folder SET total = (SELECT coalesce(sum(tokens), 0) FROM block WHERE block.folder = folder.n)"
            )
        return len(rows)

    def seeded(self, folder: int, file: str) -> bool:
        """Whether a file has had its seed, or was written before it was declared."""
        return self._db.row("SELECT 1 FROM file WHERE folder = ? AND name = ?", (folder, file)) is not None

    def forget(self, before_ns: int) -> int:
        """Clear the texts of blocks that left before, and of writes that were refused before; returns how many."""
        drop_words(self._db)
        return self._db.run(
            "UPDATE ledger SET text = NULL WHERE text IS NOT NULL AND (kind IN ('refuse', 'noop') AND at_ns < ? "
            "OR seq IN (SELECT block FROM ledger WHERE kind IN ('evict', 'replace') AND at_ns < ?))",
            (before_ns, before_ns),
        )

    # writing

    def spot(self, folder: int, file: str) -> Spot:
        """The state that a write meets."""
        now, found = self._standing.of(folder), self._standing.file(folder, file)
        return Spot(now.total, now.blocks, now.limit, now.policy, *(found or _NO_FILE))

    def files(self, folder: int) -> list[tuple[int, str, FileKind]]:
        """Number, name and kind of the files of a folder, in the order they came."""
        return [
            (n, name, kind)
            for n, name, kind in self._db.rows("SELECT n, name, kind FROM file WHERE folder = ? ORDER BY n", (folder,))
        ]

    def add_file(self, folder: int, name: str, kind: FileKind) -> int:
        """A new file; returns its number."""
        return self._db.insert("INSERT INTO file (folder, name, kind) VALUES (?, ?, ?)", (folder, name, kind))

    def set_kind(self, file: int, kind: FileKind) -> None:
        """What a file holds."""
        self._db.run("UPDATE file SET kind = ? WHERE n = ?", (kind, file))
        self._standing.forget()

    def turns(self, folder: int) -> Iterator[Leaver]:
        """The blocks of a folder in the order of their turn."""
        return self._standing.turns(folder)

    def stored(self, file: int) -> list[Stored]:
        """The blocks of a file in their order."""
        return [_stored(row) for row in self._db.rows(f"{_STORED} ORDER BY b.pos", (file,))]

    def walk(self, file: int, *, newest: bool) -> Iterator[Stored]:
        """The same, or from the other end, read only as far as needed."""
        size, last = _PAGE, 2**63 - 1 if newest else -1
        sql = f"{_STORED} AND b.pos < ? ORDER BY b.pos DESC" if newest else f"{_STORED} AND b.pos > ? ORDER BY b.pos"
        while rows := self._db.rows(f"{sql} LIMIT ?", (file, last, size)):
            yield from map(_stored, rows)
            if len(rows) < size:
                return
            last, size = rows[-1][3], min(2 * size, _LARGEST)

    def tally(self, file: int) -> list[tuple[dict[str, Any], int]]:
        """How many blocks of a file have which tags."""
        rows = self._db.rows(
            "SELECT l.tags, count(*), min(b.id) FROM block AS b JOIN ledger AS l ON l.seq = b.id WHERE b.file = ? "
            "GROUP BY l.tags",
            (file,),
        )
        return [(decode(_tags, tags, f"block {id}") if tags else {}, many) for tags, many, id in rows]

    def policy(self, folder: int) -> Policy:
        """The policy in force."""
        row = self._db.row("SELECT policy FROM folder WHERE n = ?", (folder,))
        return row[0] if row else "FIFO"

    def places(self, folder: int, ids: Sequence[int]) -> list[Place]:
        """Those of these blocks that are live in a folder, in the order of `ids`."""
        rows = self._db.rows(
            "SELECT id, file, pos, tokens FROM block WHERE folder = ? AND id IN (SELECT value FROM json_each(?))",
            (folder, msgspec.json.encode(list(ids)).decode()),
        )
        live = {row[0]: _Place(*row) for row in rows}
        return [live[id] for id in dict.fromkeys(ids) if id in live]

    def note(
        self,
        kind: str,
        folder: int | None,
        *,
        cause: str,
        file: int | None = None,
        block: int | None = None,
        tokens: int | None = None,
        policy: str | None = None,
        by: int | None = None,
        code: str | None = None,
        text: str | None = None,
        tags: str | None = None,
    ) -> int:
        """A row of the ledger; returns its number."""
        row = (self._clock(), kind, folder, file, block, tokens, policy, cause, by, code, tags, text)
        seq = self._db.insert(_NOTE, row)
        self._standing.noted(seq)
        return seq

    def land(
        self,
        folder: int,
        file: int,
        *,
        adds: Sequence[Coming],
        leaves: Sequence[Stored],
        victims: Sequence[Leaver],
        policy: str,
        mode: str | None,
        cause: str,
        encoding: str,
    ) -> tuple[int, ...]:
        """Everything a decided write does; returns the ids of its blocks."""
        db, standing, at = self._db, self._standing, self._clock()
        now, by, seq = standing.of(folder), standing.last + 1, standing.last
        total, blocks = now.total, now.blocks + len(adds) - len(leaves) - len(victims)
        notes: list[tuple[Any, ...]] = []
        puts, drops = [], []
        for add in adds:
            seq += 1
            first = by if seq > by else None
            notes.append(
                (seq, at, "write", folder, file, add.pos, add.tokens, policy, cause, first, mode, add.tags, add.text)
            )
            puts.append((file, add.pos or seq, seq, folder, seq, add.tokens, encoding))
            total += add.tokens
        ids = tuple(range(by, seq + 1))
        if not adds:
            seq += 1
            notes.append((seq, at, "empty", folder, file, None, 0, policy, cause, None, mode, None, None))
        for old in leaves:
            seq += 1
            notes.append((seq, at, "replace", folder, file, old.id, old.tokens, mode, cause, by, None, None, None))
            drops.append((file, old.pos))
            total -= old.tokens
            now.gone(old.id)
        for out in victims:
            seq += 1
            notes.append((seq, at, "evict", folder, out.file, out.id, out.tokens, policy, cause, by, None, None, None))
            drops.append((out.file, out.pos))
            total -= out.tokens
            now.gone(out.id)
        db.run_many(_NOTES, notes)
        if drops:
            db.run_many(_DROP, drops)
        if puts:
            db.run_many(_PUT, puts)
        db.run(_COUNTERS, (total, blocks, folder))
        now.total, now.blocks = total, blocks
        standing.noted(seq)
        return ids

    def touch(self, folder: int, blocks: Sequence[Place], seq: int) -> None:
        """These blocks were read in the ledger's row `seq`."""
        now = self._standing.of(folder)
        db = self._db
        db.run_many("UPDATE block SET touched = ? WHERE file = ? AND pos = ?", [(seq, b.file, b.pos) for b in blocks])
        for block in blocks:
            now.gone(block.id)

    # looking

    def folders(self) -> list[SlateFolder]:
        """Where every folder stands."""
        return [
            SlateFolder(
                slate=slate,
                folder=folder,
                policy=policy,
                access=access,
                limit=limit,
                total=total,
                blocks=blocks,
                files=tuple(name for _, name, _ in self.files(n)),
                over_limit=bool(over),
                orphaned=bool(orphaned),
            )
            for n, slate, folder, policy, access, limit, total, blocks, over, orphaned in self._db.rows(
                "SELECT n, slate, folder, policy, access, max_tokens, total, blocks, over_limit, orphaned FROM folders "
                "ORDER BY orphaned, n"
            )
        ]

    def search(
        self,
        match: str,
        folders: Sequence[int],
        limit: int,
        *,
        file: str | None = None,
        fits: Callable[[str, dict[str, Any]], bool] | None = None,
    ) -> list[Hit]:
        """Live blocks that match an FTS5 query, best first."""
        return search(self._db, match, folders, limit, file=file, fits=fits)

    def lost(self, folders: Sequence[int], file: str | None, limit: int | None) -> list[Lost]:
        """Blocks that left, the newest first."""
        rows = self._db.rows(
            "SELECT e.seq, e.at_ns, f.slate, f.name, x.name, e.block, e.tokens, e.policy, e.cause, e.by_seq, w.cause, "
            "w.at_ns, w.text FROM ledger AS e JOIN folder AS f ON f.n = e.folder JOIN file AS x ON x.n = e.file "
            "JOIN ledger AS w ON w.seq = e.block WHERE e.kind IN ('evict', 'replace') "
            "AND e.folder IN (SELECT value FROM json_each(?)) AND (? IS NULL OR x.name = ?) "
            "ORDER BY e.seq DESC LIMIT ?",
            (msgspec.json.encode(list(folders)).decode(), file, file, -1 if limit is None else limit),
        )
        return [
            Lost(
                seq=seq,
                at_ns=at_ns,
                target=f"{slate}/{folder}/{name}",
                slate=slate,
                folder=folder,
                file=name,
                block=block,
                tokens=size,
                how=how,
                cause=cause,
                by=by,
                written_by=written_by,
                written_ns=written_ns,
                text=text,
            )
            for seq, at_ns, slate, folder, name, block, size, how, cause, by, written_by, written_ns, text in rows
        ]

    def verify(self) -> list[str]:
        """Where counters, blocks, ledger and the index of words disagree, a sentence each."""
        return verify(self._db)

"""Blocks of slates, kept: counters, files, live blocks and the ledger, for `slates.Slates`.

In: what a write decided. Out: rows. Every statement runs inside the transaction of the caller, which takes the write
lock first, so that two kernels take turns. The index of words is brought up to date by the search that needs it, not by
the writes.
"""

# ruff: noqa: S608 - only numbers of this module are put into statements, never values
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from slate_lab.slates.keep import FileKind, Leaver, Spot
from slate_lab.slates.results import PREVIEW, Hit, Lost, SlateFolder, Stored
from slate_lab.slates.spec import Folder
from slate_lab.store.codec import decode
from slate_lab.store.database import Database

__all__ = ["Blocks"]

_tags = msgspec.json.Decoder(dict[str, Any])
_MOST = 64
"""Blocks looked at at once when many must leave; the first look is at one, for one mostly makes room for one."""

_SPOT = """SELECT f.total, f.blocks, x.n, coalesce(x.kind, '') FROM folder AS f
    LEFT JOIN file AS x ON x.folder = f.n AND x.name = ? WHERE f.n = ?"""
_TURNS = f"""SELECT b.id, b.file, b.pos, b.tokens, x.name, substr(l.text, 1, {PREVIEW}), b.touched FROM block AS b
    CROSS JOIN file AS x ON x.n = b.file CROSS JOIN ledger AS l ON l.seq = b.id
    WHERE b.folder = ? AND (b.touched, b.id) > (?, ?) ORDER BY b.touched, b.id LIMIT ?"""
_NOTE = """INSERT INTO ledger (at_ns, kind, folder, file, block, tokens, policy, cause, by_seq, code, tags, text)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_PUT = "INSERT INTO block (file, pos, id, folder, touched, tokens, encoding) VALUES (?, ?, ?, ?, ?, ?, ?)"
_STORED = """SELECT b.id, b.file, x.name, b.pos, b.tokens, b.touched, l.tags, l.text FROM block AS b
    JOIN file AS x ON x.n = b.file JOIN ledger AS l ON l.seq = b.id WHERE b.file = ? ORDER BY b.pos"""


class Blocks:
    """The slates' side of one store."""

    def __init__(self, database: Database, *, clock: Callable[[], int]) -> None:
        self._db, self._clock = database, clock

    def transaction(self) -> AbstractContextManager[None]:
        """Everything inside lands together or not at all."""
        return self._db.transaction()

    # opening

    def enter(self, folders: Sequence[Folder]) -> list[Folder]:
        """Lay the declarations over what is kept; returns every folder with its number, also orphaned ones."""
        db, found = self._db, []
        if not db.looking:
            db.run("UPDATE folder SET declared = 0 WHERE declared")
        for folder in folders:
            access = "readWrite" if folder.writable else "read"
            row = db.row("SELECT n, policy FROM folder WHERE slate = ? AND name = ?", (folder.slate, folder.name))
            if row is None:
                n = db.insert(
                    "INSERT INTO folder (slate, name, max_tokens, policy, access, declared) VALUES (?, ?, ?, ?, ?, 1)",
                    (folder.slate, folder.name, folder.limit, folder.policy, access),
                )
            else:
                n, policy = row
                if policy != folder.policy and folder.policy != "LRU":
                    db.run("UPDATE block SET touched = id WHERE folder = ?", (n,))  # the order of writes again
                db.run(
                    "UPDATE folder SET max_tokens = ?, policy = ?, access = ?, declared = 1 WHERE n = ?",
                    (folder.limit, folder.policy, access, n),
                )
            found.append(msgspec.structs.replace(folder, n=n))
        return found + [
            Folder(n=n, slate=slate, name=name, limit=limit, policy=policy, writable=False, orphaned=True)
            for n, slate, name, limit, policy in db.rows(
                "SELECT n, slate, name, max_tokens, policy FROM folder WHERE NOT declared OR ? ORDER BY n",
                (db.looking,),
            )
        ]

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
        return self._db.run(
            "UPDATE ledger SET text = NULL WHERE text IS NOT NULL AND (kind IN ('refuse', 'noop') AND at_ns < ? "
            "OR seq IN (SELECT block FROM ledger WHERE kind IN ('evict', 'replace') AND at_ns < ?))",
            (before_ns, before_ns),
        )

    # writing

    def spot(self, folder: int, file: str) -> Spot:
        """The state that a write meets."""
        row = self._db.row(_SPOT, (file, folder))
        assert row is not None
        return Spot(*row)

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

    def turns(self, folder: int) -> Iterator[Leaver]:
        """The blocks of a folder in the order of their turn."""
        last, size = (-1, -1), 1
        while page := self._db.rows(_TURNS, (folder, *last, size)):
            size = min(2 * size, _MOST)
            for id, file, pos, tokens, name, preview, touched in page:
                yield Leaver(id, file, pos, tokens, name, preview or "")
                last = (touched, id)

    def stored(self, file: int) -> list[Stored]:
        """The blocks of a file in their order."""
        return [
            Stored(id, n, name, pos, size, touched, decode(_tags, tags, f"block {id}") if tags else {}, text)
            for id, n, name, pos, size, touched, tags, text in self._db.rows(_STORED, (file,))
        ]

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
        return self._db.insert(
            _NOTE, (self._clock(), kind, folder, file, block, tokens, policy, cause, by, code, tags, text)
        )

    def put(self, id: int, folder: int, file: int, pos: int, tokens: int, encoding: str) -> None:
        """A block becomes live."""
        self._db.run(_PUT, (file, pos, id, folder, id, tokens, encoding))

    def drop(self, file: int, pos: int) -> None:
        """A block is live no more."""
        self._db.run("DELETE FROM block WHERE file = ? AND pos = ?", (file, pos))

    def settle(self, folder: int, total: int, blocks: int) -> None:
        """The counters of a folder."""
        self._db.run("UPDATE folder SET total = ?, blocks = ? WHERE n = ?", (total, blocks, folder))

    def touch(self, blocks: Sequence[Stored], seq: int) -> None:
        """These blocks were read in the ledger's row `seq`."""
        for block in blocks:
            self._db.run("UPDATE block SET touched = ? WHERE file = ? AND pos = ?", (seq, block.file, block.pos))

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

    def search(self, match: str, folders: Sequence[int], limit: int) -> list[Hit]:
        """Live blocks that match an FTS5 query, best first."""
        self._index()
        rows = self._db.rows(
            "SELECT f.slate, f.name, x.name, b.id, b.tokens, snippet(block_text, 0, '[', ']', '…', 16), l.text "
            "FROM block_text AS t JOIN ledger AS l ON l.seq = t.rowid "
            "JOIN block AS b ON b.file = l.file AND b.pos = coalesce(l.block, l.seq) AND b.id = l.seq "
            "JOIN folder AS f ON f.n = b.folder JOIN file AS x ON x.n = b.file "
            "WHERE block_text MATCH ? AND b.folder IN (SELECT value FROM json_each(?)) ORDER BY rank LIMIT ?",
            (match, msgspec.json.encode(list(folders)).decode(), limit),
        )
        return [
            Hit(
                target=f"{slate}/{folder}/{file}",
                slate=slate,
                folder=folder,
                file=file,
                block=block,
                tokens=size,
                snippet=snippet,
                text=text,
            )
            for slate, folder, file, block, size, snippet, text in rows
        ]

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
        """Where counters, blocks and ledger disagree, a sentence each."""
        return [sentence for sql in _CHECKS for (sentence,) in self._db.rows(sql)]

    def _index(self) -> None:
        """Bring the index of words up to the last row of the ledger."""
        db = self._db
        with db.transaction():
            (upto,), (last,) = db.rows("SELECT seq FROM block_text_state") + db.rows(
                "SELECT coalesce(max(seq), 0) FROM ledger"
            )
            if upto == last:
                return
            db.run("DELETE FROM block_text WHERE rowid IN (SELECT rowid FROM block_text EXCEPT SELECT id FROM block)")
            db.run(
                "INSERT INTO block_text (rowid, text) SELECT b.id, l.text FROM block AS b "
                "JOIN ledger AS l ON l.seq = b.id WHERE b.id > ?",
                (upto,),
            )
            db.run("UPDATE block_text_state SET seq = ?", (last,))


_CHECKS = (
    "SELECT 'folder ' || slate || '/' || name || ': its counters say ' || total || ' tokens in ' || blocks || "
    "' blocks, its blocks ' || size || ' in ' || many FROM (SELECT f.*, "
    "(SELECT coalesce(sum(tokens), 0) FROM block WHERE folder = f.n) AS size, "
    "(SELECT count(*) FROM block WHERE folder = f.n) AS many FROM folder AS f) WHERE total <> size OR blocks <> many",
    "SELECT 'block ' || b.id || ' has no row with its text in the ledger' FROM block AS b LEFT JOIN ledger AS l "
    "ON l.seq = b.id AND l.kind = 'write' AND l.file = b.file WHERE l.text IS NULL",
    "SELECT 'the ledger says that block ' || l.seq || ' was written; it is neither there nor said to have left once' "
    "FROM ledger AS l LEFT JOIN block AS b ON b.file = l.file AND b.pos = coalesce(l.block, l.seq) AND b.id = l.seq "
    "LEFT JOIN (SELECT block, count(*) AS times FROM ledger WHERE kind IN ('evict', 'replace') GROUP BY block) AS e "
    "ON e.block = l.seq WHERE l.kind = 'write' AND (b.id IS NOT NULL) + coalesce(e.times, 0) <> 1",
)

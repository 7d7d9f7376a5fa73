"""The index of words of slates' blocks: brought up to date by the search that needs it, never by a write.

In: a database and a query of FTS5. Out: hits among live blocks, best first. A store that can only be looked at, and
whose index is behind, is searched by an index in memory. Called by `blocks`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from slate_lab.slates.results import Hit
from slate_lab.store.codec import decode
from slate_lab.store.database import MEMORY, Database

__all__ = ["drop_words", "search"]

_tags = msgspec.json.Decoder(dict[str, Any])
_LONG = 2_000
"""Characters of a text up to which SQLite finds the snippet."""
_SHOWN = 100
_MATCH = "SELECT rowid FROM block_text WHERE block_text MATCH ? ORDER BY rank"
_SNIPPET = "SELECT snippet(block_text, 0, '[', ']', '…', 16) FROM block_text WHERE block_text MATCH ? AND rowid = ?"
_LIVE = """SELECT b.id, f.slate, f.name, x.name, b.tokens, l.tags FROM json_each(?) AS j
    JOIN ledger AS l ON l.seq = j.value
    JOIN block AS b ON b.file = l.file AND b.pos = coalesce(l.block, l.seq) AND b.id = l.seq
    JOIN folder AS f ON f.n = b.folder JOIN file AS x ON x.n = b.file
    WHERE b.folder IN (SELECT value FROM json_each(?)) AND (? IS NULL OR x.name = ?) ORDER BY j.key"""
_MADE = """CREATE VIRTUAL TABLE block_text USING fts5 (text, tokenize = "unicode61 remove_diacritics 2")"""


def search(
    db: Database,
    match: str,
    folders: Sequence[int],
    limit: int,
    *,
    file: str | None = None,
    fits: Callable[[str, dict[str, Any]], bool] | None = None,
) -> list[Hit]:
    """Live blocks that match, best first; of a file, and whose file's name and tags `fits` takes."""
    words = _words(db)
    try:
        matched = _json([id for (id,) in words.rows(_MATCH, (match,))])
        found: list[Hit] = []
        for id, slate, folder, name, size, tags in db.rows(_LIVE, (matched, _json(folders), file, file)):
            if len(found) >= limit:
                break
            if fits is not None and not fits(name, decode(_tags, tags, f"block {id}") if tags else {}):
                continue
            text = db.rows("SELECT text FROM ledger WHERE seq = ?", (id,))[0][0]
            found.append(
                Hit(
                    target=f"{slate}/{folder}/{name}",
                    slate=slate,
                    folder=folder,
                    file=name,
                    block=id,
                    tokens=size,
                    snippet=words.rows(_SNIPPET, (match, id))[0][0] if len(text) <= _LONG else _piece(text, match),
                    text=text,
                )
            )
        return found
    finally:
        if words is not db:
            words.close()


def _piece(text: str, match: str) -> str:
    """The snippet of a long text, whose words SQLite would compare each with each: that of its best piece."""
    aside = Database(MEMORY)
    try:
        with aside.transaction():
            aside.run(_MADE)
            pieces = [(n, text[n : n + _LONG]) for n in range(0, len(text), _LONG)]
            aside.run_many("INSERT INTO block_text (rowid, text) VALUES (?, ?)", pieces)
        some = " OR ".join(match.split(" "))
        best = aside.rows(f"{_MATCH} LIMIT 1", (some,))
        return aside.rows(_SNIPPET, (some, best[0][0]))[0][0] if best else text[:_SHOWN]
    finally:
        aside.close()


def drop_words(db: Database) -> None:
    """Take the words of blocks that are no longer live out of the index."""
    db.run("DELETE FROM block_text WHERE rowid IN (SELECT rowid FROM block_text EXCEPT SELECT id FROM block)")


def _words(db: Database) -> Database:
    """The database whose index knows every live block: this one, or one in memory."""
    upto, last = db.rows("SELECT s.seq, (SELECT coalesce(max(seq), 0) FROM ledger) FROM block_text_state AS s")[0]
    if upto == last:
        return db
    if db.looking:
        aside = Database(MEMORY)
        with aside.transaction():
            aside.run(_MADE)
            rows = db.rows("SELECT b.id, l.text FROM block AS b JOIN ledger AS l ON l.seq = b.id")
            aside.run_many("INSERT INTO block_text (rowid, text) VALUES (?, ?)", rows)
        return aside
    with db.transaction():
        upto, last = db.rows("SELECT s.seq, (SELECT coalesce(max(seq), 0) FROM ledger) FROM block_text_state AS s")[0]
        drop_words(db)
        db.run(
            "INSERT INTO block_text (rowid, text) SELECT b.id, l.text FROM block AS b "
            "JOIN ledger AS l ON l.seq = b.id WHERE b.id > ?",
            (upto,),
        )
        db.run("UPDATE block_text_state SET seq = ?", (last,))
    return db


def _json(ids: Sequence[int]) -> str:
    return msgspec.json.encode(list(ids)).decode()

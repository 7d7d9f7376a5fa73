"""Checks over slates' tables: counters against blocks, blocks against the ledger, the index of words against both.

In: a database. Out: what is wrong, a sentence each. Called when a store is verified.
"""

# ruff: noqa: S608 - only statements of this module are joined, never values
from __future__ import annotations

from slate_lab.errors import StoreError
from slate_lab.store.database import Database

__all__ = ["verify"]

_SIZES = """WITH counted AS (SELECT block, tokens, max(seq) FROM ledger WHERE kind = 'recount' GROUP BY block),
    sizes AS (SELECT l.seq AS id, l.folder AS folder, coalesce(c.tokens, l.tokens) AS tokens FROM ledger AS l
    LEFT JOIN counted AS c ON c.block = l.seq WHERE l.kind = 'write') """

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
    f"{_SIZES} SELECT 'block ' || b.id || ' has ' || b.tokens || ' tokens, the ledger says ' || s.tokens "
    "FROM block AS b JOIN sizes AS s ON s.id = b.id WHERE b.tokens <> s.tokens",
    f"{_SIZES} SELECT 'the ledger says that block ' || e.block || ' left with ' || e.tokens || ' tokens, and had ' || "
    "s.tokens FROM ledger AS e JOIN sizes AS s ON s.id = e.block WHERE e.kind IN ('evict', 'replace') "
    "AND e.tokens <> s.tokens",
    f"{_SIZES} SELECT 'folder ' || f.slate || '/' || f.name || ': the ledger leaves ' || g.held || ' tokens in it, "
    "its counters say ' || f.total FROM folder AS f JOIN (SELECT folder, sum(tokens) AS held FROM (SELECT folder, "
    "tokens FROM sizes UNION ALL SELECT folder, -tokens FROM ledger WHERE kind IN ('evict', 'replace')) "
    "GROUP BY folder) AS g ON g.folder = f.n WHERE g.held <> f.total",
    "SELECT 'block ' || b.id || ' is not in the index of words' FROM block AS b, block_text_state AS s "
    "WHERE b.id <= s.seq AND b.id NOT IN (SELECT rowid FROM block_text)",
    "SELECT 'the index of words has other words for block ' || b.id FROM block AS b JOIN block_text AS t "
    "ON t.rowid = b.id JOIN ledger AS l ON l.seq = b.id WHERE t.text <> l.text",
    "SELECT 'the index of words is ahead of the ledger: ' || seq FROM block_text_state "
    "WHERE seq > (SELECT coalesce(max(seq), 0) FROM ledger)",
)


def verify(db: Database) -> list[str]:
    """Where counters, blocks, ledger and the index of words disagree, a sentence each."""
    problems = [sentence for sql in _CHECKS for (sentence,) in db.rows(sql)]
    if not db.looking:  # asking the index for its own check is a write to SQLite
        try:
            db.run("INSERT INTO block_text (block_text) VALUES ('integrity-check')")
        except StoreError as error:
            problems.append(f"the index of words: {error.message}")
    return problems

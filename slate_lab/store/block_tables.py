"""The tables of slates: folders with their counters, files, live blocks, the ledger, and the index of words.

A block is the row of the ledger that wrote it: there stand its text and tags, here its place, size and turn. So what
left is still readable, and nothing is copied when it leaves. `touched` is the row that wrote it or, in an LRU folder,
last read it: the order in which blocks leave. In the row of a write, `block` is the place it took over from another
block, if it did. Counters are kept by the writes and can be checked against the blocks.
"""

from __future__ import annotations

__all__ = ["BLOCKS"]

BLOCKS = (
    """CREATE TABLE folder (
    n INTEGER PRIMARY KEY, slate TEXT NOT NULL, name TEXT NOT NULL, max_tokens INTEGER NOT NULL, policy TEXT NOT NULL,
    access TEXT NOT NULL, declared INTEGER NOT NULL, total INTEGER NOT NULL DEFAULT 0,
    blocks INTEGER NOT NULL DEFAULT 0, UNIQUE (slate, name))""",
    """CREATE TABLE file (
    n INTEGER PRIMARY KEY, folder INTEGER NOT NULL REFERENCES folder (n), name TEXT NOT NULL, kind TEXT NOT NULL,
    UNIQUE (folder, name))""",
    """CREATE TABLE ledger (
    seq INTEGER PRIMARY KEY, at_ns INTEGER NOT NULL, kind TEXT NOT NULL, folder INTEGER, file INTEGER, block INTEGER,
    tokens INTEGER, policy TEXT, cause TEXT NOT NULL, by_seq INTEGER, code TEXT, tags TEXT, text TEXT)""",
    """CREATE TABLE block (
    file INTEGER NOT NULL, pos INTEGER NOT NULL, id INTEGER NOT NULL, folder INTEGER NOT NULL, touched INTEGER NOT NULL,
    tokens INTEGER NOT NULL, encoding TEXT NOT NULL, PRIMARY KEY (file, pos)) WITHOUT ROWID""",
    "CREATE INDEX block_turn ON block (folder, touched, id)",
    """CREATE VIRTUAL TABLE block_text USING fts5 (text, tokenize = "unicode61 remove_diacritics 2")""",
    "CREATE TABLE block_text_state (seq INTEGER NOT NULL)",
    "INSERT INTO block_text_state VALUES (0)",
    """CREATE VIEW folders AS SELECT slate, name AS folder, policy, access, max_tokens, total, blocks,
    (SELECT count(*) FROM file WHERE file.folder = folder.n) AS files, total > max_tokens AS over_limit,
    NOT declared AS orphaned, n FROM folder""",
    """CREATE VIEW blocks AS SELECT b.id AS id, f.slate AS slate, f.name AS folder, x.name AS file, b.pos AS pos,
    b.tokens AS tokens, l.at_ns AS written_ns, t.at_ns AS touched_ns, b.touched AS touched, l.cause AS cause,
    l.tags AS tags, b.encoding AS encoding, l.text AS text
    FROM block AS b JOIN folder AS f ON f.n = b.folder JOIN file AS x ON x.n = b.file
    JOIN ledger AS l ON l.seq = b.id JOIN ledger AS t ON t.seq = b.touched""",
    """CREATE VIEW evictions AS SELECT e.seq AS seq, e.at_ns AS at_ns, f.slate AS slate, f.name AS folder,
    x.name AS file, e.block AS block, e.tokens AS tokens, e.policy AS how, e.cause AS cause, e.by_seq AS by_seq,
    w.at_ns AS written_ns, w.cause AS written_by, w.text AS text
    FROM ledger AS e JOIN folder AS f ON f.n = e.folder JOIN file AS x ON x.n = e.file
    JOIN ledger AS w ON w.seq = e.block WHERE e.kind IN ('evict', 'replace')""",
    """CREATE VIEW ledger_rows AS SELECT l.seq AS seq, l.at_ns AS at_ns, l.kind AS kind, f.slate AS slate,
    f.name AS folder, x.name AS file, iif(l.kind = 'write', l.seq, l.block) AS block,
    l.tokens AS tokens, l.policy AS policy, l.cause AS cause,
    l.by_seq AS by_seq, l.code AS code, l.tags AS tags, l.text AS text
    FROM ledger AS l LEFT JOIN folder AS f ON f.n = l.folder LEFT JOIN file AS x ON x.n = l.file""",
)

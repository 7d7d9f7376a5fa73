"""The columns of `lives`: every block that was ever written, and every write that was refused, with what became of it.

Out: one `Declared`, made of the ledger's rows. Read by `frames`; `plots` draws it.
"""

from __future__ import annotations

from slate_lab.reports.columns import Column, Declared, word

__all__ = ["FATES", "LIVES"]

FATES = ("still there", "left", "refused")

_SOURCE = """(WITH made AS (
    SELECT seq, slate, folder, file, kind, tokens, cause, text,
      row_number() OVER (PARTITION BY slate, folder ORDER BY seq) AS n,
      count(*) OVER (PARTITION BY slate, folder) AS many
    FROM ledger_rows WHERE kind IN ('write', 'refuse') AND folder IS NOT NULL)
  SELECT m.seq AS seq, m.slate AS slate, m.folder AS folder, m.file AS file, m.tokens AS tokens, m.n AS written,
    CASE WHEN m.kind = 'refuse' THEN m.n WHEN gone.by_seq IS NULL THEN m.many + 1 ELSE pusher.n END AS until,
    CASE WHEN m.kind = 'refuse' THEN 'refused' WHEN gone.by_seq IS NULL THEN 'still there' ELSE 'left' END AS fate,
    m.cause AS cause, pusher.cause AS pushed_by, m.text AS text
  FROM made AS m LEFT JOIN evictions AS gone ON gone.block = m.seq AND m.kind = 'write'
    LEFT JOIN made AS pusher ON pusher.seq = gone.by_seq)
  ORDER BY seq"""


def _text(name: str, meaning: str) -> Column:
    return Column(name, "text", meaning)


LIVES = Declared(
    "lives",
    "one block that was ever written, or one write that was refused",
    (
        _text("slate", "The slate's title."),
        _text("folder", "The folder."),
        _text("file", "The file."),
        Column("tokens", "count", "Its size.", "tokens"),
        Column("written", "count", "Which write of its folder made it, counted from 1, refused ones too.", "writes"),
        Column("until", "count", "Which write pushed it out; one more than there are if none did.", "writes"),
        word("fate", FATES, "What became of it."),
        _text("cause", "Who wrote it: a thread, `slot:name`, `magic`, `api`, `seed`."),
        _text("pushed_by", "Who made the write that pushed it out."),
        _text("text", "What it says; null once the ledger's retention has cleared it."),
    ),
    _SOURCE,
)

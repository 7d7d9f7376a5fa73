"""What comes back from a slate: results of writes, readings, hits of a search, what was lost.

Frozen and plain; shown by notebooks, sent to workers, compared in tests.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

__all__ = ["Evicted", "Hit", "Lost", "Reading", "SlateFolder", "Stored", "WriteResult"]

PREVIEW = 80
"""Characters of a text that a preview shows."""


class Evicted(Struct, frozen=True):
    """A block that a write pushed out: its id, file, size, first characters, and the policy that chose it."""

    block: int
    file: str
    tokens: int
    preview: str
    cause: str


class WriteResult(Struct, frozen=True, kw_only=True):
    """What became of a write.

    Attributes:
        ok: whether it was done (`noop`: there was nothing to do).
        code: `written`, `noop`, or why it was refused: `access_denied`, `block_too_large`, `folder_full`,
            `unknown_slate`, `unknown_folder`, `orphaned`, `bad_target`, `bad_name`, `bad_mode`, `bad_text`, `not_json`,
            `missing_key`, `duplicate_key`, `unknown_tag`, `bad_tag`, or a code of the store.
        message: the same for a person.
        target: where it went.
        blocks: ids of the blocks it made.
        evicted: what it pushed out, in order.
        before, after, limit: tokens of the folder; None if there is no such folder.
    """

    ok: bool
    code: str
    message: str
    target: str = ""
    blocks: tuple[int, ...] = ()
    evicted: tuple[Evicted, ...] = ()
    before: int | None = None
    after: int | None = None
    limit: int | None = None


class Reading(Struct, frozen=True, kw_only=True):
    """What a read returned.

    Attributes:
        text: the blocks, joined by a newline, or one JSON array.
        blocks: their ids, in the order of the text.
        tokens: their sizes together.
        omitted: blocks that matched and did not fit `max_tokens`.
        missing: there is no such file; the text is the fallback.
    """

    target: str
    text: str
    blocks: tuple[int, ...] = ()
    tokens: int = 0
    omitted: int = 0
    missing: bool = False

    def __str__(self) -> str:
        return self.text


class Stored(Struct, frozen=True):
    """A live block with its text.

    Attributes:
        id: also the number of the ledger's row that wrote it.
        file: the number of its file; `name` is what it is called.
        pos: its place in the file.
        touched: the ledger's row that wrote or (LRU) last read it.
        tags: by name.
    """

    id: int
    file: int
    name: str
    pos: int
    tokens: int
    touched: int
    tags: dict[str, Any]
    text: str


class Hit(Struct, frozen=True, kw_only=True):
    """A block that a search found; `snippet` shows where, with the words in brackets."""

    target: str
    slate: str
    folder: str
    file: str
    block: int
    tokens: int
    snippet: str
    text: str


class Lost(Struct, frozen=True, kw_only=True):
    """A block that left: when, by which policy or write mode, because of which write, and what it said.

    Attributes:
        how: `FIFO` or `LRU` if it was evicted, else the mode of the write that replaced it.
        cause: who made the write that pushed it out: a thread, `slot:name`, `magic`, `api`.
        by: the ledger's row of that write.
        written_by, written_ns: who wrote the block, and when.
        text: None once the ledger's retention has cleared it.
    """

    seq: int
    at_ns: int
    target: str
    slate: str
    folder: str
    file: str
    block: int
    tokens: int
    how: str
    cause: str
    by: int
    written_by: str
    written_ns: int
    text: str | None


class SlateFolder(Struct, frozen=True, kw_only=True):
    """Where a folder stands: its fill, its limits, what must be said of it."""

    slate: str
    folder: str
    policy: str
    access: str
    limit: int
    total: int
    blocks: int
    files: tuple[str, ...]
    over_limit: bool
    orphaned: bool

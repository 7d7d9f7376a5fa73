"""The columns of memory's frames: folders, live blocks, what left. Looking at them touches nothing.

Out: three `Declared`. Part of `declared.FRAMES`.
"""

from __future__ import annotations

from slate_lab.reports.columns import Column, Declared, word

__all__ = ["MEMORY_FRAMES"]


def _text(name: str, meaning: str, *reads: str) -> Column:
    return Column(name, "text", meaning, reads=reads)


def _count(name: str, meaning: str, unit: str = "", *reads: str) -> Column:
    return Column(name, "count", meaning, unit, reads=reads)


def _place() -> tuple[Column, ...]:
    return (_text("slate", "The slate's title."), _text("folder", "The folder."), _text("file", "The file."))


_FOLDERS = Declared(
    "folders",
    "one folder of a slate",
    (
        _text("slate", "The slate's title."),
        _text("folder", "The folder."),
        word("policy", ("FIFO", "LRU", "reject"), "What happens when a write would exceed the limit."),
        word("access", ("readWrite", "read"), "Whether writes are let in."),
        _count("limit_tokens", "What it may hold.", "tokens", "max_tokens"),
        _count("total_tokens", "What it holds.", "tokens", "total"),
        Column("fill", "number", "The part of its limit that is used.", reads=("total * 1.0 / max_tokens",)),
        _count("blocks", "Live blocks.", "blocks"),
        _count("files", "Files, also empty ones.", "files"),
        Column("over_limit", "flag", "It holds more than a lowered limit: the next write enforces it."),
        Column("orphaned", "flag", "The configuration no longer declares it."),
    ),
    "folders ORDER BY orphaned, n",
)

_BLOCKS = Declared(
    "blocks",
    "one live block",
    (
        _count("id", "The block, also the row of the ledger that wrote it."),
        *_place(),
        _count(
            "turn",
            "1 leaves first, in its folder.",
            "",
            "row_number() OVER (PARTITION BY slate, folder ORDER BY touched, id)",
        ),
        _count("tokens", "Its size.", "tokens"),
        Column("written", "time", "When it was written.", reads=("written_ns",)),
        Column("touched", "time", "When it was written or (LRU) last read.", reads=("touched_ns",)),
        _text("cause", "Who wrote it: a thread, `slot:name`, `magic`, `api`, `seed`."),
        _text("tags", "Its metatags, as JSON."),
        _text("encoding", "What counted it."),
        _text("text", "What it says."),
    ),
    "blocks ORDER BY slate, folder, file, pos",
)

_EVICTIONS = Declared(
    "evictions",
    "one block that left",
    (
        _count("seq", "The row of the ledger."),
        Column("at", "time", "When it left.", reads=("at_ns",)),
        *_place(),
        _count("block", "The block."),
        _count("tokens", "Its size.", "tokens"),
        word("how", ("FIFO", "LRU", "reject", "replace", "mergeByKey"), "The policy, or the mode that replaced it."),
        _text("cause", "Who made the write that pushed it out."),
        _count("by", "The row of that write.", "", "by_seq"),
        Column("written", "time", "When it was written.", reads=("written_ns",)),
        _text("written_by", "Who wrote it."),
        _text("text", "What it said; null once the ledger has forgotten it."),
    ),
    "evictions ORDER BY seq",
)

MEMORY_FRAMES = (_FOLDERS, _BLOCKS, _EVICTIONS)

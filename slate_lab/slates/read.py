"""Reading: which blocks a read returns, and how they become text. Pure.

In: blocks of one or more files in their order. Out: those that match and fit, and their text. Called by `Slates`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from slate_lab.slates.results import Stored

__all__ = ["Order", "Source", "choose", "match_of", "matches", "render"]

Order = Literal["oldest", "newest"]


class Source(Struct, frozen=True):
    """A file to read from: the tags that its blocks must have, its blocks in the order asked for, and its tally."""

    where: Mapping[str, Any]
    blocks: Callable[[], Iterator[Stored]]
    tally: Callable[[], list[tuple[dict[str, Any], int]]]


def matches(tags: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    """Whether a block with `tags` carries every tag of `where` with that value."""
    return all(_equal(tags.get(name), want) for name, want in where.items())


def _equal(have: Any, want: Any) -> bool:
    return have == want and isinstance(have, bool) == isinstance(want, bool)


def choose(sources: Sequence[Source], *, max_tokens: int | None) -> tuple[list[Stored], int]:
    """The blocks that match, up to the first that no longer fits; and how many were left out.

    No more is read than is returned and one block: what is left out is counted, not read.
    """
    kept: list[Stored] = []
    total, full = 0, False
    for source in sources:
        for block in source.blocks() if not full else ():
            if not matches(block.tags, source.where):
                continue
            total += block.tokens
            if max_tokens is not None and total > max_tokens:
                full = True
                break
            kept.append(block)
    if not full:
        return kept, 0
    every = sum(many for source in sources for tags, many in source.tally() if matches(tags, source.where))
    return kept, every - len(kept)


def render(blocks: Sequence[Stored], *, kinds: Mapping[int, str], titled: bool) -> str:
    """Blocks as text: joined by a newline, or as one JSON array; of several files, each under its name."""
    if not titled:
        return _body(blocks, next(iter(kinds.values()), ""))
    parts: dict[int, list[Stored]] = {}
    for block in blocks:
        parts.setdefault(block.file, []).append(block)
    return "\n\n".join(f"## {part[0].name}\n{_body(part, kinds[file])}" for file, part in parts.items())


def _body(blocks: Sequence[Stored], kind: str) -> str:
    if kind == "items":
        return "[" + ",\n".join(block.text for block in blocks) + "]"
    return "\n".join(block.text for block in blocks)


def match_of(text: str) -> str:
    """A query for full-text search that finds blocks with every word of `text`; `wor*` is the beginning of a word."""
    words = []
    for word in text.replace("\0", " ").split():
        bare = word.rstrip("*")
        if bare:
            quoted = '"' + bare.replace('"', '""') + '"'
            words.append(quoted + ("*" if bare != word else ""))
    return " ".join(words)

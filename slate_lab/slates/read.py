"""Reading: which blocks a read returns, and how they become text. Pure.

In: blocks of one or more files in their order. Out: those that match and fit, and their text. Called by `Slates`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from slate_lab.slates.results import Stored

__all__ = ["Order", "choose", "match_of", "matching", "render"]

Order = Literal["oldest", "newest"]


def matching(blocks: Iterable[Stored], where: Mapping[str, Any]) -> list[Stored]:
    """The blocks that carry every tag of `where` with that value."""
    return [block for block in blocks if all(_equal(block.tags.get(name), want) for name, want in where.items())]


def _equal(have: Any, want: Any) -> bool:
    return have == want and isinstance(have, bool) == isinstance(want, bool)


def choose(blocks: Sequence[Stored], *, max_tokens: int | None, order: Order) -> tuple[list[Stored], int]:
    """The blocks in this order, up to the first that no longer fits; and how many were left out."""
    ordered = list(blocks) if order == "oldest" else list(reversed(blocks))
    if max_tokens is None:
        return ordered, 0
    kept, total = [], 0
    for block in ordered:
        total += block.tokens
        if total > max_tokens:
            break
        kept.append(block)
    return kept, len(ordered) - len(kept)


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

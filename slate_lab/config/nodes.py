"""A read file as values that know their line.

In: nodes built by the YAML and JSON readers. Out: plain dicts and lists whose scalars are still what the author typed
(`Plain`), and the line of every key path. Called by `load`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = [
    "MAX_DEPTH",
    "MAX_VALUES",
    "Fault",
    "Node",
    "Parsed",
    "Path",
    "Plain",
    "Strict",
    "Unreadable",
    "encodable",
    "path_text",
]

MAX_DEPTH = 32
MAX_VALUES = 5_000

Path = tuple[str | int, ...]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class Plain(str):
    """A YAML scalar without quotes: text until a typed field reads it as something else."""

    __slots__ = ()


class Strict(Plain):
    """A JSON number, `true` or `false`: as in YAML, but never text, since JSON has quotes for that."""

    __slots__ = ()


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with the text of a file."""

    code: str
    message: str
    line: int | None = None
    path: Path = ()


class Unreadable(Exception):
    """The rest of the file cannot be read; caught by the reader that raised it."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass
class Node:
    """One value: `None`, text (`Plain` where it was typed without quotes), a table or a list; `size` counts all below.

    `line` is where the value begins; `keys` holds the line of each key of a table.
    """

    line: int
    value: str | dict[str, Node] | list[Node] | None = None
    keys: dict[str, int] = field(default_factory=dict)
    size: int = 1
    depth: int = 1

    def plain(self) -> object:
        """The value with all nodes replaced by their values."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def lines(self, path: Path = ()) -> Iterator[tuple[Path, int]]:
        """Every key path with the line its key (or list item) stands on."""
        if isinstance(self.value, dict):
            for key, node in self.value.items():
                yield (*path, key), self.keys[key]
                yield from node.lines((*path, key))
        elif isinstance(self.value, list):
            for index, node in enumerate(self.value):
                yield (*path, index), node.line
                yield from node.lines((*path, index))


@dataclass(frozen=True)
class Parsed:
    """What a reader makes of a text: the root table (None if the text cannot be read) and everything wrong with it."""

    root: Node | None
    faults: tuple[Fault, ...] = ()


def encodable(text: str) -> bool:
    """Whether `text` can be written as UTF-8 (a lone surrogate cannot)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def path_text(path: Path) -> str:
    """A key path for people: `models.add[0].effort`, `providers.openai.models["gpt-4.1"]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _BARE_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            clipped = part if len(part) <= 60 else part[:59] + "…"
            text += f'["{"".join(c if c.isprintable() else "?" for c in clipped)}"]'
    return text

"""Which names a tool of a unit may not have: pure decisions, asked before a unit's code runs and after.

The recursion guard: a worker never receives the lab's own tools. It is applied after every allowlist and at every
change of a worker's tool set, and it holds its own copy of the names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

__all__ = ["DENIED", "RESERVED", "bad_names", "collisions", "guarded", "same_name"]

DENIED = frozenset({"thread", "threads", "episode", "slate_change"})
"""The lab's own tools, which no worker ever receives."""
RESERVED = frozenset(
    {"read", "bash", "edit", "write", "grep", "find", "ls", "python"}
    | {"episode_facts", "slate_read", "slate_search", "slate_write"}
)
"""Built-in worker tools, whether this version has them or not."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)

T = TypeVar("T")


def same_name(name: str) -> str:
    """What two names must differ in: `Slate-Change` is the name `slate_change`."""
    return name.casefold().replace("-", "_")


def bad_names(names: Iterable[str]) -> list[str]:
    """The names that no provider would take for a tool."""
    return [name for name in names if not _NAME.fullmatch(name)]


def collisions(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """The names that mean a tool of the lab, a built-in or another tool in `taken`."""
    own = {same_name(name) for name in (*DENIED, *RESERVED, *taken)}
    return [name for name in dict.fromkeys(names) if same_name(name) in own]


def _guard() -> Callable[[Mapping[str, T]], dict[str, T]]:
    denied = frozenset(same_name(name) for name in DENIED)

    def guarded(tools: Mapping[str, T]) -> dict[str, T]:
        return {name: tool for name, tool in tools.items() if same_name(name) not in denied}

    return guarded


guarded: Callable[[Mapping[str, T]], dict[str, T]] = _guard()
"""`tools` without the lab's own: the last step of every tool set. Rebinding `DENIED` does not change it."""

"""Strict reading of a surface's YAML files: a value has the type it is typed as, and nothing is guessed.

In: nodes of the configuration's own reader. Out: plain values, or `ValueError` with what was expected. Called by
`pipelines` and `manifest`. What YAML takes for a number or a truth value is no text without quotes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml

from slate_lab.config.load import read_file
from slate_lab.config.nodes import Node, Plain
from slate_lab.config.nodes import path_text as path_text
from slate_lab.config.values import shown
from slate_lab.errors import Place, Problem

__all__ = ["Sheet", "read_texts", "read_words", "resolved"]

T = TypeVar("T")
_STR = "tag:yaml.org,2002:str"


class Sheet:
    """One YAML file being read: its table, and the problems found so far, each with its line."""

    def __init__(self, file: Path) -> None:
        self.file = file
        parsed = read_file(file)
        self.problems = [Problem(f.code, f.message, Place(str(file), f.line, path_text(f.path))) for f in parsed.faults]
        self.root = parsed.root

    def problem(self, code: str, message: str, node: Node | int | None, *path: str | int) -> None:
        """Note what is wrong at `path`."""
        line = node.line if isinstance(node, Node) else node
        self.problems.append(Problem(code, message, Place(str(self.file), line, path_text(path))))

    def field(self, name: str, read: Callable[[Node], T], default: T) -> T:
        """The value of a key of the table, or its default; a wrong one is a problem, and the default."""
        if self.root is None or not isinstance(self.root.value, dict) or name not in self.root.value:
            return default
        try:
            return read(self.root.value[name])
        except ValueError as e:
            self.problem("wrong_value", str(e), self.root.keys[name], name)
            return default

    @property
    def keys(self) -> dict[str, int]:
        """The keys of the table with their lines."""
        return self.root.keys if self.root is not None else {}


@lru_cache(maxsize=512)
def _tag(text: str) -> str:
    found: str = yaml.resolver.Resolver().resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return found


def resolved(node: Node) -> Any:
    """The value with its YAML types: numbers, truth values, text; times and other types stay text."""
    value = node.value
    if isinstance(value, dict):
        return {key: resolved(child) for key, child in value.items()}
    if isinstance(value, list):
        return [resolved(child) for child in value]
    if isinstance(value, Plain) and _tag(str(value)).rpartition(":")[2] in ("int", "float", "bool"):
        return yaml.safe_load(value)
    return value if value is None else "".join(value)


def read_words(node: Node) -> str:
    """Text that YAML takes for text too."""
    value = node.value
    if isinstance(value, str) and not (isinstance(value, Plain) and _tag(str(value)) != _STR):
        return "".join(value)
    hint = ": put it in quotes" if isinstance(value, str) else ""
    raise ValueError(f"expected text, found {shown(value)}{hint}")


def read_texts(node: Node) -> tuple[str, ...]:
    """A list of texts."""
    if not isinstance(node.value, list):
        raise ValueError(f"expected a list of texts, found {shown(node.value)}")
    return tuple(read_words(child) for child in node.value)

"""What a unit's source says about it without being run: whether it registers, which names, which entries.

In: the text of a module. Out: `Declared`. Pure. Called by `finding` before any code of a unit runs.
"""

from __future__ import annotations

import ast
from pathlib import PurePosixPath

from msgspec import Struct

__all__ = ["Declared", "declared", "entry_problem"]

_ENTRIES = "__entries__"
_WILD = frozenset("*?[]{}")
_OVERRIDES = ("!", "+", "-", "~")


class Declared(Struct, frozen=True):
    """What a source declares.

    Attributes:
        registers: it defines `register`.
        tools: names of tools that can be read off; there may be more.
        entries: the paths in `__entries__` of a package; None if it has none, or has one that is no literal list.
        odd_entries: `__entries__` is there and is no literal list of texts.
        fault: why it cannot be read as Python.
    """

    registers: bool = False
    tools: tuple[str, ...] = ()
    entries: tuple[str, ...] | None = None
    odd_entries: bool = False
    fault: str = ""


def declared(text: str | bytes) -> Declared:
    """Read a source."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        return Declared(fault=f"it is no Python: {e}")
    entries, odd = _entries(tree)
    return Declared(
        registers=any(_defines(node, "register") for node in tree.body),
        tools=tuple(dict.fromkeys(_tools(tree))),
        entries=entries,
        odd_entries=odd,
    )


def entry_problem(entry: str) -> str:
    """Why a declared entry keeps its package from loading as a whole; empty if it is a literal path of the package."""
    path = PurePosixPath(entry)
    if not entry.strip():
        return "it is empty"
    if set(entry) & _WILD:
        return "it is a pattern"
    if entry.startswith(_OVERRIDES):
        return "it is an override"
    if path.is_absolute() or ".." in path.parts or "\\" in entry or path.suffix != ".py":
        return "it is no path of a module in the package"
    return ""


def _defines(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name == name
    if isinstance(node, ast.Assign):
        return any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    return isinstance(node, ast.ImportFrom) and any((a.asname or a.name) == name for a in node.names)


def _entries(tree: ast.Module) -> tuple[tuple[str, ...] | None, bool]:
    """The entries, and whether something is there that is no plain list of texts."""
    set_to = [node.value for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and _sets_entries(node)]
    if not set_to:
        return None, False
    try:
        found = ast.literal_eval(set_to[0]) if len(set_to) == 1 and set_to[0] is not None else None
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None, True
    if not isinstance(found, list | tuple) or not found or not all(isinstance(e, str) for e in found):
        return None, True
    return tuple(found), False


def _sets_entries(node: ast.Assign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Name) and target.id == _ENTRIES for target in targets)


def _tools(tree: ast.Module) -> list[str]:
    """Names given to `.tool(...)`: as a function's name, as `name=`, or by decorating."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for mark in node.decorator_list:
                call = mark if isinstance(mark, ast.Call) else None
                if _is_tool(call.func if call else mark):
                    names.append(_named(call) or node.name)
        elif isinstance(node, ast.Call) and _is_tool(node.func):
            first = node.args[0] if node.args else None
            given = _named(node) or (first.id if isinstance(first, ast.Name) else None)
            given = given or (first.attr if isinstance(first, ast.Attribute) else None)
            if given:
                names.append(given)
    return names


def _is_tool(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "tool"


def _named(call: ast.Call | None) -> str | None:
    for word in call.keywords if call else ():
        if word.arg == "name" and isinstance(word.value, ast.Constant) and isinstance(word.value.value, str):
            return word.value.value
    return None

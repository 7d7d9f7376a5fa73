"""State of slots: JSON by key, staged while a slot runs and written in one step when it has finished.

In: what is kept under a scope. Out: the same with a slot's changes. `context` hands one `Scope` per scope to a slot;
`pipeline` writes the changes. Reading sees the slot's own changes; a change of a failing slot is never written.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from slate_lab.errors import LabError

__all__ = ["Change", "Scope", "apply_changes", "plain_value"]

MAX_CHARS = 1_000_000
"""JSON characters of one value."""

Change = tuple[str, str, Any]
"""What is done (`set`, `merge`, `append`, `delete`), to which key, with which value."""


class Scope:
    """`ctx.state.session` or `ctx.state.project`.

    Args:
        load: what is kept now.
        require: refuses what the slot may not; given `read` or `write`.
    """

    def __init__(self, load: Callable[[], dict[str, Any]], require: Callable[[str], None]) -> None:
        self._load, self._require = load, require
        self.changes: list[Change] = []

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key; a copy."""
        self._require("read")
        return copy.deepcopy(self._now().get(key, default))

    def snapshot(self) -> dict[str, Any]:
        """All values by key; a copy."""
        self._require("read")
        return copy.deepcopy(self._now())

    def set(self, key: str, value: Any) -> None:
        """Keep `value`; JSON only."""
        self._change("set", key, value)

    def merge(self, key: str, value: dict[str, Any]) -> None:
        """Merge a table into the table under `key`, tables within tables too."""
        if not isinstance(value, dict):
            raise LabError(f"merge takes a table, not a {type(value).__name__}", code="bad_value")
        self._change("merge", key, value)

    def append(self, key: str, value: Any) -> None:
        """Append to the list under `key`, which is made if it is not there."""
        self._change("append", key, value)

    def delete(self, key: str) -> None:
        """Keep nothing under `key`; it need not be there."""
        self._change("delete", key, None)

    def _now(self) -> dict[str, Any]:
        return apply_changes(self._load(), self.changes)

    def _change(self, what: str, key: str, value: Any) -> None:
        self._require("write")
        if not isinstance(key, str) or not key:
            raise LabError(f"a key of the state is text, not {key!r}", code="bad_value")
        change = (what, key, plain_value(f"the state under {key!r}", value))
        if what in ("merge", "append"):
            apply_changes(self._load(), [*self.changes, change])
        self.changes.append(change)


def apply_changes(kept: dict[str, Any], changes: list[Change]) -> dict[str, Any]:
    """What is kept after `changes`; what was kept stays as it is.

    Raises:
        LabError: a merge into something that is no table, or an append to something that is no list.
    """
    now = dict(kept)
    for what, key, value in changes:
        if what == "set":
            now[key] = value
        elif what == "delete":
            now.pop(key, None)
        elif what == "merge":
            now[key] = _merge(_expected(now.get(key, {}), dict, key), value)
        else:
            now[key] = [*_expected(now.get(key, []), list, key), value]
    return now


def _expected(found: Any, kind: type, key: str) -> Any:
    if not isinstance(found, kind):
        name = "table to merge into" if kind is dict else "list to append to"
        raise LabError(f"the state under {key!r} is a {type(found).__name__}, no {name}: set it anew", code="bad_value")
    return found


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        inner = merged.get(key)
        merged[key] = _merge(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return merged


def plain_value(what: str, value: Any) -> Any:
    """`value` as JSON holds it, a copy; `what` names it in the error."""
    try:
        text = json.dumps(value, allow_nan=False)
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError) as e:
        raise LabError(f"{what} must be JSON: {e}", code="bad_value") from e
    if found != value:
        kinds = "lists, tables with text keys, text, numbers, true, false, null"
        raise LabError(f"{what} must be JSON: {kinds}", code="bad_value")
    if len(text) > MAX_CHARS:
        raise LabError(f"{what} has {len(text):,} characters: at most {MAX_CHARS:,}", code="bad_value")
    return found

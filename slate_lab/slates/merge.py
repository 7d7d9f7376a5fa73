"""Merging by key: which stored items a write replaces in place, and which it adds. Pure.

In: what the file holds, the items that come, the name of the key. Out: each item with the block it replaces, if any; or
a `SlateError`, and then nothing is written. Called by writes of mode `mergeByKey`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from slate_lab.config.items import read_item, read_items
from slate_lab.errors import SlateError
from slate_lab.slates.results import Stored

__all__ = ["items_of", "plan_merge"]

_ordered = msgspec.json.Encoder(order="deterministic")


def items_of(content: str) -> list[str]:
    """The JSON objects of `content`, each as it was typed.

    Raises:
        SlateError: it is no JSON array of objects, nor one object (`not_json`).
    """
    try:
        return read_items(content)
    except ValueError as error:
        raise SlateError(f"{error}; nothing was written", code="not_json") from error


def plan_merge(stored: Sequence[Stored], items: Sequence[str], key: str) -> list[tuple[str, Stored | None]]:
    """Each item with the stored block whose key has the same value, or None where it is new.

    Numbers are the same as JSON sees them: 1 is 1.0, but neither `true` nor `"1"`.

    Raises:
        SlateError: an item has no such key (`missing_key`), or two have the same value (`duplicate_key`).
    """
    held: dict[str, Stored] = {}
    for block in stored:
        found = read_item(block.text)
        if key in found:
            held.setdefault(_same(found[key]), block)
    plan, seen = [], set[str]()
    for n, item in enumerate(items, 1):
        found = read_item(item)
        if key not in found:
            raise SlateError(f"item {n} has no {key!r}; nothing was written", code="missing_key")
        value = _same(found[key])
        if value in seen:
            raise SlateError(f"two items have {key} = {value}; nothing was written", code="duplicate_key")
        seen.add(value)
        plan.append((item, held.get(value)))
    return plan


def _same(value: Any) -> str:
    """A text that is equal for equal JSON values."""
    whole = isinstance(value, float) and value.is_integer()
    return _ordered.encode(int(value) if whole else value).decode()

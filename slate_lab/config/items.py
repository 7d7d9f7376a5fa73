"""JSON items: the content of a file that is merged by key is a JSON array of objects, one block each.

In: a text. Out: its items as they were typed, or a `ValueError` that says what is wrong. Called for seeds by
`memory_checks` and for writes by `slates`.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["read_item", "read_items"]

_array = msgspec.json.Decoder(list[msgspec.Raw])
_object = msgspec.json.Decoder(dict[str, Any])


def read_items(text: str) -> list[str]:
    """The objects of a JSON array, or the one object, each as it was typed.

    Raises:
        ValueError: it is no JSON, or holds something that is no object.
    """
    stripped = text.strip()
    if not stripped.startswith(("[", "{")):
        raise ValueError("expected a JSON array of objects, or one object")
    try:
        raws = [stripped] if stripped.startswith("{") else [bytes(raw).decode() for raw in _array.decode(stripped)]
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ValueError(f"not JSON: {error}") from error
    for raw in raws:
        read_item(raw)
    return [raw.strip() for raw in raws]


def read_item(text: str) -> dict[str, Any]:
    """One object.

    Raises:
        ValueError: it is none.
    """
    try:
        return _object.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ValueError(f"expected JSON objects: {error}") from error

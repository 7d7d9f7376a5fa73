"""The verbs of declared memory: list its folders, read, write, search, and ask what left.

In: what was asked, and a lab. Out: the records that `lab.slates` returns. Called by `run` and by the notebook.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from slate_lab.verbs.door import Door
from slate_lab.verbs.parser import Asked
from slate_lab.verbs.values import body_of, whole
from slate_lab.verbs.words import WrongUsage

__all__ = ["VERBS", "write"]

LIMIT = 20
"""Blocks that a search or a list of what left shows unless told otherwise."""


def write(asked: Asked, door: Door, *, body: str | None, cause: str = "magic") -> Any:
    """Write the text of the line or of the cell; the result says what it pushed out, or why it was refused.

    Raises:
        WrongUsage: no text, or two.
        SlateWriteRefused: refused, and `--gated`.
    """
    return _write(door, asked["target"], body_of(asked, body), asked, cause=cause)


def _write(door: Door, target: str, text: str, asked: Asked, *, cause: str) -> Any:
    return door.slates.write(
        target,
        text,
        mode=asked["mode"] or "append",
        key=asked["key"],
        tags=tags(door, target, asked["tag"], "--tag"),
        gated=bool(asked["gated"]),
        cause=cause,
    )


def _slates(asked: Asked, door: Door, names: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [_folder(row) for row in door.slates.rows()]


def _folder(row: Any) -> dict[str, Any]:
    state = "orphaned" if row.orphaned else "over its limit" if row.over_limit else "ok"
    return {
        "folder": f"{row.slate}/{row.folder}",
        "tokens": row.total,
        "limit": row.limit,
        "full": f"{100 * row.total / row.limit:.0f}%" if row.limit else "",
        "policy": row.policy,
        "access": row.access,
        "blocks": row.blocks,
        "files": list(row.files),
        "state": state,
    }


def _read(asked: Asked, door: Door, names: Mapping[str, Any]) -> Any:
    return _reading(door, asked["target"], asked, cause="magic")


def _reading(door: Door, target: str, asked: Asked, *, cause: str) -> Any:
    most = asked["max_tokens"]
    return door.slates.read(
        target,
        max_tokens=None if most is None else whole(most, "--max-tokens"),
        order=asked["order"] or "oldest",
        where=tags(door, target, asked["where"], "--where"),
        fallback=asked["fallback"],
        cause=cause,
    )


def _search(asked: Asked, door: Door, names: Mapping[str, Any]) -> list[dict[str, Any]]:
    return _hits(door, asked["text"], asked)


def _hits(door: Door, text: str, asked: Asked) -> list[dict[str, Any]]:
    slate = folder = None
    if asked["in"]:
        slate, _, rest = asked["in"].partition("/")
        folder = rest.rstrip("/") or None
    hits = door.slates.search(text, slate=slate, folder=folder, limit=_limit(asked))
    return [{"target": h.target, "block": h.block, "tokens": h.tokens, "found": h.snippet} for h in hits]


def _evicted(asked: Asked, door: Door, names: Mapping[str, Any]) -> list[dict[str, Any]]:
    return _losses(door, asked["target"], asked)


def _losses(door: Door, target: str | None, asked: Asked) -> list[dict[str, Any]]:
    return [
        {
            "target": lost.target,
            "block": lost.block,
            "tokens": lost.tokens,
            "how": lost.how,
            "because": f"write {lost.by} by {lost.cause}",
            "text": "(cleared)" if lost.text is None else lost.text,
        }
        for lost in door.slates.evicted(target, limit=_limit(asked))
    ]


def _limit(asked: Asked) -> int:
    return LIMIT if asked["limit"] is None else whole(asked["limit"], "--limit")


def _slate(asked: Asked, door: Door, names: Mapping[str, Any]) -> Any:
    """What a shell asks: `slate read TARGET`, `slate write TARGET TEXT`, `slate search TEXT`, `slate ledger`."""
    action, words = asked["action"], list(asked["words"] or ())
    least, most, form = _FORMS[action]
    if not least <= len(words) <= most:
        raise WrongUsage(f"slate {action} is written: slate-lab slate {action} {form}")
    if action == "read":
        return _reading(door, words[0], asked, cause="program")
    if action == "write":
        return _write(door, words[0], words[1], asked, cause="program")
    return _hits(door, words[0], asked) if action == "search" else _losses(door, words[0] if words else None, asked)


_FORMS = {
    "read": (1, 1, '"Title/folder/file.md"'),
    "write": (2, 2, '"Title/folder/file.md" "TEXT"'),
    "search": (1, 1, '"WORDS"'),
    "ledger": (0, 1, '["Title/folder"]'),
}


def tags(door: Door, target: str, pairs: Iterable[str] | None, option: str) -> dict[str, Any] | None:
    """`name=value` pairs as tags, each value as the type that is declared for it.

    Raises:
        WrongUsage: a pair without its `=`, or a value that is none of its type.
        SlateError: no such slate or folder.
    """
    if not pairs:
        return None
    types = door.slates.tags(target)
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise WrongUsage(f"{option} {pair}: write name=value")
        found[name] = _value(value, types.get(name, "string"), f"{option} {pair}")
    return found


def _value(text: str, kind: str, said: str) -> Any:
    if kind == "string":
        return text
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, bool) != (kind == "boolean") or not isinstance(value, bool | int | float):
        raise WrongUsage(f"{said}: the tag is a {kind}")
    return value


VERBS: dict[str, Callable[[Asked, Door, Mapping[str, Any]], Any]] = {
    "slates": _slates,
    "read": _read,
    "search": _search,
    "evicted": _evicted,
    "slate": _slate,
}

"""Rows of the pool: whole for a program, narrow for an eye. Imports nothing heavy, for the magics read it at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["ModelRow", "narrow"]


class ModelRow(dict[str, Any]):
    """One permitted route of a logical model, every column of it.

    Keys: `name, default, rating, cost_rating, effort, provider, model, preferred, remembered, key_variable,
    key_present, window, price, guidelines, cautions`; `window` is None where it is unknown, `key_variable` where no
    key is needed.
    """


def narrow(rows: Sequence[ModelRow]) -> list[dict[str, Any]]:
    """The rows in eight short columns, what the routes of one model share told once; `*` marks the default."""
    shown, last = [], None
    for row in rows:
        first, last = row["name"] != last, row["name"]
        shown.append(
            {
                "model": f"{row['name']}{' *' if row['default'] else ''}" if first else "",
                "cap": row["rating"] if first else None,
                "cost": row["cost_rating"] if first else None,
                "effort": row["effort"] if first else "",
                "route": f"{row['provider']}/{row['model']}",
                "key": "-" if row["key_variable"] is None else "set" if row["key_present"] else "no",
                "window": _short(row["window"]),
                "$/M in, out": _price(row["price"]),
            }
        )
    return shown


def _short(window: int | None) -> str:
    if window is None:
        return "unknown"
    return f"{window / 1e6:.3g}M" if window >= 1_000_000 else f"{window / 1e3:.3g}k"


def _price(words: str) -> str:
    """`$0.1 in, $0.5 out /M (source)` as `0.1, 0.5`; other words as they are."""
    return words.partition(" out /M")[0].replace("$", "").replace(" in", "")

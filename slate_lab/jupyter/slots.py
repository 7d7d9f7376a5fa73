"""The slots of a project in a cell: a table in the order in which they run, then those that do not.

In: a `SlotListing`. Out: an object that shows itself as HTML and as text. Called by the magic that lists slots. Columns
in which nothing stands are left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slate_lab.jupyter.table import frame_html, table_html
from slate_lab.jupyter.text import escape
from slate_lab.slots.listing import SlotListing
from slate_lab.verbs.slotting import COLUMNS, listing_text

__all__ = ["SlotsView"]

_ALWAYS = ("slot", "phase", "lane")
_HEADS = {"timeout_seconds": "timeout", "capabilities": "may use", "withheld": "may not use"}


class SlotsView:
    """A listing that is looked at."""

    def __init__(self, listing: SlotListing, *, checked: bool = False) -> None:
        self._listing, self._checked = listing, checked

    def _repr_html_(self) -> str:
        listing = self._listing
        rows = [{name: _said(row[name]) for name in COLUMNS} for row in listing.rows]
        for row in rows:
            row["lane"] = f"{row['lane']} {row.pop('order')}".strip()
        kept = [name for name in COLUMNS if name != "order" and (name in _ALWAYS or any(row[name] for row in rows))]
        active = sum(row["lane"] != "inactive" for row in rows)
        heads = [_HEADS.get(name, name) for name in kept]
        long = [i for i, name in enumerate(kept) if name in _HEADS]
        table = table_html(heads, [[row[name] for name in kept] for row in rows], wraps=long)
        lines = [*(f"warning: {text}" for text in listing.warnings), *listing.faults, listing.note]
        if self._checked and not listing.faults:
            lines.insert(0, "every active slot was imported")
        said = "".join(f'<div style="overflow-wrap:anywhere">{escape(line)}</div>' for line in lines)
        blocks = [
            f'<div style="overflow-x:auto">{table}</div>',
            f'<div style="margin-top:8px;opacity:.78;font-size:12px">{said}</div>',
        ]
        title = f"slots in {Path(listing.surface or '').name}/"
        return frame_html(title, f"{active} active, {len(rows) - active} inactive", blocks)

    def _repr_pretty_(self, p: Any, cycle: bool) -> None:
        p.text(str(self))

    def __str__(self) -> str:
        return listing_text(self._listing)


def _said(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)

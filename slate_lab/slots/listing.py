"""The slots of a surface as rows for people: phase, lane, order, what is inactive, policies, capabilities.

In: a checked surface. Out: a `SlotListing` of plain values. Called by the verbs `slots` and `check`.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from slate_lab.slots.modules import Modules
from slate_lab.slots.surface import Slot, Surface
from slate_lab.slots.watch import Seen

__all__ = ["SlotListing", "import_all", "list_slots"]


class SlotListing(Struct, frozen=True, kw_only=True):
    """What a surface holds.

    Attributes:
        surface: its folder; None if the project has none.
        timeouts_enforced: whether `timeout_seconds` ends a slot.
        rows: one per slot: the active ones in their order, then the inactive.
        warnings: what is odd but does no harm.
        faults: slots that cannot be imported, with what was raised; only after a check that imports.
    """

    surface: str | None
    timeouts_enforced: bool
    rows: tuple[dict[str, Any], ...]
    warnings: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """One line on timeouts, for whoever wonders."""
        timed = [row["slot"] for row in self.rows if row["timeout_seconds"] is not None]
        if self.timeouts_enforced:
            return "timeouts are enforced (runtime.enforce_slot_timeouts)"
        told = f"; {', '.join(timed)} set one" if timed else ""
        return f"timeouts are shown, not enforced (runtime.enforce_slot_timeouts is false){told}"


def list_slots(surface: Surface, *, enforced: bool) -> SlotListing:
    """The rows of a surface."""
    place: dict[tuple[str, str], int] = {}
    rows = []
    for slot in surface.slots:
        order = None
        if slot.lane is not None:
            order = place[slot.phase, slot.lane] = place.get((slot.phase, slot.lane), 0) + 1
        rows.append(_row(slot, order))
    folder = None if surface.folder is None else str(surface.folder)
    return SlotListing(surface=folder, timeouts_enforced=enforced, rows=tuple(rows), warnings=surface.warnings)


def _row(slot: Slot, order: int | None) -> dict[str, Any]:
    manifest, withheld = slot.manifest, set(slot.grants.withheld)
    return {
        "slot": slot.id,
        "phase": slot.phase,
        "lane": slot.lane or "inactive",
        "order": order,
        "failure": manifest.failure_policy,
        "history": manifest.history_policy,
        "timeout_seconds": manifest.timeout_seconds,
        "capabilities": [c for c in manifest.capabilities if c not in withheld],
        "withheld": sorted(withheld),
        "entrypoint": manifest.entrypoint,
        "description": manifest.description,
    }


def import_all(listing: SlotListing, seen: Seen) -> SlotListing:
    """`listing` with what importing every active slot raised; the code is taken out again."""
    modules, faults = Modules(), []
    assert seen.surface.folder is not None
    try:
        for slot in seen.surface.active:
            try:
                modules.load(
                    slot, seen.revisions[slot.id], surface=seen.surface.folder, shared=seen.shared, files=seen.files
                )
            except (Exception, SystemExit) as e:  # noqa: BLE001  a slot is foreign code: what it raises is the answer
                faults.append(f"{slot.id} cannot be imported: {type(e).__name__}: {e}")
    finally:
        modules.close()
    return replace(listing, faults=tuple(faults))

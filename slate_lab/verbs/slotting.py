"""The verbs of slots: list and check them, make one of a cell, and ask a session.

In: words that were asked, a lab or a project's folder. Out: plain values and turns. Called by program and magic.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, cast

from slate_lab.config import LabConfig, Trust, starter_files
from slate_lab.errors import LabError
from slate_lab.records import Delivery, Turn
from slate_lab.slots.listing import SlotListing, import_all, list_slots
from slate_lab.slots.surface import load_surface
from slate_lab.slots.watch import Watch
from slate_lab.slots.writing import write_slot
from slate_lab.verbs.door import Door
from slate_lab.verbs.parser import Asked
from slate_lab.verbs.text import one_line, table
from slate_lab.verbs.words import WrongUsage

__all__ = ["ask", "listing_of", "listing_text", "make_slot", "slots_report", "told"]

COLUMNS = ("slot", "phase", "lane", "order", "failure", "history", "timeout_seconds", "capabilities", "withheld")


class _Asks(Protocol):
    """The part of a lab that turns need."""

    def ask(self, prompt: str, **options: Any) -> Turn:
        """One turn."""
        ...

    def slots(self, *, check: bool = False) -> SlotListing:
        """The slots."""
        ...


def listing_of(asked: Asked, door: Door) -> SlotListing:
    """The slots of an opened lab; with `--check` each is imported."""
    return cast(_Asks, door).slots(check=bool(asked["check"]))


def listing_text(listing: SlotListing) -> str:
    """A listing for people: the table, whether timeouts are enforced, warnings, and what cannot be imported."""
    if listing.surface is None:
        return "this project has no slots: `slate-lab init` writes a surface, %%slate slot input/NAME makes one"
    rows = table([{name: row[name] for name in COLUMNS} for row in listing.rows], COLUMNS)
    told = [rows or "no slots yet", listing.note, *(f"warning: {text}" for text in listing.warnings)]
    return "\n".join([*told, *(f"cannot be imported: {text}" for text in listing.faults)])


def ask(asked: Asked, door: Door, *, body: str | None, live: Any) -> Turn:
    """One turn of a session; the prompt is the cell's body, or a text in quotes."""
    prompt = body if body is not None else asked["prompt"]
    if not prompt or not prompt.strip():
        raise WrongUsage('ask: what is asked? %slate ask "..." or %%slate ask with the prompt in the cell')
    attachments = tuple(asked["attach"] or ())
    try:
        return cast(_Asks, door).ask(
            prompt.rstrip("\n"), session=asked["session"], model=asked["model"], attachments=attachments, live=live
        )
    except KeyboardInterrupt:
        text = "interrupted: the turn was cancelled, the session is as before"
        raise LabError(text, code="interrupted") from None


def told(delivery: Delivery) -> str:
    """A delivery as one line, where nothing can be shown; a text is empty: the turn shows it."""
    if delivery.kind == "text":
        return ""
    share = "" if delivery.share is None else f" {100 * delivery.share:.0f}%"
    where = f" ({delivery.path})" if delivery.path else ""
    return one_line(f"{delivery.slot}: {delivery.text}{share}{where}")


def make_slot(asked: Asked, *, root: Path, config: LabConfig, body: str | None) -> list[Path]:
    """Write the cell as a slot and list it; a project that was trusted stays so.

    Raises:
        LabError: nothing was written; the message says why.
    """
    code = body if body is not None else asked["code"]
    if not code:
        raise WrongUsage("slot takes the code as the body of the cell: %%slate slot input/NAME")
    trusted = Trust.of(root).trusted
    manifest: dict[str, object] = {}
    if asked["describe"]:
        manifest["description"] = asked["describe"]
    if asked["capability"]:
        manifest["capabilities"] = list(asked["capability"])
    if asked["failure"]:
        manifest["failure_policy"] = asked["failure"]
    if asked["history"]:
        manifest["history_policy"] = asked["history"]
    written = write_slot(
        root,
        config.runtime.surface_root,
        asked["where"],
        code,
        manifest=manifest,
        lane="parallel" if asked["parallel"] else "serial",
        base={n.removeprefix("agent/"): t for n, t in starter_files().items() if n.startswith(_BASE)},
    )
    if trusted:
        Trust.of(root).record()
    return written


_BASE = ("agent/pipelines.yaml", "agent/input/base_input/", "agent/output/base_output/")


def slots_report(root: Path, config: LabConfig, *, trust: Trust) -> dict[str, Any]:
    """The slots of a project that is not opened: every one checked, and imported if the project is trusted.

    Raises:
        ConfigError: every problem of the surface.
    """
    name, allowed = config.runtime.surface_root, config.slots.capabilities
    listing = list_slots(load_surface(root, name, allowed=allowed), enforced=config.runtime.enforce_slot_timeouts)
    if trust.trusted and listing.surface is not None:
        listing = import_all(listing, Watch(root, name, allowed=allowed).look())
    return {
        "surface": listing.surface,
        "timeouts_enforced": listing.timeouts_enforced,
        "slots": list(listing.rows),
        "warnings": list(listing.warnings),
        "faults": list(listing.faults),
    }

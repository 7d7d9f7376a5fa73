"""Turns of a session that carries slots: what was asked, answered and delivered, and what its slots did."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

from msgspec import Struct

from slate_lab.records.call import Usage, usd
from slate_lab.records.shown import quiet_markdown

__all__ = ["SLOT_EVENTS", "Delivery", "HistoryEntry", "SlotEvent", "SlotEventKind", "Turn"]

SlotEventKind = Literal["started", "completed", "failed", "ignored_return", "cancelled", "capability"]
SLOT_EVENTS: tuple[SlotEventKind, ...] = (
    "started",
    "completed",
    "failed",
    "ignored_return",
    "cancelled",
    "capability",
)


class Delivery(Struct, frozen=True, kw_only=True):
    """Something a slot sent to people.

    Attributes:
        kind: text, image, file, or what passes by: progress and notice.
        text: the text, or the name of an image or file.
        slot: who sent it.
        path: a file of the project.
        data: the bytes of an image given as bytes.
        media: its media type, e.g. `image/png`.
        share: how far something is, 0 to 1.
    """

    kind: Literal["text", "image", "file", "progress", "notice"]
    text: str
    slot: str
    path: str | None = None
    data: bytes | None = None
    media: str | None = None
    share: float | None = None


class HistoryEntry(Struct, frozen=True, kw_only=True):
    """One message of a session.

    Attributes:
        turn: the number of the turn within the session.
        visible: whether later calls of the model see it.
        slot: who wrote it.
    """

    turn: int
    role: Literal["user", "assistant"]
    text: str
    slot: str
    kind: Literal["text", "image", "file"] = "text"
    visible: bool = True
    data: bytes | None = None
    at_ns: int = 0


class SlotEvent(Struct, frozen=True, kw_only=True):
    """Something that happened to a slot in a turn.

    Attributes:
        session, turn: the session's id and the number of the turn (0: before the first).
        what: `started`, `completed`, `failed`, `ignored_return`, `cancelled` or `capability`.
        duration_ns: since it was started.
        detail: one line: the error, the type that was returned, the capability.
        traceback: of a failure.
        allowed: of a capability.
    """

    session: str
    turn: int
    slot: str
    phase: str
    lane: str
    what: SlotEventKind
    at_ns: int
    duration_ns: int | None = None
    detail: str | None = None
    traceback: str | None = None
    allowed: bool | None = None


class Turn(Struct, frozen=True, kw_only=True):
    """One turn of a session.

    Attributes:
        session: `c2`.
        n: 1, 2, ... within the session.
        thread: the thread its calls are counted under, `t12`.
        prompt: what was asked.
        text: what was delivered as text, in order.
        response: what the model answered.
        result: what a slot set as the result, None if none did.
        deliveries: everything that was sent, in order.
    """

    session: str
    n: int
    thread: str
    prompt: str
    text: str = ""
    response: str = ""
    result: Any = None
    deliveries: tuple[Delivery, ...] = ()
    usage: Usage = Usage()
    cost_nusd: int | None = None
    started_ns: int = 0
    ended_ns: int = 0

    def __str__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return quiet_markdown(self.text)

    def _repr_pretty_(self, p: Any, cycle: bool) -> None:
        p.text(self.text)

    @property
    def cost_usd(self) -> Decimal | None:
        """What its calls cost, exactly; None if a price is unknown."""
        return usd(self.cost_nusd)

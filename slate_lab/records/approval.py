"""A call of a tool that a person must approve, as it is stored."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["Approval", "ApprovalState"]

ApprovalState = Literal["pending", "approved", "denied", "expired", "withdrawn"]


class Approval(Struct, frozen=True, kw_only=True):
    """One question and its answer.

    Attributes:
        id: `a7`.
        thread, tool: who wants to call what.
        arguments: as JSON text; of very long ones the start, which says so.
        state: `expired` was answered by nobody in time, `withdrawn` ended with its thread.
        why: the reason a person gave.
    """

    id: str
    thread: str
    tool: str
    arguments: str
    state: ApprovalState
    why: str
    asked_ns: int
    answered_ns: int | None

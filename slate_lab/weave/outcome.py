"""How an action that ran is settled: which state, and which form of episode. One pure table."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from slate_lab.errors import StoreError
from slate_lab.records import ThreadState

__all__ = ["Form", "Settlement", "plan_settlement", "plan_unstored"]

Form = Literal["compress", "uncompressed", "fixed", "none"]


class Settlement(Struct, frozen=True, kw_only=True):
    """The terminal state of a thread and the form its episode takes."""

    state: ThreadState
    form: Form
    code: str | None = None
    detail: str | None = None


def plan_settlement(
    *, ok: bool, code: str | None, detail: str | None, cancelled: bool, facts: int, compress: bool
) -> Settlement:
    """What becomes of an action.

    Args:
        ok: the worker ended normally.
        code, detail: why not.
        cancelled: a person or a closing lab cancelled it while it ran.
        facts: how many facts it left.
        compress: whether a model may still be asked for the compression.
    """
    if cancelled and not facts:
        return Settlement(
            state="cancelled", form="none", code="cancelled", detail="cancelled before anything was found"
        )
    if cancelled:
        form: Form = "compress" if compress else "uncompressed"
        return Settlement(state="failed", form=form, code="cancelled", detail="cancelled while it ran")
    if ok:
        return Settlement(state="successful", form="compress" if compress else "uncompressed")
    return Settlement(state="failed", form="compress" if facts and compress else "fixed", code=code, detail=detail)


def plan_unstored(settlement: Settlement, error: StoreError) -> str:
    """What is said when the end of an action cannot be stored: how the action ended, and why nobody can read it."""
    ended = settlement.state if settlement.code is None else f"{settlement.state} ({settlement.code})"
    why = f": {settlement.detail}" if settlement.detail else ""
    return f"the action ended {ended}{why}; its episode could not be stored: {error.message}"

"""One run of one slot: its events, what becomes of its contributions, and what its policy says when it fails.

In: a slot in its lane, a draft. Out: events, and the draft with what was contributed. Called by `pipeline` on the loop
and by `hop` in a thread.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from slate_lab.errors import LabError, SlotFailed
from slate_lab.records import SlotEvent, SlotEventKind
from slate_lab.slots.context import Context
from slate_lab.slots.draft import Draft
from slate_lab.slots.pipelines import Lane
from slate_lab.slots.ports import Ports
from slate_lab.slots.state import Change, apply_changes
from slate_lab.slots.surface import Slot

__all__ = ["Run"]

TRACE, SAID = 8_000, 2_000
"""Characters of a traceback, and of what was raised, that are kept."""


class Run:
    """From its start to its one end.

    Args:
        events: where its events are put.
        clock: nanoseconds since the epoch.
        loop: the lab's own.

    Attributes:
        over: whether it has ended.
    """

    def __init__(
        self,
        slot: Slot,
        lane: Lane,
        draft: Draft,
        ports: Ports,
        *,
        events: list[SlotEvent],
        clock: Callable[[], int],
        loop: Any,
    ) -> None:
        self._slot, self._lane, self._draft, self._ports = slot, lane, draft, ports
        self._events, self._clock = events, clock
        self._began: int | None = None
        self._asked: set[tuple[str, bool]] = set()
        self.over = False
        self.context = Context(slot, lane, draft, ports, audit=self.asked, loop=loop)

    def note(self, what: SlotEventKind, **more: Any) -> None:
        """Add one event."""
        now = self._clock()
        if self._began is None:
            self._began, took = now, None
        else:
            took = now - self._began
        slot, draft = self._slot, self._draft
        event = SlotEvent(session=draft.session, turn=draft.turn, slot=slot.id, phase=slot.phase, lane=self._lane,
                          what=what, at_ns=now, duration_ns=took, **more)  # fmt: skip
        self._events.append(event)

    def asked(self, name: str, allowed: bool) -> None:
        """A capability was asked for; once per run and answer."""
        if (name, allowed) not in self._asked:
            self._asked.add((name, allowed))
            self.note("capability", detail=name, allowed=allowed)

    def complete(self, returned: Any) -> None:
        """The slot has finished: its state is written, the rest becomes part of the turn.

        Raises:
            LabError: what it keeps cannot be written: nothing of it counts.
        """
        staged = self.context.close()
        if changes := self.context.changes:
            self._ports.state.update({scope: _changing(made) for scope, made in changes.items()})
        if returned is not None:
            self.note("ignored_return", detail=f"a {type(returned).__name__} was returned: slots return nothing")
        for delivery in staged.deliveries:
            self._ports.live(delivery)
        self._draft.take(staged)
        self._end("completed")

    def cancel(self) -> None:
        """Nobody waits any more: what it added is dropped."""
        self.context.close()
        self._end("cancelled")

    def fail(self, error: BaseException) -> None:
        """The slot failed: what it added is dropped, and its policy decides.

        Raises:
            SlotFailed: the policy is hard.
        """
        self.context.close()
        said, trace = _told(error)
        self._end("failed", detail=said, traceback=trace)
        if self._slot.manifest.failure_policy == "hard":
            where = f"the slot {self._slot.id} ({self._slot.phase}.{self._lane}) failed and is hard"
            raise SlotFailed(f"{where}: {said}", code="slot_failed") from error

    def _end(self, what: SlotEventKind, **more: Any) -> None:
        self.note(what, **more)
        self.over = True


def _told(error: BaseException) -> tuple[str, str]:
    """What was raised in words, and its traceback; an error that cannot even say itself is told by its type."""
    try:
        said = error.message if isinstance(error, LabError) else "".join(traceback.format_exception_only(error)).strip()
        trace = "".join(traceback.format_exception(error))
    except BaseException as e:  # noqa: BLE001  the error is of foreign code, and so is its __str__
        said, trace = f"{type(error).__name__} (it cannot be shown: its own text raised {type(e).__name__})", ""
    said = said if len(said) <= SAID else said[: SAID - 1] + "…"
    return said.encode("utf-8", "replace").decode(), trace[-TRACE:].encode("utf-8", "replace").decode()


def _changing(changes: list[Change]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda kept: apply_changes(kept, changes)

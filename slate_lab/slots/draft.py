"""A turn while it is made: only what finished slots contributed, and the prompt that comes of it.

In: contributions that `context` staged for one slot each. Out: system and user text for the model, or a clear error.
Written by `pipeline`; read by whoever asks the model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from slate_lab.errors import LabError
from slate_lab.records import Delivery, HistoryEntry

__all__ = ["USER", "Draft", "Part", "Staged"]

USER = "user"
"""The section that is the user's message of this turn."""


class Part(Struct, frozen=True, kw_only=True):
    """One contribution to the prompt: a named section, or context for the system or the user's message."""

    slot: str
    text: str
    section: str = ""
    role: Literal["system", "user"] = "user"


class Staged(Struct, kw_only=True):
    """What one slot contributed so far; dropped if it fails."""

    fragments: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    history: list[HistoryEntry] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)


class Draft(Struct, kw_only=True):
    """One turn.

    Attributes:
        session, turn: the session's id and the turn's number.
        workspace: the folder that slots and workers share.
        raw_text: what was asked, as it was typed.
        attachments: paths that came with it.
        fragments: what bootstrap slots added, for every turn of the session.
        parts: what input slots added to this prompt.
        history: what this turn adds to the session.
        response_text, metadata: the model's answer and what is known of it.
        result: what an output slot set.
    """

    session: str
    turn: int
    workspace: Path
    raw_text: str = ""
    attachments: tuple[str, ...] = ()
    fragments: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    history: list[HistoryEntry] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    response_text: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    result: Any = None

    def take(self, staged: Staged) -> None:
        """Add what a finished slot contributed."""
        self.fragments += staged.fragments
        self.parts += staged.parts
        self.history += staged.history
        self.deliveries += staged.deliveries
        if staged.results:
            self.result = staged.results[-1]

    @property
    def system(self) -> list[str]:
        """What stands in the system message: fragments of the session, then context of this turn."""
        return [*self.fragments, *(p.text for p in self.parts if p.role == "system")]

    @property
    def before(self) -> list[str]:
        """What stands before the user's text: sections under their names, and context."""
        parts = [p for p in self.parts if p.role == "user" and p.section != USER]
        return [f"[{p.section}]\n{p.text}" if p.section else p.text for p in parts]

    @property
    def user(self) -> str:
        """The user's text of this turn.

        Raises:
            LabError: no slot wrote one.
        """
        texts = [p.text for p in self.parts if p.section == USER and p.text.strip()]
        if not texts:
            raise LabError(
                f"no input slot wrote the user's text of this turn: list base_input (or a slot that calls "
                f'ctx.input.add("{USER}", ...)) in input.serial of pipelines.yaml',
                code="no_user_text",
            )
        return "\n\n".join(texts)

    @property
    def delivered(self) -> str:
        """The delivered texts, in order."""
        return "\n\n".join(d.text for d in self.deliveries if d.kind == "text")

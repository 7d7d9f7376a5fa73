"""What verbs and the notebook need of a lab and of its handles. The lab is passed in; it is never imported here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from slate_lab.records import Action, Approval, Call, Episode, Fact, Progress, Thread, ThreadState

if TYPE_CHECKING:
    from slate_lab.config import LabConfig

__all__ = ["Door", "Handle", "OpenLab"]


@runtime_checkable
class Handle(Protocol):
    """One dispatched action."""

    @property
    def id(self) -> str:
        """The thread's id."""
        ...

    @property
    def state(self) -> ThreadState:
        """The thread's state now."""
        ...

    @property
    def progress(self) -> Progress:
        """What it is doing now."""
        ...

    def done(self) -> bool:
        """Whether it has settled."""
        ...

    def result(self, timeout: float | None = None) -> Episode:
        """Wait for the episode; TimeoutError if it has not settled in `timeout` seconds."""
        ...

    def cancel(self, *, compress: bool = True) -> None:
        """Ask it to end; without `compress` no model is asked for the episode."""
        ...

    def steer(self, text: str) -> None:
        """A message the worker sees before its next call."""
        ...


@runtime_checkable
class Door(Protocol):
    """An opened lab, as far as the verbs use it."""

    @property
    def root(self) -> Path:
        """The project's folder."""
        ...

    @property
    def config(self) -> LabConfig:
        """The configuration in force."""
        ...

    @property
    def frames(self) -> Any:
        """The frames: one method per name."""
        ...

    def batch(self, actions: Sequence[Action]) -> Sequence[Handle]:
        """Dispatch the actions, in order."""
        ...

    def redispatch(self, id: str, **changes: Any) -> Handle:
        """Do a thread's action again as a new thread that cites the old one's facts."""
        ...

    def steer(self, id: str, text: str) -> None:
        """A message for the worker of a live thread."""
        ...

    def threads(self) -> Sequence[Thread]:
        """All threads, oldest first."""
        ...

    def episodes(self) -> Sequence[Episode]:
        """All episodes, oldest first."""
        ...

    def episode(self, id: str) -> Episode | None:
        """One stored episode; raises a LabError or gives None if there is none."""
        ...

    def facts(self, id: str) -> Sequence[Fact]:
        """The captured facts of a thread."""
        ...

    def calls(self, thread: str | None = None) -> Sequence[Call]:
        """Requests to models, oldest first."""
        ...

    def handle(self, id: str) -> Handle | None:
        """The handle of a thread that has not settled."""
        ...

    def live(self) -> Sequence[Handle]:
        """Handles of everything that waits or runs."""
        ...

    def approvals(self) -> Sequence[Approval]:
        """Calls of tools that wait for a person."""
        ...

    def approve(self, id: str) -> Sequence[Approval]:
        """Let a call be made (`a7`), or all a thread waits for (`t3`)."""
        ...

    def deny(self, id: str, why: str = "") -> Sequence[Approval]:
        """Refuse a call, or all a thread waits for."""
        ...

    def graph(self) -> Any:
        """The weave as a view."""
        ...

    def budget(self, id: str | None = None) -> Any:
        """The brief of a thread (default the newest) as a view."""
        ...

    def board(self) -> Any:
        """Spend by thread, model and kind as a view."""
        ...

    def replay(self, mode: str | None = None) -> Mapping[str, Any]:
        """Mode, file and counts of the recording; changes the mode if one is given."""
        ...

    @property
    def slates(self) -> Any:
        """Declared memory: `write`, `read`, `search`, `evicted`, `rows`, `paths`."""
        ...

    def panel(self) -> Any:
        """The folders of memory as a view."""
        ...

    def models(self) -> Sequence[Mapping[str, Any]]:
        """One plain row per logical model."""
        ...

    def verify(self) -> list[str]:
        """What is wrong with the store, a sentence each."""
        ...

    def status(self) -> Mapping[str, Any]:
        """The lab now, as plain values."""
        ...

    def close(self, *, wait: bool = False) -> None:
        """Close it: cancel what runs, or wait for it."""
        ...


class OpenLab(Protocol):
    """How a lab is opened: `Lab.open`."""

    def __call__(self, path: str | Path = ".") -> Door:
        """Open the project at `path`."""
        ...

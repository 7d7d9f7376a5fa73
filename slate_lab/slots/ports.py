"""What slots need of the rest of a lab, as protocols: the rooms above plug themselves in, nothing is imported here.

Blocking calls come from the thread of a blocking slot, or from the loop; they must be quick. What waits is a coroutine
of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from slate_lab.records import Delivery, Episode, HistoryEntry, SlotEvent

__all__ = ["History", "Live", "Ports", "Slates", "State", "Threads", "Tools"]

Table = dict[str, Any]


class State(Protocol):
    """What slots keep, by scope: a session's id, or `project`."""

    def read(self, scope: str) -> Table:
        """Everything kept under `scope`."""
        ...

    def update(self, changes: Mapping[str, Callable[[Table], Table]]) -> None:
        """Replace what is kept under each scope by what its change makes of it: all in one step, or nothing."""
        ...


class History(Protocol):
    """What was said in sessions."""

    def recent(self, session: str, *, limit: int, roles: Sequence[str] | None = None) -> list[HistoryEntry]:
        """The newest entries, oldest first."""
        ...


class Tools(Protocol):
    """The tools of the lab."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The result of one call; raises if the tool does not exist or cannot."""
        ...


class Threads(Protocol):
    """Dispatching actions."""

    async def run(self, task: str, **options: Any) -> Episode:
        """The episode of a new thread."""
        ...

    def spawn(self, task: str, **options: Any) -> str:
        """The id of a new thread that goes on by itself."""
        ...


class Slates(Protocol):
    """Declared memory; a target is `Title/folder/file.md`. The methods of `slate_lab.slates.Slates`."""

    @property
    def read(self) -> Callable[..., Any]:
        """The content."""
        ...

    @property
    def write(self) -> Callable[..., Any]:
        """Write a block; the result says what became of it."""
        ...

    @property
    def peek(self) -> Callable[..., Any]:
        """`read` that touches nothing."""
        ...

    @property
    def render(self) -> Callable[..., Any]:
        """The content as it would be read, whole."""
        ...

    @property
    def search(self) -> Callable[..., Any]:
        """Blocks that fit."""
        ...


class Live(Protocol):
    """Where deliveries go at once; from any thread."""

    def __call__(self, delivery: Delivery) -> None:
        """Show it."""
        ...


class Ports(Struct, frozen=True, kw_only=True):
    """Everything that slots are connected to; what is None does not exist here, and using it says so."""

    state: State
    history: History
    events: Callable[[Iterable[SlotEvent]], None]
    live: Live
    tools: Tools | None = None
    threads: Threads | None = None
    slates: Slates | None = None

"""Grounds: what admission may ask of a lab. Read-only views; the dispatcher is one, tests make others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from slate_lab.records import Episode, Fact, Limits, Route
from slate_lab.routing.policy import Grant
from slate_lab.slates import Slates
from slate_lab.weave.tools import Tool
from slate_lab.weave.types import ThreadType

__all__ = ["Grounds"]


class Grounds(Protocol):
    """What admission may ask: read-only views of the lab."""

    @property
    def closed(self) -> bool:
        """Whether the lab takes no more actions."""
        ...

    @property
    def types(self) -> Mapping[str, ThreadType]:
        """Thread types by name."""
        ...

    @property
    def tools(self) -> Mapping[str, Tool]:
        """All tools by name."""
        ...

    def added(self, kind: ThreadType) -> tuple[str, ...]:
        """Names of tools that a type gets beside its own."""
        ...

    @property
    def limits(self) -> Limits:
        """Limits of every action that sets none itself."""
        ...

    @property
    def capped(self) -> bool:
        """Whether the session, the day or the project has a cap in dollars."""
        ...

    def priced(self, route: Route) -> bool:
        """Whether the price of a route is known."""
        ...

    @property
    def nonce(self) -> Callable[[str], str]:
        """A fence word for a source."""
        ...

    def grant(self, logical: str | None) -> Grant:
        """The route of a logical model (None: the default); raises `DispatchError`."""
        ...

    def episode(self, id: str) -> Episode | None:
        """A stored episode; raises `StoreError` if it was edited."""
        ...

    def known(self) -> list[str]:
        """Ids of all episodes, for near matches."""
        ...

    def is_thread(self, id: str) -> bool:
        """Whether the thread exists."""
        ...

    def succeeded(self, id: str) -> bool:
        """Whether the thread has ended well."""
        ...

    def review(self, perspective: str) -> str | None:
        """The project's text of a review perspective; None if there is none."""
        ...

    def claims(self, *, beside: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
        """The claims of everything that waits or runs, also in other kernels, by what to call the holder.

        Those of the threads `beside`, and of all that these come after, are left out: they never run together.
        """
        ...

    @property
    def slates(self) -> Slates | None:
        """Declared memory."""
        ...

    def facts(self, id: str) -> Sequence[Fact]:
        """The facts of a thread, also of one that failed or died."""
        ...

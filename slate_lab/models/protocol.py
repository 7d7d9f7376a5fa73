"""What a model is to the lab: something that answers a `Request`, once, and says what it used.

A `Model` makes one attempt. Retries, deadlines, caps and prices are the gate's (`gate.py`), so that a model written
by a user in ten lines gets them too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from msgspec import Struct

from slate_lab.records import Reply, Request

__all__ = ["Capabilities", "Delta", "Model"]

Delta = Callable[[str], None]
"""Called with each piece of visible text as it arrives, on the lab's loop; must be quick and must not raise."""


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a route can do. Declared, never guessed: None is unknown and shown as such.

    Attributes:
        tools: it calls tools.
        parallel_tools: it may call several in one reply.
        schema: it can be held to a JSON Schema.
        stream_usage: it reports usage while streaming.
        window: tokens of context, None if unknown.
        max_output: tokens of one answer, None if unknown.
        efforts: the effort words it understands.
    """

    tools: bool = True
    parallel_tools: bool = True
    schema: bool = True
    stream_usage: bool = True
    window: int | None = None
    max_output: int | None = None
    efforts: tuple[str, ...] = ()


@runtime_checkable
class Model(Protocol):
    """One route that answers requests. Implementations raise only `ModelError`; cancelling closes what they opened."""

    capabilities: Capabilities

    async def reply(self, request: Request, *, on_delta: Delta | None = None) -> Reply:
        """Answer `request`, streaming visible text to `on_delta`.

        Raises:
            ModelError: the request failed; `kind` says whether asking again can help.
        """
        ...

    async def aclose(self) -> None:
        """Release connections; called once when the lab closes."""
        ...

"""What lies outside a turn, as slots reach it: tools, threads, slates; each call asks for its capability first.

In: a port (None where a lab has none) and the slot's capabilities. Called by slots through `ctx`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from slate_lab.errors import LabError
from slate_lab.slots import ports

__all__ = ["Slates", "Threads", "Tools"]

Require = Callable[[str], None]
Wait = Callable[[Coroutine[Any, Any, Any]], Any]


class Tools:
    """`ctx.tools`."""

    def __init__(self, port: ports.Tools | None, require: Require, wait: Wait) -> None:
        self._port, self._require, self._wait = port, require, wait

    def call(self, name: str, args: Mapping[str, Any] | None = None) -> Any:
        """The text that the tool `name` gives; needs `tool.call:<name>`. Await it in an `async def` slot."""
        self._require(f"tool.call:{name}")
        if self._port is None:
            raise _absent("tools")
        return self._wait(self._port.call(name, dict(args or {})))


class Threads:
    """`ctx.threads`."""

    def __init__(self, port: ports.Threads | None, require: Require, wait: Wait) -> None:
        self._port, self._require, self._wait = port, require, wait

    def run(self, task: str, **options: Any) -> Any:
        """The episode of a new thread; needs `threads.run`. Await it in an `async def` slot."""
        self._require("threads.run")
        if self._port is None:
            raise _absent("threads to wait for (a worker holds a permit: use ctx.threads.spawn)")
        return self._wait(self._port.run(task, **options))

    def spawn(self, task: str, **options: Any) -> str:
        """The id of a new thread that goes on by itself; needs `threads.spawn`."""
        self._require("threads.spawn")
        if self._port is None:
            raise _absent("threads")
        return self._port.spawn(task, **options)


class Slates:
    """`ctx.slate`: targets are `Title/folder/file.md`; needs `slate.read:<title>/<folder>` or `slate.write:...`.

    Unlike the rest of what a slot does, a write is done at once and stays, whatever becomes of the slot.
    """

    def __init__(self, port: ports.Slates | None, require: Require, cause: str) -> None:
        self._port, self._require, self._cause = port, require, cause

    def read(self, target: str, **options: Any) -> Any:
        """A reading of a file or folder, with `.text`; options: `max_tokens, order, where, fallback`."""
        return self._at("read", target).read(target, cause=self._cause, **options)

    def peek(self, target: str, **options: Any) -> Any:
        """`read` that touches nothing."""
        return self._at("read", target).peek(target, **options)

    def render(self, target: str) -> Any:
        """The content as it would be read, whole."""
        return self._at("read", target).render(target)

    def search(self, text: str, *, slate: str | None = None, folder: str | None = None, limit: int = 20) -> Any:
        """Blocks that hold the words of `text`."""
        found = self._at("read", "/".join(part for part in (slate, folder) if part))
        return found.search(text, slate=slate, folder=folder, limit=limit)

    def write(self, target: str, content: str, **options: Any) -> Any:
        """Write a block; the result says what became of it; options: `mode, key, tags, gated`."""
        return self._at("write", target).write(target, content, cause=self._cause, **options)

    def _at(self, what: str, target: str) -> ports.Slates:
        if not isinstance(target, str):
            raise LabError(
                f"a target is text (`Title/folder/file.md`), not a {type(target).__name__}", code="bad_value"
            )
        self._require(f"slate.{what}:{'/'.join(target.split('/')[:2])}")
        if self._port is None:
            raise _absent("slates")
        return self._port


def _absent(what: str) -> LabError:
    return LabError(f"there are no {what} here", code="not_here")

"""A unit: what a module registers with the lab. This is all that the code of a unit needs to know.

A unit's module has `def register(unit: Unit) -> None`. It is called once in the lab, to see what it registers, and
once in every worker that gets it; handlers run in workers only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, overload

from slate_lab.errors import LabError
from slate_lab.models.protocol import Model
from slate_lab.weave.tools.function import function_tool
from slate_lab.weave.tools.kit import Tool

__all__ = ["Handler", "Provider", "Unit", "UnitFailed"]

Handler = Callable[[], Awaitable[None] | None]
"""Called without arguments; plain or `async`."""
Provider = Model | Callable[[], Model]
"""A model, or what makes one for each worker."""

F = TypeVar("F", bound=Callable[..., Any])


class UnitFailed(LabError):
    """A unit cannot be used; `code` says where it failed, the message why."""


class Unit:
    """One unit, in the lab or in one worker.

    Attributes:
        name: the unit's name.
        thread: the worker's thread; empty in the lab.
        workspace: the folder the worker may use; None in the lab.
        tools: what it registered, by name, in order.
        reads: the names of tools that only look.
        start, shutdown: its handlers.
        providers: the models it registered, by provider id.
    """

    def __init__(
        self,
        name: str,
        *,
        thread: str = "",
        workspace: Path | None = None,
        check: Callable[[Unit, str], None] | None = None,
        changed: Callable[[], None] | None = None,
    ) -> None:
        self.name, self.thread, self.workspace = name, thread, workspace
        self.tools: dict[str, Tool] = {}
        self.reads: set[str] = set()
        self.start: list[Handler] = []
        self.shutdown: list[Handler] = []
        self.providers: dict[str, Provider] = {}
        self._check, self._changed, self._lock, self._closed = check, changed, Lock(), False

    @overload
    def tool(self, function: F, *, name: str | None = None, reads: bool = False) -> F: ...
    @overload
    def tool(self, function: None = None, *, name: str | None = None, reads: bool = False) -> Callable[[F], F]: ...
    def tool(self, function: Any = None, *, name: str | None = None, reads: bool = False) -> Any:
        """Register a function as a tool; also a decorator, with or without options.

        Args:
            function: plain or `async`; its parameters and docstring are what the model sees.
            name: the tool's name, default the function's own.
            reads: it only looks: threads that may not change anything get it too.

        Raises:
            UnitFailed: the name is taken, or the worker has ended.
            BadFunction: the function cannot be a tool.
        """
        if function is None:
            return lambda decorated: self.tool(decorated, name=name, reads=reads)
        made = function_tool(function, name=name)
        with self._lock:
            self._open(f"the tool {made.spec.name}")
            if made.spec.name in self.tools:
                raise UnitFailed(f"{self.name} registers the tool {made.spec.name} twice", code="tool_collision")
            if self._check is not None:
                self._check(self, made.spec.name)
            self.tools[made.spec.name] = made
            if reads:
                self.reads.add(made.spec.name)
        if self._changed is not None:
            self._changed()
        return function

    def on_start(self, handler: Callable[[], Any]) -> Callable[[], Any]:
        """Have `handler` awaited before the action begins; if it fails, the action does not begin."""
        with self._lock:
            self._open("a start-up handler")
            self.start.append(handler)
        return handler

    def on_shutdown(self, handler: Callable[[], Any]) -> Callable[[], Any]:
        """Have `handler` awaited once when the worker ends; the last one given goes first."""
        with self._lock:
            self._open("a shutdown handler")
            self.shutdown.append(handler)
        return handler

    def provider(self, id: str, model: Provider) -> None:
        """Register a model that answers on the provider `id`, in place of the configured one."""
        with self._lock:
            self._open(f"the provider {id}")
            self.providers[id] = model

    def close(self) -> None:
        """Take no more registrations."""
        with self._lock:
            self._closed = True

    def _open(self, what: str) -> None:
        if self._closed:
            raise UnitFailed(f"{self.name} registers {what} after its worker ended", code="worker_ended")

"""From a Python function to a tool: schema by signature, arguments checked strictly, calls run off the loop.

A tool is a function whose first parameter is the `Kit` it works with; the rest are its arguments. The first
paragraph of its docstring is what the model reads, `Args:` lines describe the arguments.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Struct

from slate_lab.records import ToolSpec
from slate_lab.weave.tools.workspace import ToolFailed, Workspace

__all__ = ["Artifact", "Kit", "Tool", "ToolFailed", "make_tool"]


class Artifact(Struct, frozen=True):
    """A file an action changed: SHA-256 before (None if it was not there) and after."""

    path: str
    before: str | None
    after: str | None


class Kit:
    """What the tools of one worker share: its workspace, the size of a result, and what was changed.

    Attributes:
        workspace: where paths resolve.
        max_chars: the most characters one result should have.
    """

    def __init__(self, workspace: Workspace, *, max_chars: int = 8_000) -> None:
        self.workspace = workspace
        self.max_chars = max_chars
        self._changed: dict[str, Artifact] = {}

    def changed(self, path: str, *, before: bytes | None, after: bytes | None) -> None:
        """Note that `path` was changed; several changes of one file become one artifact."""
        first = self._changed.get(path)
        self._changed[path] = Artifact(path, first.before if first else _sha(before), _sha(after))

    @property
    def artifacts(self) -> tuple[dict[str, Any], ...]:
        """The changed files in the order of their first change."""
        return tuple(msgspec.to_builtins(a) for a in self._changed.values() if a.before != a.after)


class Tool(Struct, frozen=True):
    """A tool that can be offered to a model and run.

    Attributes:
        spec: what the model sees.
        run: `(kit, arguments) -> text`, blocking.
        doing: `(arguments) -> text`, what a live view says while it runs.
    """

    spec: ToolSpec
    run: Callable[[Kit, dict[str, Any]], str]

    async def call(self, kit: Kit, arguments: dict[str, Any]) -> str:
        """Run the tool in a worker thread of the loop.

        Raises:
            ToolFailed: the arguments do not fit, or the tool says why it cannot.
        """
        return await asyncio.to_thread(self.run, kit, arguments)


def make_tool(function: Callable[..., str]) -> Tool:
    """The tool that `function(kit, **arguments)` is; its name is the function's own."""
    summary, notes = _docs(function)
    hints = get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    annotated: Any = Annotated
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        kind = annotated[hints[name], msgspec.Meta(description=notes.get(name, ""))]
        default = parameter.default
        fields.append((name, kind) if default is parameter.empty else (name, kind, default))
    shape = msgspec.defstruct(f"{function.__name__}_arguments", fields, forbid_unknown_fields=True)

    def run(kit: Kit, arguments: dict[str, Any]) -> str:
        try:
            given = msgspec.convert(arguments, shape)
        except msgspec.ValidationError as e:
            raise ToolFailed(f"wrong arguments for {function.__name__}: {e}; it takes {_usage(fields)}") from e
        return function(kit, **msgspec.structs.asdict(given))

    return Tool(ToolSpec(name=function.__name__, description=summary, parameters=_schema(shape)), run)


def _usage(fields: list[Any]) -> str:
    return ", ".join(f[0] if len(f) == 2 else f"{f[0]}={f[2]!r}" for f in fields)


def _schema(shape: type[Any]) -> dict[str, Any]:
    (_,), parts = msgspec.json.schema_components([shape])
    body: dict[str, Any] = dict(next(iter(parts.values())))
    body.pop("title", None)
    body["additionalProperties"] = False
    return body


def _docs(function: Callable[..., str]) -> tuple[str, dict[str, str]]:
    text = inspect.getdoc(function) or ""
    summary, _, rest = text.partition("\n\nArgs:\n")
    notes: dict[str, str] = {}
    for line in rest.splitlines():
        name, colon, note = line.strip().partition(": ")
        if colon:
            notes[name] = note
    return " ".join(summary.split()), notes


def _sha(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()

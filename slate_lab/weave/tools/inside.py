"""Runs inside a worker's own kernel: `tools`, through which its code calls the tools the worker was granted.

Nothing of the lab is imported there: this text is sent to the kernel as its first cell, with `connect(...)` after it.
Standard library only. A call goes over a socket in the kernel's private folder to `bridge`, which runs the real tool.
"""

from __future__ import annotations

import json
import socket
from typing import Any

__all__ = ["ToolError", "Tools"]


class ToolError(Exception):
    """A tool could not do what it was asked."""

    def _render_traceback_(self) -> list[str]:
        return [f"ToolError: {self}"]


class Tools:
    """The granted tools as functions: `tools.read(path="notes/a.md")` returns the text of the result."""

    def __init__(self, path: str, token: str, names: dict[str, list[str]]) -> None:
        self._path, self._token, self._names = path, token, names

    def __dir__(self) -> list[str]:
        return list(self._names)

    def __repr__(self) -> str:
        return "\n".join(f"tools.{name}({', '.join(of)})" for name, of in self._names.items())

    def __getattr__(self, name: str) -> Any:
        if name not in self._names:
            raise AttributeError(f"there is no tool {name!r}; the tools are {', '.join(self._names)}")

        def call(*given: Any, **named: Any) -> str:
            return self._call(name, {**dict(zip(self._names[name], given, strict=False)), **named})

        call.__name__ = name
        return call

    def _call(self, name: str, arguments: dict[str, Any]) -> str:
        asked = json.dumps({"token": self._token, "tool": name, "arguments": arguments})
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(self._path)
            line.sendall(asked.encode() + b"\n")
            with line.makefile("rb") as file:
                said = file.readline()
        if not said:
            raise ToolError("the worker is ending")
        answer = json.loads(said)
        if not answer["ok"]:
            raise ToolError(answer["text"])
        return str(answer["text"])

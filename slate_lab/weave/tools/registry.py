"""The built-in tools by name, and which of them only look."""

from __future__ import annotations

from collections.abc import Callable

from slate_lab.weave.tools import change, look
from slate_lab.weave.tools.kit import Tool, make_tool

__all__ = ["BUILT_IN", "READ_ONLY"]

_FILE_TOOLS: tuple[Callable[..., str], ...] = (look.read, look.grep, look.find, look.ls, change.write, change.edit)
BUILT_IN: dict[str, Tool] = {function.__name__: make_tool(function) for function in _FILE_TOOLS}
READ_ONLY = ("read", "grep", "find", "ls")

"""Where a worker's kernel calls the worker's other tools: a socket in a private folder, a token, one line each way.

In: `{"token", "tool", "arguments"}` as one line of JSON. Out: `{"ok", "text"}`. Calls are made as the worker makes
them itself: counted, approved, kept as facts. Only while a cell runs. Opened and closed by `kernel`.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from pathlib import Path
from typing import Any

import msgspec

from slate_lab.weave.tools.kit import Kit

__all__ = ["Bridge"]

MAX_LINE = 8_000_000
"""The longest call, in bytes."""
MAX_CALLS = 8
"""The most calls at once."""
MAX_LINES = 4 * MAX_CALLS
"""The most connections at once; further ones are hung up on, so that no code uses up the files of the lab."""


class _Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    token: str
    tool: str
    arguments: dict[str, Any]


class Bridge:
    """Answers calls from one kernel.

    Args:
        kit: whose tools are called.
        path: the socket.
        barred: tools that code may not call.
    """

    def __init__(self, kit: Kit, path: Path, *, barred: frozenset[str]) -> None:
        self.path, self.token = path, secrets.token_hex(16)
        self.names = {
            name: list(tool.spec.parameters.get("properties", {}))
            for name, tool in kit.tools.items()
            if name not in barred
        }
        self.open = False
        self._kit = kit
        self._server: asyncio.Server | None = None
        self._calls: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_unix_server(self._answer, str(self.path), limit=MAX_LINE)

    def hang_up(self) -> None:
        """End the calls that are under way: the cell that made them is over."""
        self.open = False
        for task in self._calls:
            task.cancel()

    async def close(self) -> None:
        """Stop listening, with all calls."""
        self.hang_up()
        if self._server is not None:
            self._server.close()
        if self._calls:
            await asyncio.wait(set(self._calls), timeout=2)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._calls) >= MAX_LINES:
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            text, ok = await self._called(await reader.readline())
            writer.write(msgspec.json.encode({"ok": ok, "text": text}) + b"\n")
            await writer.drain()
        except (OSError, ValueError, asyncio.CancelledError):
            pass  # the kernel is gone, sent no line, or the cell is over: there is nobody to tell
        finally:
            self._calls.discard(task)
            writer.close()

    async def _called(self, line: bytes) -> tuple[str, bool]:
        try:
            call = msgspec.json.decode(line, type=_Call)
        except msgspec.DecodeError as e:
            return f"not a call of a tool: {e}", False
        if not hmac.compare_digest(call.token.encode(), self.token.encode()):
            return "not a call of this kernel", False
        if call.tool not in self.names:
            return f"there is no tool {call.tool!r} here; the tools are {', '.join(self.names)}", False
        if not self.open or len(self._calls) > MAX_CALLS:
            return f"tools are called while a cell runs, at most {MAX_CALLS} at once", False
        return await self._kit.call(call.tool, call.arguments)

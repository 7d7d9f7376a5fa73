"""MCP servers as tools of workers, spoken to with the official client.

In: `mcpServers` of the configuration. Out: a `Tool` for each tool of each server, called `<server>_<tool>`. One server
serves all workers of a lab: it is started when tools are first needed, lives in an event loop of its own, and ends with
the lab, and everything it started with it. Called by `toolbox`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from slate_lab.config import McpSpec
from slate_lab.records import ToolSpec
from slate_lab.tokens import clean
from slate_lab.weave.loop import LoopThread
from slate_lab.weave.tools.kit import Kit, Tool, ToolFailed
from slate_lab.weave.units.names import bad_names, collisions, same_name

if TYPE_CHECKING:
    from mcp import Client

__all__ = ["Servers"]

HERD = str(Path(__file__).with_name("tools") / "herd.py")
STOP_S = 12.0
"""How long servers have to end; the client closes their input, waits, then kills."""
MAX_TOOLS, MAX_PAGES = 200, 20
ABOUT_CHARS = 2_000
SCHEMA_BYTES = 20_000
_ODD = re.compile(r"[^A-Za-z0-9_-]")


class Servers:
    """The servers of one lab.

    Args:
        specs: by name.
        root: the project's folder, in which they are started.
        env: where the variables they may have are found.
    """

    def __init__(self, specs: Mapping[str, McpSpec], *, root: Path, env: Mapping[str, str]) -> None:
        self._servers = [_Server(name, spec, root, env) for name, spec in specs.items()]
        self._loop: LoopThread | None = None

    def start(self, taken: Iterable[str]) -> dict[str, Tool]:
        """Start all at once and list their tools; one that cannot be used says why and brings none."""
        if not self._servers:
            return {}
        _load_client()  # a second of work, which is no server's to answer for
        self._loop = LoopThread("slate-lab-mcp")
        try:
            return self._start(self._loop, taken)
        except BaseException:  # a person would not wait: the next action starts them anew
            self.close()
            raise

    def _start(self, loop: LoopThread, taken: Iterable[str]) -> dict[str, Tool]:
        waiting = [(server, loop.run(server.start())) for server in self._servers]
        tools: dict[str, Tool] = {}
        for server, started in waiting:
            started.result()
            names = {tool: server.tool_name(tool) for tool in server.offers}
            wrong = _wrong(list(names.values()), {same_name(n) for n in (*taken, *tools)}) or server.too_large()
            if wrong:
                loop.run(server.refuse(f"refused whole: {wrong}")).result()
                continue
            tools |= {name: server.tool(tool, name, loop) for tool, name in names.items()}
        return tools

    @property
    def reads(self) -> frozenset[str]:
        """The names of tools that their server says only look."""
        return frozenset(
            server.tool_name(name)
            for server in self._servers
            for name, offer in server.offers.items()
            if offer.annotations is not None and offer.annotations.read_only_hint
        )

    def rows(self) -> list[dict[str, Any]]:
        """One row per server: its name, its tools, how it is."""
        return [
            {"server": s.name, "tools": [s.tool_name(t) for t in s.offers], "state": s.state} for s in self._servers
        ]

    def close(self) -> None:
        """End them and everything they started. A second call does nothing."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        ending = [loop.run(server.stop()) for server in self._servers]
        concurrent.futures.wait(ending, timeout=STOP_S)
        loop.stop()


class _Server:
    """One server; all but `tool` runs on the servers' loop."""

    def __init__(self, name: str, spec: McpSpec, root: Path, env: Mapping[str, str]) -> None:
        self.name, self._spec, self._root = name, spec, root
        self._env = {key: env[key] for key in spec.env if key in env}
        self._unset = [key for key in spec.env if key not in env]
        self.offers: dict[str, Any] = {}
        self.state = "not started"
        self._client: Client | None = None
        self._over = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._said: IO[str] | None = None

    def tool_name(self, tool: str) -> str:
        """The name that workers call a tool by."""
        return _ODD.sub("_", f"{self.name}_{tool}")[:64]

    def tool(self, tool: str, name: str, loop: LoopThread) -> Tool:
        """A tool of the server."""
        offer = self.offers[tool]
        about = clean(offer.description or tool)[:ABOUT_CHARS]

        async def run(kit: Kit, arguments: dict[str, Any]) -> str:
            try:
                return kit.bounded(await asyncio.wrap_future(loop.run(self._call(tool, arguments))))
            except ToolFailed as e:
                raise ToolFailed(kit.bounded(e.message)) from e

        return Tool(ToolSpec(name=name, description=about, parameters=dict(offer.input_schema)), run)

    def too_large(self) -> str:
        """Why the schemas of its tools cannot be offered: each takes its share of every prompt; empty if they can."""
        for name, offer in self.offers.items():
            if (size := len(msgspec.json.encode(offer.input_schema))) > SCHEMA_BYTES:
                return f"the schema of {name[:80]} has {size:,} bytes, at most {SCHEMA_BYTES:,}: name others in tools"
        return ""

    async def start(self) -> None:
        """Start it and list its tools, or note why that failed."""
        if self._unset:
            self.state = f"it is not started: {', '.join(self._unset)} is not set in the environment"
            return
        self._over = asyncio.Event()
        self._said = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115  closed in stop
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper = asyncio.ensure_future(self._keep(ready))
        done, _ = await asyncio.wait({self._keeper, ready}, timeout=self._spec.timeout_s, return_when="FIRST_COMPLETED")
        if not done:
            self.state = f"it did not answer within timeoutSeconds={self._spec.timeout_s:g}"
            self._keeper.cancel()

    async def refuse(self, why: str) -> None:
        """Use none of its tools."""
        await self.stop()
        self.offers, self.state = {}, why

    async def stop(self) -> None:
        """End it."""
        self._over.set()
        if self._keeper is not None:
            if self._client is None and not self._keeper.cancelling():
                self._keeper.cancel()  # it is still on its way up
            await asyncio.wait({self._keeper}, timeout=STOP_S)
        if self._said is not None:
            self._said.close()

    async def _keep(self, ready: asyncio.Future[None]) -> None:
        """Hold the connection from its start to its end, in one task, as the client wants it."""
        try:
            async with self._connect() as client:
                self.offers = await self._list(client)
                self._client, self.state = client, "running"
                if not ready.done():
                    ready.set_result(None)
                await self._over.wait()
        except ImportError:
            self.state = "the package mcp is missing: pip install 'slate-lab[mcp]'"
        except Exception as e:  # noqa: BLE001  a server and its client are foreign: what went wrong is told
            self.state = f"it failed: {self._why(e)}"
        finally:
            self._client = None
            self.state = "ended" if self.state == "running" else self.state

    def _connect(self) -> AbstractAsyncContextManager[Client]:
        from mcp import Client, StdioServerParameters, stdio_client

        if self._spec.url is not None:
            return Client(self._spec.url, read_timeout_seconds=self._spec.timeout_s)
        command = [sys.executable, "-I", "-S", HERD, str(self._spec.command), *self._spec.args]
        parameters = StdioServerParameters(command=command[0], args=command[1:], env=self._env, cwd=self._root)
        assert self._said is not None
        transport = stdio_client(parameters, errlog=self._said)  # type: ignore[arg-type]
        return Client(transport, read_timeout_seconds=self._spec.timeout_s)

    async def _list(self, client: Client) -> dict[str, Any]:
        found: dict[str, Any] = {}
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            found |= {tool.name: tool for tool in page.tools}
            cursor = page.next_cursor
            if not cursor or len(found) >= MAX_TOOLS:
                break
        wanted = self._spec.tools
        missing = [name for name in wanted or () if name not in found]
        if missing:
            raise ValueError(f"it has no tool {', '.join(missing)}; it has {', '.join(found) or 'none'}")
        return {name: tool for name, tool in found.items() if wanted is None or name in wanted}

    async def _call(self, tool: str, arguments: dict[str, Any]) -> str:
        client = self._client
        if client is None:
            raise ToolFailed(f"the server {self.name} is not there ({self.state}): do without it")
        try:
            async with asyncio.timeout(self._spec.timeout_s):
                result = await client.call_tool(tool, arguments)
        except TimeoutError as e:
            raise ToolFailed(f"{self.name} did not answer within {self._spec.timeout_s:g} s: ask for less") from e
        except Exception as e:
            raise ToolFailed(f"the server {self.name} failed: {self._why(e)}") from e
        text = _text(result)
        if result.is_error:
            raise ToolFailed(text or f"{self.name} says that {tool} failed, and not why")
        return text or "done"

    def _why(self, error: BaseException) -> str:
        """The innermost reason, and the last line the server wrote on its standard error; without its secrets."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        lines = self._written().strip().splitlines()
        said = f"{type(error).__name__}: {error}"[:300] + (f" (it said: {lines[-1][:300]})" if lines else "")
        for secret in filter(None, self._env.values()):
            said = said.replace(secret, "***")
        return clean(said)

    def _written(self) -> str:
        """The end of what it wrote on its standard error."""
        if self._said is None or self._said.closed:
            return ""
        end = os.fstat(self._said.fileno()).st_size
        return os.pread(self._said.fileno(), 4_000, max(0, end - 4_000)).decode("utf-8", "replace")


def _load_client() -> None:
    """Import the client here, if it is installed; who needs it later says it if it is not."""
    logging.getLogger("mcp").addHandler(logging.NullHandler())  # a server that talks nonsense fills no cell with it
    with suppress(ImportError):
        importlib.import_module("mcp")


def _wrong(names: list[str], taken: set[str]) -> str:
    """Why a server's tools cannot have these names; empty if they can."""
    if found := collisions(names, taken):
        return f"{', '.join(found)} is the name of another tool"
    if bad := bad_names(names):
        return f"{bad[0]!r} is no name for a tool"
    return "two of its tools have one name" if len({same_name(n) for n in names}) < len(names) else ""


def _text(result: Any) -> str:
    """What a model reads of a result: texts as they are; pictures, sounds and files named, not shown."""
    parts = [_part(block) for block in result.content]
    if not any(parts) and result.structured_content is not None:
        return msgspec.json.encode(result.structured_content, enc_hook=repr).decode()
    return "\n".join(filter(None, parts))


def _part(block: Any) -> str:
    named: Mapping[str, Any] = {
        "text": partial(getattr, block, "text", ""),
        "image": lambda: f"({block.mime_type}, {_size(block.data):,} bytes, not shown)",
        "audio": lambda: f"({block.mime_type}, {_size(block.data):,} bytes, not shown)",
        "resource_link": lambda: f"(a link to {block.name}: {block.uri})",
        "resource": lambda: _resource(block.resource),
    }
    return str(named.get(block.type, lambda: f"({block.type}, not shown)")())


def _size(data: str) -> int:
    """Bytes behind a base64 text."""
    return len(data.rstrip("=")) * 3 // 4


def _resource(resource: Any) -> str:
    text = getattr(resource, "text", None)
    return str(text) if text is not None else f"({resource.mime_type or 'a file'} {resource.uri}, not shown)"

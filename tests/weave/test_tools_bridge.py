"""The socket through which code calls tools: what it takes from a hostile kernel."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from slate_lab.weave.tools import BUILT_IN, Kit
from slate_lab.weave.tools.bridge import MAX_LINES, Bridge
from slate_lab.weave.tools.workspace import Workspace


async def test_connections_are_bounded_and_calls_go_on(tmp_path: Path) -> None:
    """Code that opens hundreds of lines takes a few files of the lab, not all; once they end a call is answered."""
    kit = Kit(Workspace(tmp_path), tools=BUILT_IN)
    bridge = Bridge(kit, tmp_path / "s", barred=frozenset())
    await bridge.start()
    bridge.open = True
    lines = [await asyncio.open_unix_connection(str(bridge.path)) for _ in range(4 * MAX_LINES)]
    ended = [asyncio.ensure_future(reader.read()) for reader, _ in lines]
    await asyncio.wait(ended, timeout=0.3)
    assert sum(not task.done() for task in ended) == MAX_LINES
    for _, writer in lines:
        writer.close()
    await asyncio.wait(ended, timeout=2)
    reader, writer = await asyncio.open_unix_connection(str(bridge.path))
    writer.write(msgspec.json.encode({"token": bridge.token, "tool": "ls", "arguments": {}}) + b"\n")
    assert b'"ok":true' in await reader.readline()
    writer.close()
    await bridge.close()

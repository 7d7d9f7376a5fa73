"""W1: actions of three calls over HTTP (two tool rounds and an answer), everything persisted, beside a raw loop.

The server is a process of its own on loopback that answers at once; only the client's processor time counts. The raw
loop is aiohttp alone: the same three requests with growing messages, the tool's file read, one SQLite commit an action.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

import slate_lab as sl

N = 200
BENCH = {
    "model": "bench",
    "capabilityRating": 40,
    "effort": "off",
    "costRating": 5,
    "preferredProvider": "bench",
    "providers": {"bench": "m"},
    "guidelines": "Measures.",
    "cautions": "None.",
}
TASK = "Find the error rate in the notes."


def answer(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Two calls of `read`, then words."""
    seen = sum(m["role"] == "tool" for m in messages)
    if seen >= 2:
        return {"content": "The error rate rose to 7.5 % at 09:16.", "finish": "stop", "calls": None}
    call = {
        "index": 0,
        "id": f"call_{seen}",
        "type": "function",
        "function": {"name": "read", "arguments": json.dumps({"path": "a.md", "start": 1 + seen})},
    }
    return {"content": None, "finish": "tool_calls", "calls": [call]}


def serve(port: Any) -> None:
    """A server with no latency: plain answers, or an event stream where one is asked for."""

    async def reply(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        made = answer(body["messages"])
        message = {"role": "assistant", "content": made["content"]}
        if made["calls"]:
            message["tool_calls"] = made["calls"]
        head = {"id": "c1", "created": 1, "model": "m"}
        usage = {"prompt_tokens": 300, "completion_tokens": 20, "total_tokens": 320}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": made["finish"]}
            return web.json_response({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        chunks = [
            {**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": made["finish"]}]},
            {**head, "choices": [], "usage": usage},
        ]
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        return web.Response(text=text, content_type="text/event-stream")

    async def run() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", reply)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


async def raw(url: str, permits: int, folder: Path) -> None:
    """The same actions by hand."""
    base = sqlite3.connect(folder / "raw.db", isolation_level=None)
    base.execute("PRAGMA journal_mode=WAL")
    base.execute("PRAGMA synchronous=NORMAL")
    base.execute("CREATE TABLE IF NOT EXISTS record (id INTEGER PRIMARY KEY, body TEXT)")
    gate = asyncio.Semaphore(permits)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one() -> None:
            async with gate:
                messages: list[dict[str, Any]] = [{"role": "user", "content": TASK}]
                while True:
                    async with session.post(url, json={"model": "m", "messages": messages}) as response:
                        said = (await response.json())["choices"][0]["message"]
                    messages.append(said)
                    if not said.get("tool_calls"):
                        break
                    for call in said["tool_calls"]:
                        text = (folder / json.loads(call["function"]["arguments"])["path"]).read_text()
                        messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
                base.execute("INSERT INTO record (body) VALUES (?)", (json.dumps(messages),))

        await asyncio.gather(*(one() for _ in range(N)))
    base.close()


def lab_of(folder: Path, url: str, permits: int) -> sl.Lab:
    """A lab whose one model is the server."""
    config = {
        "maxConcurrent": permits,
        "compressor": {"mode": "fixed"},
        "defaultModel": "bench",
        "providers": {"bench": {"protocol": "chat", "baseUrl": url, "models": {"m": {"window": 128_000}}}},
        "models": {"add": [BENCH]},
    }
    return sl.Lab.open(folder, config=config, env={})


def rows() -> Iterator[str]:
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    root = f"http://127.0.0.1:{ours.recv()}/v1"
    try:
        yield f"{N} actions of three calls; CPU per action, and beside the raw loop"
        for permits in (8, 64):
            yield from beside(root, permits)
    finally:
        server.terminate()
        server.join()


def beside(root: str, permits: int) -> Iterator[str]:
    """Raw and whole, in one folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "a.md").write_text("deploy at 09:14\nerror rate rose to 7.5 % at 09:16\nrolled back at 09:40\n")
        before = time.process_time()
        asyncio.run(raw(f"{root}/chat/completions", permits, folder))
        bare = (time.process_time() - before) / N * 1e3
        with lab_of(folder, root, permits) as lab:
            assert lab.thread(TASK, type="researcher").status == "ok"
            before = time.process_time()
            handles = [lab.dispatch(TASK, type="researcher") for _ in range(N)]
            assert {handle.result().status for handle in handles} == {"ok"}
            whole = (time.process_time() - before) / N * 1e3
    yield f"{permits:>3} permits  raw aiohttp, one commit {bare:>6.2f} ms   1.0x"
    yield f"{permits:>3} permits  slate_lab, everything   {whole:>6.2f} ms {whole / bare:>5.1f}x   (mark: 2.5 ms, 3x)"

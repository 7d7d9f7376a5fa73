"""What the wire costs: processor time of a call and of a streamed token, against bare readers of the same stream.

Run: python -m bench.wire [--calls 200] [--tokens 400] [--at-once 8]
The server is a process of its own on loopback; only the client's processor time counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import httpx
import msgspec
from aiohttp import web

from slate_lab.models.chat import ChatModel
from slate_lab.models.gate import Gate
from slate_lab.models.protocol import Capabilities
from slate_lab.models.transport import open_transport
from slate_lab.records import Message, Request, Route

ROUTE = Route("bench", "m")
ASK = Request(messages=(Message(role="user", text="x" * 1000),))


def body_of(tokens: int) -> list[bytes]:
    """A stream of `tokens` chunks as a provider sends them."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks = [
        {**head, "choices": [{"index": 0, "delta": {"content": f"tok{i} "}, "finish_reason": None}]}
        for i in range(tokens)
    ]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    chunks.append({**head, "choices": [], "usage": {"prompt_tokens": 250, "completion_tokens": tokens}})
    return [b"data: " + json.dumps(c).encode() + b"\n\n" for c in chunks] + [b"data: [DONE]\n\n"]


def serve(port: Any, tokens: int, each: bool) -> None:
    """A server that streams the body: one write for every chunk (`each`), or all at once."""
    parts = body_of(tokens) if each else [b"".join(body_of(tokens))]

    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for part in parts:
            await response.write(part)
            if each:
                await asyncio.sleep(0.0005)
        return response

    async def run() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


async def measure(call: Callable[[], Awaitable[object]], *, calls: int, at_once: int) -> float:
    """Processor milliseconds of one call."""
    await call()

    async def some(n: int) -> None:
        for _ in range(n):
            await call()

    before = time.process_time()
    await asyncio.gather(*(some(calls // at_once) for _ in range(at_once)))
    return (time.process_time() - before) * 1000 / (calls // at_once * at_once)


async def compare(port: int, *, calls: int, at_once: int) -> dict[str, float]:
    """Processor milliseconds of a call, by reader."""
    url = f"http://127.0.0.1:{port}/v1"
    post = f"{url}/chat/completions"
    payload = msgspec.json.encode({"messages": [{"role": "user", "content": "x" * 1000}]})
    found: dict[str, float] = {}
    async with aiohttp.ClientSession() as session:

        async def bare() -> None:
            async with session.post(post, data=payload) as response:
                async for _ in response.content.iter_any():
                    pass

        found["aiohttp, bytes only"] = await measure(bare, calls=calls, at_once=at_once)
    async with httpx.AsyncClient(transport=open_transport()) as client:

        async def plain() -> None:
            async with client.stream("POST", post, content=payload) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: {"):
                        json.loads(line[6:])

        found["httpx on aiohttp, aiter_lines and json"] = await measure(plain, calls=calls, at_once=at_once)
    model, gate = ChatModel(ROUTE, url, transport=open_transport(), capabilities=Capabilities()), Gate()

    async def whole() -> None:
        await gate.ask(model, ROUTE, ASK, trail=[], on_delta=lambda piece: None)

    found["gate and chat model"] = await measure(whole, calls=calls, at_once=at_once)
    await model.aclose()
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("calls", 200), ("tokens", 400), ("at-once", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    for each in (False, True):
        costs = []
        for tokens in (1, options.tokens):
            ours, theirs = multiprocessing.Pipe()
            server = multiprocessing.Process(target=serve, args=(theirs, tokens, each), daemon=True)
            server.start()
            costs.append(asyncio.run(compare(ours.recv(), calls=options.calls, at_once=options.at_once)))
            server.terminate()
        print("one write for every token" if each else "all tokens in one write")
        for reader, short in costs[0].items():
            token = (costs[1][reader] - short) * 1000 / (options.tokens - 1)
            print(f"  {reader:40} {short:6.2f} ms a call   {token:6.1f} µs a token")


if __name__ == "__main__":
    main()

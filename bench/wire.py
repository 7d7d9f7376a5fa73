"""Wire: processor time of a call and of a streamed token over each protocol, beside bare clients in the same run.

Run alone: python -m bench.wire. The server is a process of its own on loopback; only the client's processor time
counts. A call of ten tokens gives the time of a call; one of 4,000, the time of each further token. "Added" is what
the lab takes beyond a bare client that reads the same stream with aiohttp, cuts its lines and decodes its JSON.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from slate_lab.models.chat import ChatModel
from slate_lab.models.gate import Gate
from slate_lab.models.messages import MessagesModel
from slate_lab.models.protocol import Capabilities
from slate_lab.models.responses import ResponsesModel
from slate_lab.models.transport import open_transport
from slate_lab.models.wire import WireModel
from slate_lab.records import Action, Attempt, Call, Message, Request, Route
from slate_lab.store import Store

ROUTE = Route("bench", "m")
ASK = Request(messages=(Message(role="user", text="x" * 1000),))
SHORT, LONG = 10, 4_000
CALLS, AT_ONCE = 64, 8
WIRES: dict[str, type[WireModel]] = {"chat": ChatModel, "responses": ResponsesModel, "messages": MessagesModel}


def chat_events(tokens: int) -> Iterator[dict[str, Any]]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    for i in range(tokens):
        yield {**head, "choices": [{"index": 0, "delta": {"content": f"tok{i} "}, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    yield {**head, "choices": [], "usage": {"prompt_tokens": 250, "completion_tokens": tokens}}


def responses_events(tokens: int) -> Iterator[dict[str, Any]]:
    response = {"id": "resp_1", "object": "response", "model": "m", "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": response}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    for i in range(tokens):
        yield {"type": "response.output_text.delta", "sequence_number": i, **place, "delta": f"tok{i} "}
    usage = {"input_tokens": 250, "output_tokens": tokens, "total_tokens": 250 + tokens}
    yield {"type": "response.completed", "response": {**response, "status": "completed", "usage": usage}}


def messages_events(tokens: int) -> Iterator[dict[str, Any]]:
    usage = {"input_tokens": 250, "output_tokens": 1}
    yield {"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": [], "usage": usage}}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for i in range(tokens):
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f"tok{i} "}}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": tokens}}
    yield {"type": "message_stop"}


EVENTS = {"chat": chat_events, "responses": responses_events, "messages": messages_events}


def body_of(wire: str, tokens: int) -> list[bytes]:
    """A stream as a provider sends it, event by event."""
    parts = []
    for event in EVENTS[wire](tokens):
        name = f"event: {event['type']}\n" if "type" in event else ""
        parts.append(f"{name}data: {json.dumps(event)}\n\n".encode())
    return [*parts, *([b"data: [DONE]\n\n"] if wire == "chat" else [])]


def serve(port: Any) -> None:
    """A server: `/WIRE/TOKENS/MODE/...` streams an answer, one write for every token (`each`) or all in one."""

    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        wire, tokens, mode = (request.match_info[name] for name in ("wire", "tokens", "mode"))
        parts = bodies.setdefault((wire, tokens), body_of(wire, int(tokens)))
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for part in parts if mode == "each" else [b"".join(parts)]:
            await response.write(part)
            if mode == "each":
                await asyncio.sleep(0.0003)
        return response

    async def run() -> None:
        app = web.Application()
        app.router.add_post("/{wire}/{tokens}/{mode}/{rest:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    bodies: dict[tuple[str, str], list[bytes]] = {}
    asyncio.run(run())


async def measure(call: Callable[[], Awaitable[object]], calls: int) -> float:
    """Processor microseconds of one call, several at once."""

    async def some() -> None:
        for _ in range(calls // AT_ONCE):
            await call()

    before = time.process_time()
    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    return (time.process_time() - before) * 1e6 / calls


async def bare(session: aiohttp.ClientSession, url: str, payload: bytes) -> str:
    """What anyone would write: lines, JSON, the text put together."""
    text, rest = [], b""
    async with session.post(url, data=payload) as response:
        async for chunk in response.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line.startswith(b"data: {"):
                    event = json.loads(line[6:])
                    text.append(str(event.get("delta") or event.get("choices")))
    return "".join(text)


async def compare(port: int, wire: str, tokens: int, mode: str, calls: int) -> tuple[float, float, float]:
    """Processor microseconds of a call: bytes alone, a bare client, the lab."""
    url = f"http://127.0.0.1:{port}/{wire}/{tokens}/{mode}"
    payload = msgspec.json.encode({"messages": [{"role": "user", "content": "x" * 1000}]})
    async with aiohttp.ClientSession() as session:

        async def read() -> None:
            async with session.post(url + "/x", data=payload) as response:
                async for _ in response.content.iter_any():
                    pass

        alone = await measure(read, calls)
        plain = await measure(lambda: bare(session, url + "/x", payload), calls)
    model = WIRES[wire](ROUTE, url, transport=open_transport(), capabilities=Capabilities())
    gate = Gate()
    ours = await measure(lambda: gate.ask(model, ROUTE, ASK, trail=[], on_delta=lambda piece: None), calls)
    await model.aclose()
    return alone, plain, ours


def rows() -> Iterator[str]:
    """The table."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    port = ours.recv()
    yield f"{'microseconds of processor time':37} {'call: bytes':>16} {'bare client':>12} {'lab':>6} | " + (
        f"{'token: bytes':>13} {'bare':>6} {'lab':>5} {'added':>6}"
    )
    for mode, label in (("once", "all tokens in one write"), ("each", "one write for every token")):
        for wire in WIRES:
            asyncio.run(compare(port, wire, SHORT, mode, AT_ONCE))  # warms up
            short = asyncio.run(compare(port, wire, SHORT, mode, CALLS))
            long = asyncio.run(compare(port, wire, LONG, mode, AT_ONCE))
            token = [(b - a) / (LONG - SHORT) for a, b in zip(short, long, strict=True)]
            yield (
                f"{label:26} {wire:10} {short[0]:16.0f} {short[1]:12.0f} {short[2]:6.0f} "
                f"| {token[0]:13.1f} {token[1]:6.1f} {token[2]:5.1f} {token[2] - token[1]:6.1f}   (mark: 20 added)"
            )
    server.terminate()
    server.join()
    yield f"a call of one attempt stored               {stored():6.0f} us"


def stored(n: int = 500) -> float:
    """Processor microseconds of storing a call with its attempt, each in a commit of its own."""
    attempt = Attempt(n=1, outcome="ok", started_ns=1, ended_ns=2)
    call = Call(
        thread="t1", kind="worker", logical="m", provider="bench", model="m", started_ns=1, ended_ns=2, outcome="ok",
        attempts=(attempt,),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder) / "lab.db")
        store.threads.queue(Action(task="x"), logical="m", provider="bench", model="m")
        before = time.process_time()
        for _ in range(n):
            store.calls.add(call)
        used = (time.process_time() - before) * 1e6 / n
        store.close()
    return used


if __name__ == "__main__":
    for line in rows():
        print(line)

"""A server on loopback that misbehaves on demand, and counts."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

PATHS = ("/chat/completions", "/responses", "/messages")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def chunk(content: str | None = None, **rest: Any) -> bytes:
    """One streamed chunk of a chat completion."""
    choice: dict[str, Any] = {"index": 0, "delta": {"content": content} if content is not None else {}}
    if "finish" in rest:
        choice["finish_reason"] = rest.pop("finish")
    body = {"id": "r1", "model": "m-1", "choices": [choice], **rest}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
DONE = b"data: [DONE]\n\n"
GOOD = [
    chunk("hel"),
    chunk("lo"),
    chunk(finish="stop"),
    b"data: " + json.dumps({"choices": [], "usage": USAGE}).encode() + b"\n\n",
    DONE,
]


class FaultServer:
    """Answers a `POST` of any protocol with the steps of `script`, one for each request, the last one for ever.

    Attributes:
        requests: bodies that arrived.
        headers: their headers.
        queries: their queries.
        closed: set when a client went away in the middle of an answer.
        sockets: client ports seen, to count connections.
    """

    def __init__(self, *script: Handler) -> None:
        self.script = list(script)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.closed = asyncio.Event()
        self.sockets: set[object] = set()
        self.queries: list[str] = []
        self.url = ""

    async def __aenter__(self) -> FaultServer:
        app = web.Application()
        for path in PATHS:
            app.router.add_post(f"/v1{path}", self._answer)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await request.json())
        self.queries.append(request.query_string)
        self.headers.append({k.lower(): v for k, v in request.headers.items()})
        assert request.transport is not None
        self.sockets.add(request.transport.get_extra_info("peername"))
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        try:
            return await step(request)
        except (asyncio.CancelledError, ConnectionError):
            self.closed.set()
            raise


def status(code: int, body: Any = None, **headers: str) -> Handler:
    """An error answer."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}

    async def answer(request: web.Request) -> web.StreamResponse:
        if isinstance(body, str):
            return web.Response(status=code, text=body, headers=names)
        return web.json_response(body or {"error": {"message": "no"}}, status=code, headers=names)

    return answer


def stream(*chunks: bytes, pause_s: float = 0.0, kind: str = "text/event-stream", reset: bool = False) -> Handler:
    """A stream of chunks, one write each, with pauses; with `reset` the connection is then torn down."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": kind})
        await response.prepare(request)
        for part in chunks:
            await response.write(part)
            await asyncio.sleep(pause_s)
        if reset:
            assert request.transport is not None
            request.transport.abort()
        await response.write_eof()
        return response

    return answer


def hang() -> Handler:
    """Never an answer."""

    async def answer(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    return answer


def drop() -> Handler:
    """The connection is closed before any answer."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return answer


def zipped(*chunks: bytes) -> Handler:
    """A compressed stream."""

    async def answer(request: web.Request) -> web.StreamResponse:
        data = gzip.compress(b"".join(chunks))
        response = web.StreamResponse(headers={"content-type": "text/event-stream", "content-encoding": "gzip"})
        await response.prepare(request)
        for start in range(0, len(data), 20):
            await response.write(data[start : start + 20])
        await response.write_eof()
        return response

    return answer


def document(body: Any, kind: str = "application/json") -> Handler:
    """A whole JSON answer."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(text=json.dumps(body), content_type=kind)

    return answer

"""The embedded model behind httpx's transport interface: the first real request starts or joins its server.

In: a chat request to any address. Out: the server's answer to it. Made by `connect`, under the recorder (so a replayed
notebook starts nothing) and over the plain transport. One server per model and user, shared by kernels.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
import platformdirs

from slate_lab.config import ProviderSpec
from slate_lab.errors import ModelError
from slate_lab.models.local_calls import CallStream, plan_request, with_tool_calls
from slate_lab.models.local_catalog import BARE_CALLS, DEFAULT, find_known
from slate_lab.models.local_server import (
    SERVE,
    Joined,
    ServerSpec,
    is_alive,
    join_server,
    leave_server,
    require_runtime,
)
from slate_lab.models.weights import Progress, Weights, find_weights, get_weights

__all__ = ["LocalTransport", "describe_local", "template_path"]

T = TypeVar("T")
_LOST = (httpx.ConnectError, httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)
_DYING_S = 2.0


class LocalTransport(httpx.AsyncBaseTransport):
    """Forwards chat requests to the embedded server.

    Args:
        spec: the provider, for weights, context, threads, requests at once and idle time.
        inner: the way to 127.0.0.1; closed with this.
        model_id: the model asked for, which names the weights if `spec` does not.
        progress: told in words, with the done fraction if known, what a first request waits for; from any thread.
        cache: where weights and the state of servers are kept; None is the user's own.
        env: where `SLATE_LAB_WEIGHTS` is looked up; None is the process's environment.
        command: how a server is started; it takes the options of `serve`.
    """

    def __init__(
        self,
        spec: ProviderSpec,
        inner: httpx.AsyncBaseTransport,
        *,
        model_id: str,
        progress: Progress,
        cache: Path | None = None,
        env: Mapping[str, str] | None = None,
        command: tuple[str, ...] = SERVE,
    ) -> None:
        self._spec, self._inner, self._model_id, self._progress = spec, inner, model_id, progress
        self._cache = cache or platformdirs.user_cache_path("slate_lab")
        self._env, self._command = env, command
        known = find_known(Path(_weights_name(spec, model_id)).name)
        self._looks = known.looks if known else None
        self._stop = threading.Event()
        self._joining: asyncio.Task[Joined] | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The server's answer. A server that dies before it answers is started again, once.

        Raises:
            ModelError: `unavailable`, no weights, no runtime or no start; the message says what to do.
            httpx.TransportError: the server cannot be reached, or is lost again.
        """
        body = await request.aread()
        joined = await self._server()
        try:
            return await self._answer(request, body, joined)
        except _LOST:
            if not await self._died(joined):
                raise
        return await self._answer(request, body, await self._server())

    async def aclose(self) -> None:
        """Leave the server, which ends with its last user, and close the inner transport."""
        self._stop.set()
        task, self._joining = self._joining, None
        if task is not None:
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is None:
                await asyncio.to_thread(leave_server, task.result())
        await self._inner.aclose()

    async def _server(self) -> Joined:
        """The joined server; requests wait for the same start together, and one that leaves does not stop it."""
        if self._joining is None or _failed(self._joining):
            self._joining = asyncio.create_task(asyncio.to_thread(self._join))
        return await asyncio.shield(self._joining)

    def _join(self) -> Joined:
        require_runtime()
        spec = self._spec
        weights = get_weights(
            _weights_name(spec, self._model_id),
            cache=self._cache / "models",
            progress=self._progress,
            env=self._env,
            stop=self._stop.is_set,
        )
        served = ServerSpec(
            name=_shown_name(weights, self._model_id),
            weights=weights,
            template=template_path(_template(weights)),
            context=spec.context_tokens,
            parallel=spec.max_concurrent or 1,
            threads=spec.threads or _processors(),
            idle_s=spec.idle_s,
            command=self._command,
        )
        return join_server(served, cache=self._cache, progress=self._progress, stop=self._stop.is_set)

    async def _died(self, joined: Joined) -> bool:
        """Whether the server is gone; if so, the next request starts one."""
        for _ in range(int(_DYING_S / 0.1)):
            if not await asyncio.to_thread(is_alive, joined.folder):
                if self._joining is not None and self._joining.done() and self._joining.result() is joined:
                    self._joining = None
                    await asyncio.to_thread(joined.user.release)
                return True
            await asyncio.sleep(0.1)
        return False

    async def _answer(self, request: httpx.Request, body: bytes, joined: Joined) -> httpx.Response:
        """One exchange, returned when the first piece of its body is there."""
        asked = _decoded(body)
        offers = bool(asked.get("tools"))
        headers = {k: v for k, v in request.headers.items() if k not in _OWN_HEADERS}
        response = await self._inner.handle_async_request(
            httpx.Request(
                request.method,
                f"http://127.0.0.1:{joined.state.port}/v1/{request.url.path.rpartition('/v1/')[2].lstrip('/')}",
                headers={**headers, "authorization": f"Bearer {joined.state.key}", "connection": "close"},
                content=msgspec.json.encode(plan_request(asked, looks=self._looks)) if asked else body,
                extensions=request.extensions,
            )
        )
        assert isinstance(response.stream, httpx.AsyncByteStream)
        stream = _Body(response.stream)
        try:
            await stream.begin()
        except BaseException:  # also when cancelled: the server then frees its place
            await response.aclose()
            raise
        if offers and response.status_code == 200:
            stream.read_calls(streamed=bool(asked.get("stream")), first_id=_calls_so_far(asked) + 1)
        kept = [(k, v) for k, v in response.headers.multi_items() if k.lower() != "content-length"]
        return httpx.Response(
            response.status_code, headers=kept, stream=stream, extensions=response.extensions, request=request
        )


_OWN_HEADERS = ("authorization", "connection", "host", "content-length", "transfer-encoding")
"""Replaced on the way; a connection is never used twice, as the server closes idle ones just when they are reused."""


class _Body(httpx.AsyncByteStream):
    """A body whose first piece was waited for; its calls are read if asked."""

    def __init__(self, inner: httpx.AsyncByteStream) -> None:
        self._inner = inner
        self._pieces = aiter(inner)
        self._first: bytes | None = None
        self._feed: Callable[[bytes], bytes] = bytes
        self._close: Callable[[], bytes] = bytes

    async def begin(self) -> None:
        """Wait for the first piece."""
        self._first = await anext(self._pieces, None)

    def read_calls(self, *, streamed: bool, first_id: int) -> None:
        """Turn bare calls into tool calls on the way."""
        if streamed:
            calls = CallStream(first_id=first_id)
            self._feed, self._close = calls.feed, calls.close
            return
        whole = bytearray()

        def keep(piece: bytes) -> bytes:
            whole.extend(piece)
            return b""

        self._feed, self._close = keep, lambda: with_tool_calls(bytes(whole), first_id=first_id)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._first is not None:
            if told := self._feed(self._first):
                yield told
            async for piece in self._pieces:
                if told := self._feed(piece):
                    yield told
        if told := self._close():
            yield told

    async def aclose(self) -> None:
        await self._inner.aclose()


def describe_local(
    spec: ProviderSpec, *, model_id: str = DEFAULT, cache: Path | None = None, env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What a report says of the embedded model; asks no network, so `source` and `sha256` are None before it is here.

    Returns:
        `model`, `file`, `source`, `sha256`, `bytes`, `context`, `template`, `licence`, `note`.
    """
    name = _weights_name(spec, model_id)
    known = find_known(Path(name).name)
    weights = find_weights(name, cache=(cache or platformdirs.user_cache_path("slate_lab")) / "models", env=env)
    return {
        "model": known.name if known else Path(name).stem,
        "file": known.file if known else Path(name).name,
        "source": weights.source if weights else None,
        "sha256": weights.sha256 if weights else known.sha256 if known else None,
        "bytes": weights.bytes if weights else known.bytes if known else None,
        "context": spec.context_tokens,
        "template": known.template if known else BARE_CALLS,
        "licence": known.licence if known else None,
        "note": known.note if known else "not in the catalog: its quality is unknown here",
    }


def template_path(name: str) -> Path:
    """The file of a chat template that ships with the package."""
    return Path(str(resources.files("slate_lab.models") / "templates" / f"{name}.jinja"))


def _weights_name(spec: ProviderSpec, model_id: str) -> str:
    return spec.weights or (model_id if find_known(model_id) else DEFAULT)


def _shown_name(weights: Weights, model_id: str) -> str:
    known = find_known(weights.path.name)
    return known.name if known else weights.path.stem or model_id


def _template(weights: Weights) -> str:
    known = find_known(weights.path.name)
    return known.template if known else BARE_CALLS


def _processors() -> int:
    """The processors this process may use; more than eight gain little."""
    able = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(8, able)


def _failed(task: asyncio.Task[Joined]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise ModelError("bad-request", f"the request is not JSON: {error}") from None
    return value if isinstance(value, dict) else {}


def _calls_so_far(body: Mapping[str, Any]) -> int:
    return sum(len(m.get("tool_calls") or ()) for m in body.get("messages") or ())

"""Record and replay at the level of bytes: a transport in front of another one.

In: an `httpx.Request` with `slate_route` among its extensions. Out: the recorded answer, chunk by chunk, with
`slate_recorded` among the response's extensions; or the answer of the inner transport, with `slate_keep`, which the
protocol calls once it has read a whole good answer. So errors, broken and cancelled answers are never recorded. The
inner transport is not touched by an answer from the record. Made by `connect`.

Secrets never reach the file: no headers but the allowed ones, no address; and the values of the request's own secret
headers are hidden wherever they occur in the bodies.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec

from slate_lab.models.cassette import Cassette, Recording, body_of, pack, request_key
from slate_lab.models.redact import HIDDEN
from slate_lab.models.unpack import Unpacker

__all__ = ["Cassette", "ReplayTransport"]

KEPT_HEADERS = ("content-type",)
MAX_BYTES = 64 * 1024 * 1024  # of an unpacked body
_PLAIN_HEADERS = frozenset(
    {"accept", "accept-encoding", "content-type", "content-length", "host", "user-agent", "connection"}
)


class ReplayTransport(httpx.AsyncBaseTransport):
    """Answers from `cassette` where its mode says so, else from `inner`."""

    def __init__(self, cassette: Cassette, inner: httpx.AsyncBaseTransport) -> None:
        self._cassette = cassette
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The recorded answer, or a new one.

        Raises:
            ModelError: `replay-miss`, in mode `replay`: route and first difference are named.
        """
        route = str(request.extensions["slate_route"])
        secrets = _secrets_of(request)
        body: dict[str, Any] = msgspec.json.decode(_hide(request.content, secrets))
        key = request_key(route, body)
        n = self._cassette.take(key)
        recording = self._cassette.find(key, n)
        if recording is not None:
            return _answer(recording, request)
        if self._cassette.mode == "replay":
            self._cassette.give_back(key, n)
            raise self._cassette.miss(route, body, key, n)
        taken = _Taken(
            self._cassette, Recording(key=key, n=n, route=route, request=body, status=0, headers={}, chunks=[])
        )
        try:
            response = await self._inner.handle_async_request(request)
        except BaseException:
            taken.drop()
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        tape = _Tape(response.stream, taken)
        response.stream = tape
        response.extensions["slate_keep"] = lambda: taken.keep(response, tape.chunks, secrets)
        return response

    async def aclose(self) -> None:
        """Close the inner transport; the cassette is its owner's to save."""
        await self._inner.aclose()


class _Taken:
    """A number taken in the cassette; given back when the answer is closed, taken again if it is kept after all."""

    def __init__(self, cassette: Cassette, blank: Recording) -> None:
        self._cassette = cassette
        self._blank = blank
        self._holds = True
        self._kept = False

    def keep(self, response: httpx.Response, chunks: list[bytes], secrets: list[bytes]) -> None:
        if self._kept:
            return
        self._kept = True
        key = self._blank.key
        n = self._blank.n if self._holds else self._cassette.take(key)
        chunks = _plain(response, chunks)
        joined = b"".join(chunks)
        hidden = _hide(joined, secrets)
        headers = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
        written = pack(chunks if hidden == joined else [hidden])
        self._cassette.add(
            msgspec.structs.replace(self._blank, n=n, status=response.status_code, headers=headers, chunks=written)
        )

    def drop(self) -> None:
        if self._holds and not self._kept:
            self._cassette.give_back(self._blank.key, self._blank.n)
            self._holds = False


class _Tape(httpx.AsyncByteStream):
    """The inner body, remembered chunk by chunk; closing it without `keep` gives the number back."""

    def __init__(self, inner: httpx.AsyncByteStream, taken: _Taken) -> None:
        self.chunks: list[bytes] = []
        self._inner = inner
        self._taken = taken

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self.chunks.append(chunk)
            yield chunk

    async def aclose(self) -> None:
        try:
            await self._inner.aclose()
        finally:
            self._taken.drop()  # a body that is read to its end is closed before the protocol can keep it


class _Recorded(httpx.AsyncByteStream):
    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk


def _answer(recording: Recording, request: httpx.Request) -> httpx.Response:
    return httpx.Response(
        recording.status,
        headers=recording.headers,
        stream=_Recorded(body_of(recording)),
        request=request,
        extensions={"slate_recorded": True},
    )


def _plain(response: httpx.Response, chunks: list[bytes]) -> list[bytes]:
    """The chunks without content encoding: a compressed body becomes one readable chunk."""
    coding = response.headers.get("content-encoding", "identity")
    if coding == "identity":
        return chunks
    unpacker, pieces, size = Unpacker(coding), [], 0
    for piece in (piece for chunk in chunks for piece in unpacker.feed(chunk)):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_BYTES:  # what follows the end of the answer
            break
    return [b"".join(pieces)]


def _secrets_of(request: httpx.Request) -> list[bytes]:
    """What must not be written: values of headers that are not everyone's, user info and query of the address."""
    values = [v for name, v in request.headers.items() if name.lower() not in _PLAIN_HEADERS]
    values += [word for value in list(values) for word in value.split() if " " in value]
    values += [request.url.password, *request.url.params.values()]
    return sorted({v.encode() for v in values if v and len(v) >= 8}, key=len, reverse=True)


def _hide(data: bytes, secrets: list[bytes]) -> bytes:
    for secret in secrets:
        data = data.replace(secret, HIDDEN.encode())
    return data

"""Compressed bodies, unpacked a bounded piece at a time: a small body must not become a full memory.

In: the chunks of a body and the name of its coding. Out: pieces of at most `PIECE` bytes, so that whoever reads them
can stop in between. `gzip` and `deflate` are unpacked, once: a body packed several times over is refused. A coding that
is unknown here was never asked for; such a body is read as it came. Called by `wire` and the recorder.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator

import httpx

__all__ = ["PIECE", "Unpacker", "unpacked"]

PIECE = 1024 * 1024
_ZIPPED = frozenset({"gzip", "x-gzip", "deflate"})
_EITHER = zlib.MAX_WBITS | 32  # gzip's or zlib's own head


class Unpacker:
    """Unpacks one body: `feed` it every chunk.

    Raises:
        httpx.DecodingError: the body is packed several times over.
    """

    def __init__(self, coding: str) -> None:
        names = [name for part in coding.lower().split(",") if (name := part.strip()) not in ("", "identity")]
        if len(names) > 1:
            raise httpx.DecodingError(f"the body is packed {len(names)} times over; it is not unpacked")
        self._head: bytes | None = b"" if names == ["deflate"] else None  # some servers leave zlib's head out
        self._zip = zlib.decompressobj(_EITHER) if names and names[0] in _ZIPPED else None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The pieces of a chunk.

        Raises:
            httpx.DecodingError: it is not packed as it says.
        """
        if self._zip is None:
            yield chunk
            return
        rest = chunk
        if self._head is not None:
            rest = self._head + chunk
            if len(rest) < 2:
                self._head = rest
                return
            self._head = None
            if rest[0] & 15 != 8 or int.from_bytes(rest[:2]) % 31:
                self._zip = zlib.decompressobj(-zlib.MAX_WBITS)
        while rest and not self._zip.eof:
            try:
                piece = self._zip.decompress(rest, PIECE)
            except zlib.error as error:
                raise httpx.DecodingError(str(error)) from error
            rest = self._zip.unconsumed_tail
            if piece:
                yield piece


async def unpacked(response: httpx.Response) -> AsyncIterator[bytes]:
    """The body of an answer, unpacked as it comes.

    Raises:
        httpx.DecodingError: it cannot be unpacked.
    """
    assert isinstance(response.stream, httpx.AsyncByteStream)
    unpacker = Unpacker(response.headers.get("content-encoding", ""))
    async for chunk in response.stream:
        for piece in unpacker.feed(chunk):
            yield piece

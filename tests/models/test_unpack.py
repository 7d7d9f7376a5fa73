"""Packed bodies are unpacked piece by piece, and no deeper than once."""

from __future__ import annotations

import gzip
import zlib

import httpx
import pytest

from slate_lab.models.unpack import PIECE, Unpacker

TEXT = b"hello, packed world" * 50


def raw_deflate(data: bytes) -> bytes:
    """Deflate without zlib's head, as some servers send it."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize("size", [1, 7, 100_000], ids=lambda size: f"chunks-of-{size}")
@pytest.mark.parametrize(
    ("coding", "body"),
    [
        pytest.param("gzip", gzip.compress(TEXT), id="gzip"),
        pytest.param("X-GZIP", gzip.compress(TEXT), id="gzip-by-its-older-name"),
        pytest.param("deflate", zlib.compress(TEXT), id="deflate"),
        pytest.param("deflate", raw_deflate(TEXT), id="deflate-without-a-head"),
        pytest.param("identity, gzip", gzip.compress(TEXT), id="identity-is-no-coding"),
        pytest.param("br", TEXT, id="unknown-is-read-as-it-came"),
    ],
)
def test_a_body_is_unpacked(coding: str, body: bytes, size: int) -> None:
    """Whatever the chunks, the same bytes come out."""
    unpacker = Unpacker(coding)
    chunks = [body[n : n + size] for n in range(0, len(body), size)]
    assert b"".join(piece for chunk in chunks for piece in unpacker.feed(chunk)) == TEXT


def test_a_small_body_that_is_huge_inside_comes_in_pieces() -> None:
    """64 MB in 64 KB: no piece is larger than one megabyte, so the reader can stop at its cap."""
    pieces = Unpacker("gzip").feed(gzip.compress(bytes(64 * PIECE)))
    assert max(len(next(pieces)) for _ in range(3)) <= PIECE


def test_a_body_packed_several_times_is_refused() -> None:
    """Each packing multiplies by a thousand: nobody sends such a thing in good faith."""
    with pytest.raises(httpx.DecodingError, match="2 times over"):
        Unpacker("gzip, gzip")


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_body_that_is_not_what_it_says(coding: str) -> None:
    """It is a broken body, in httpx's own words."""
    with pytest.raises(httpx.DecodingError):
        list(Unpacker(coding).feed(b"\xff\xff not packed"))

"""Lines of a stream of bytes, by line feed only as editors count them; a line too long to hold comes in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader

from msgspec import Struct

from slate_lab.weave.tools.sweep import Sweep

__all__ = ["PIECE", "Piece", "count_after", "is_text", "pieces"]

PIECE = 1_000_000
"""The most bytes of one line held at once."""
_CHUNK = 1_000_000
_BOM = b"\xef\xbb\xbf"


class Piece(Struct, frozen=True):
    """A line, or a part of a very long one.

    Attributes:
        number: of the line, counted from 1.
        text: without the line break; bytes that are not UTF-8 become U+FFFD.
        size: in bytes.
        first: whether the line begins here.
        ended: whether the line break was met.
    """

    number: int
    text: str
    size: int
    first: bool
    ended: bool


def is_text(file: BufferedReader) -> bool:
    """Whether the start of `file` has no zero byte."""
    return b"\0" not in file.peek(4096)[:4096]


def pieces(file: BufferedReader) -> Iterator[Piece]:
    """The lines of `file` from its start, a byte order mark left out."""
    if file.peek(3).startswith(_BOM):
        file.read(3)
    number, first = 1, True
    while data := file.readline(PIECE):
        ended = data.endswith(b"\n")
        line = data.removesuffix(b"\n").removesuffix(b"\r") if ended else data
        yield Piece(number, line.decode("utf-8", "replace"), len(data), first, ended)
        number, first = number + ended, ended


def count_after(file: BufferedReader, last: Piece, sweep: Sweep) -> int | None:
    """The number of lines of `file`, of which `last` was read last; None if the sweep ends first."""
    breaks, tail = 0, b"\n" if last.ended else b""
    while chunk := file.read(_CHUNK):
        if not sweep.go_on(len(chunk)):
            return None
        breaks += chunk.count(b"\n")
        tail = chunk[-1:]
    # line breaks seen by now, and one more line if the last is not ended
    return last.number - 1 + last.ended + breaks + (tail != b"\n")

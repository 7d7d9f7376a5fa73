"""What a command printed, as bounded plain text: its head and its tail, no half character, no escape sequence.

In: bytes as they come. Out: text of at most so many characters and how much was left out. Called by `process` and
`cells`; what it holds does not grow with what was printed.
"""

from __future__ import annotations

import codecs
import re

__all__ = ["Capture", "plain"]

SLACK = 4_096
"""Bytes held before the tail, so that a character or a sequence that begins before it is seen whole."""

_ESCAPES = re.compile(
    r"""
    \x1b\[ [0-?]* [ -/]* [@-~]?                 # colours, moves of the cursor
    | \x1b\] [^\x07\x1b\n]* (?: \x07 | \x1b\\ )?  # titles, links, the clipboard
    | \x1b[PX^_] [^\x1b\n]* (?: \x1b\\ )?         # device strings
    | \x1b [ -/]* [0-~]?                        # all others
    | \x9b [0-?]* [ -/]* [@-~]?
    """,
    re.VERBOSE,
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_OVERWRITTEN = re.compile(r"[^\n\r]*\r(?=[^\n\r])")


def plain(text: str) -> str:
    """`text` without escape sequences and control characters; of a line that overwrote itself, what it said last."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    return _CONTROLS.sub("", _OVERWRITTEN.sub("", text))


class Capture:
    """Head and tail of a stream.

    Args:
        chars: the most characters of the text; half are the head's.
    """

    def __init__(self, chars: int) -> None:
        self._half = max(1, chars // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._room = 4 * self._half  # a character takes at most four bytes
        self.total = 0

    def feed(self, data: bytes) -> None:
        """Take the next piece."""
        self.total += len(data)
        free = self._room - len(self._head)
        if free > 0:
            self._head += data[:free]
            data = data[free:]
        keep = self._room + SLACK
        self._tail += data[-keep:]
        if len(self._tail) > 4 * keep:
            del self._tail[:-keep]

    def text(self) -> str:
        """What was captured, with a line where something is left out."""
        held = len(self._head) + len(self._tail)
        if held == self.total:
            whole = plain((self._head + self._tail).decode("utf-8", "replace"))
            if len(whole) <= 2 * self._half:
                return whole
            head, tail = whole[: self._half], whole[-self._half :]
        else:
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            head = plain(decoder.decode(bytes(self._head)))[: self._half]  # what is half a character here is left out
            start = self._tail[-(self._room + SLACK) :].decode("utf-8", "replace")
            tail = plain(start)[-self._half :]
        head, tail = _to_line(head, last=True), _to_line(tail, last=False)
        left = max(0, self.total - len(head.encode()) - len(tail.encode()))
        return f"{head}\n(... about {left} bytes left out here ...)\n{tail}"


def _to_line(text: str, *, last: bool) -> str:
    """`text` cut at a line's end if that costs little."""
    if last:
        cut = text.rfind("\n")
        return text[:cut] if cut > len(text) // 2 else text
    cut = text.find("\n")
    return text[cut + 1 :] if 0 <= cut < len(text) // 2 else text

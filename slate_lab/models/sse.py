"""Server-sent events from bytes, whatever the chunks: pure, no I/O.

In: body chunks as they arrive. Out: `(event, data)` pairs of bytes, in order; `event` is b"" unless the stream names
one. Called by the protocols.

Lines end at CR, LF or CRLF, also across chunks, and nowhere else: U+0085, U+2028 and `\\x0b` are data. Lines are cut as
bytes before they are decoded, which is safe because in UTF-8 no other character contains those two bytes; so a
character split across chunks arrives whole.
"""

from __future__ import annotations

__all__ = ["Event", "SseDecoder"]

Event = tuple[bytes, bytes]

_BOM = b"\xef\xbb\xbf"


class SseDecoder:
    """Reads one stream: `feed` it every chunk, then `close` it."""

    __slots__ = ("_after_cr", "_begun", "_data", "_event", "_tail")

    def __init__(self) -> None:
        self._tail: list[bytes] = []  # pieces of a line that has not ended
        self._data: list[bytes] = []  # data lines of an event that has not ended
        self._event = b""
        self._after_cr = False
        self._begun = False

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes."""
        if not chunk:
            return []
        if self._after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
        self._after_cr = chunk[-1:] == b"\r"
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:
            self._tail.append(chunk)
            return []
        if self._tail:
            self._tail.append(chunk)
            chunk = b"".join(self._tail)
            self._tail.clear()
        lines = chunk.split(b"\n")
        if last := lines.pop():
            self._tail.append(last)
        return self._read(lines)

    def close(self) -> list[Event]:
        """What the end of the stream completes: a last line without its end, a last event without its blank line."""
        lines = [b"".join(self._tail), b""] if self._tail else [b""]
        self._tail.clear()
        return self._read(lines)

    def _read(self, lines: list[bytes]) -> list[Event]:
        if not self._begun:
            self._begun = True
            lines[0] = lines[0].removeprefix(_BOM)
        events: list[Event] = []
        data = self._data
        for line in lines:
            if not line:
                if data:
                    events.append((self._event, data[0] if len(data) == 1 else b"\n".join(data)))
                    data.clear()
                self._event = b""
            elif line[:6] == b"data: ":
                data.append(line[6:])
            elif line[:5] == b"data:":
                data.append(line[5:])
            elif line[:1] != b":":
                self._field(line)
        return events

    def _field(self, line: bytes) -> None:
        """A field that is not data; `id`, `retry` and unknown ones mean nothing here."""
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._event = value
        elif name == b"error":  # some llama.cpp versions send errors as a field of that name
            self._event = b"error"
            self._data.append(value)
        elif name == b"data":
            self._data.append(b"")

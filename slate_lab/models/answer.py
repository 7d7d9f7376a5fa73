"""The body of one answer, read as it arrives: a stream of events, or one JSON document.

In: body chunks. Out: text to `on_delta` at once, and at the end the `Reply`, or a `Fault`, or a refusal found inside.
Pure but for the draft's clock. Called by `wire`; split from it so that any chunking can be tested without a socket.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from slate_lab import tokens
from slate_lab.models.assemble import Draft
from slate_lab.models.faults import Fault
from slate_lab.models.plain import Hide, as_is, plain_label, plain_payload
from slate_lab.models.protocol import Delta
from slate_lab.models.refusals import Refusal, read_refusal
from slate_lab.models.sse import Event, SseDecoder
from slate_lab.records import Reply

__all__ = ["Answer"]

_decode = msgspec.json.Decoder().decode
_JSON = (b"{", b"[")
_LINE_END = 4_096  # bytes in which secrets are looked for before the end of a line is shown


class Answer:
    """One answer.

    Args:
        draft: collects the reply, in the protocol's own way.
        on_delta: given each piece of visible text.
        hide: takes secrets out of what is kept; pieces are delivered as they come.

    Attributes:
        done: the end marker came, or a refusal: nothing more need be read.
        refusal: an error that the provider put into a 200 answer.
    """

    def __init__(
        self,
        draft: Draft,
        *,
        on_delta: Delta | None = None,
        hide: Hide = as_is,
    ) -> None:
        self.done = False
        self.refusal: Refusal | None = None
        self._sse = SseDecoder()
        self._reply = draft
        self._on_delta = on_delta
        self._hide = hide
        self._document: list[bytes] | None = None  # the pieces of an answer that is one JSON document
        self._begun = False

    def feed(self, chunk: bytes) -> None:
        """Take one chunk.

        Raises:
            Fault: `bad-reply`, a data line cannot be read.
        """
        if not self._begun:
            head = chunk.lstrip()
            if not head:
                return
            self._begun = True
            if head.startswith(_JSON):  # no event line begins so: the server did not stream
                self._document = []
        if self._document is not None:
            self._document.append(chunk)
            return
        self._events(self._sse.feed(chunk))

    def close(self) -> None:
        """The body has ended.

        Raises:
            Fault: `bad-reply`, it ended in the middle of the answer.
        """
        if self._document is not None:
            self._take(b"".join(self._document))
            if self.refusal is None and self._reply.empty:
                raise Fault("bad-reply", "there is no answer in it")
            self.done = True
            return
        self._events(self._sse.close())
        if not self.done and self._reply.finish is None:
            raise Fault("bad-reply", "the stream ended before the answer did", transient=True)
        self.done = True

    def reply(self, *, recorded: bool = False) -> Reply:
        """The reply, once `done`.

        Raises:
            Fault: `bad-reply`, the stream held no answer at all.
        """
        if self._reply.empty and self.refusal is None:
            raise Fault("bad-reply", "the stream held no answer", transient=True)
        if self._reply.finish == "error" and self.refusal is None:
            self.refusal = Refusal(message="the provider ended the answer with an error")
        return self._reply.build(recorded=recorded, streamed=self._document is None, hide=self._hide)

    def with_usage(self, fault: Fault) -> Fault:
        """`fault` with what was reported until it happened."""
        fault.usage, fault.raw_usage = self._reply.usage(), plain_payload(self._reply.raw_usage, hide=self._hide)
        fault.response_id = plain_label(self._reply.response_id, hide=self._hide) or None
        return fault

    def _events(self, events: list[Event]) -> None:
        for name, data in events:
            if data[:1] == b"{" and name != b"error":
                self._take(data)
            else:
                self._odd(name, data.strip())
            if self.refusal is not None:
                self.done = True
            if self.done:
                return

    def _take(self, data: bytes) -> None:
        try:
            chunk = _decode(data)
        except (ValueError, RecursionError):  # lone surrogates, raw control characters, or a torn line
            chunk = self._lenient(data)
        if isinstance(chunk, dict) and not _is_error(chunk):
            reply = self._reply
            text = reply.add(chunk)
            if text and self._on_delta is not None:
                self._on_delta(text if text.isascii() else tokens.clean(text))
            if reply.done:
                self.done = True
            elif reply.refusal is not None:
                self.refusal = read_refusal(reply.refusal)
        elif chunk:
            self.refusal = read_refusal(chunk)

    def _odd(self, name: bytes, data: bytes) -> None:
        """An event that is no plain chunk: the end marker, an error, or one of an unknown kind."""
        if data == b"[DONE]":
            self.done = True
        elif name == b"error":
            self.refusal = read_refusal(
                self._lenient(data) if data.startswith(_JSON) else data.decode("utf-8", "replace")
            )
        elif data.startswith(_JSON):
            self._take(data)
        elif name and name != b"message":
            return
        elif data:
            self._lenient(data)  # a plain JSON value means nothing; what is not even JSON is a broken answer

    def _lenient(self, data: bytes) -> Any:
        """JSON as the standard library reads it: lone surrogates and raw control characters pass."""
        try:
            return json.loads(data.decode("utf-8", "replace"), strict=False)
        except (ValueError, RecursionError):
            end = self._hide(data[-_LINE_END:].decode("utf-8", "replace"))[-80:]
            raise Fault("bad-reply", f"the answer broke off inside a line that ends {end!r}", transient=True) from None


def _is_error(chunk: Mapping[str, Any]) -> bool:
    return bool(chunk.get("error")) or chunk.get("object") == "error" or chunk.get("type") == "error"

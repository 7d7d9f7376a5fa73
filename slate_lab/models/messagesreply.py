"""A reply from the events of a message, or from a whole one.

In: decoded events, in order. Out: the visible text of each as it comes, and the `Reply` at the end (`Draft`). Blocks
are told apart by their index, so that interleaved ones do not mix. Thinking is no text; its blocks are carried back
with their signatures. Called by the messages protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from slate_lab.models.assemble import Draft
from slate_lab.models.messagesbody import ANSWER
from slate_lab.models.usage import messages_usage
from slate_lab.records import Carried, Route, Usage

__all__ = ["MessagesDraft"]

_OPAQUE = ("thinking", "redacted_thinking")
_SILENT = ("ping", "content_block_stop")


class MessagesDraft(Draft):
    """Collects one message."""

    words = {  # noqa: RUF012  read by the base, never changed
        "end_turn": "stop",
        "stop_sequence": "stop",
        "stop": "stop",
        "tool_use": "tool_calls",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "refusal": "content_filter",
    }

    def __init__(self, *, route: Route, clock: Callable[[], int]) -> None:
        super().__init__(clock=clock)
        self._route = route
        self._parts: list[dict[str, Any] | list[str] | int] = []  # of the turn, in order
        self._blocks: dict[int, dict[str, Any] | list[str] | int] = {}  # the same, by index while they come
        self._answers: set[int] = set()  # indexes of blocks whose input is the answer itself

    def add(self, chunk: Mapping[str, Any]) -> str:
        """Take one event; its visible text."""
        kind = chunk.get("type")
        if kind == "content_block_delta":
            delta = chunk.get("delta")
            return self._more(_number(chunk.get("index")), delta) if isinstance(delta, dict) else ""
        if kind == "content_block_start":
            block = chunk.get("content_block")
            return self._begin(_number(chunk.get("index")), block) if isinstance(block, dict) else ""
        if kind == "message_start":
            message = chunk.get("message")
            return self._head(message) if isinstance(message, dict) else ""
        if kind == "message_delta":
            self._tail(chunk.get("delta"), chunk.get("usage"))
        elif kind == "message_stop":
            self.done = True
        elif kind == "message":
            return self._head(chunk)
        elif kind not in _SILENT:
            self._ignore(kind)
        return ""

    def usage(self) -> Usage:
        """What was reported until now."""
        return messages_usage(self.raw_usage)

    def _head(self, message: Mapping[str, Any]) -> str:
        """The frame of a message, or a whole one."""
        self._introduce(message)
        content = message.get("content")
        blocks = content if isinstance(content, list) else ()
        said = [self._begin(n, block) for n, block in enumerate(blocks) if isinstance(block, dict)]
        self._tail(message, message.get("usage"))
        return "".join(said)

    def _tail(self, delta: object, usage: object) -> None:
        if isinstance(delta, Mapping) and delta.get("stop_reason"):
            self.finish = str(delta["stop_reason"])
        if isinstance(usage, dict):  # the counts of the end are cumulative, but may leave out those of the beginning
            self.raw_usage = {**(self.raw_usage or {}), **{k: v for k, v in usage.items() if v is not None}} or None

    def _begin(self, index: int, block: dict[str, Any]) -> str:
        kind = block.get("type")
        if kind == "text":
            self._place(index, [])
            return self._more(index, {"type": "text_delta", "text": block.get("text")})
        self._mark()
        if kind == "tool_use" and block.get("name") == ANSWER:
            self._answers.add(index)
            self._place(index, [])
            given = block.get("input")
            return self._put(index, _json(given)) if given else ""
        if kind == "tool_use":
            given = block.get("input") or None
            number = self._calls.begin(index, block.get("id"), block.get("name"), given)
            self._place(index, number)
        elif kind in _OPAQUE:
            self._place(index, dict(block))
        else:
            self._ignore(f"{kind} block")
        return ""

    def _more(self, index: int, delta: dict[str, Any]) -> str:
        kind = delta.get("type")
        if kind == "text_delta":
            text = delta.get("text")
            return self._put(index, text) if text and isinstance(text, str) else ""
        block = self._blocks.get(index)
        if kind == "input_json_delta":
            text = delta.get("partial_json")
            if index in self._answers:
                return self._put(index, text) if text and isinstance(text, str) else ""
            self._calls.extend(index, text)
        elif kind in ("thinking_delta", "signature_delta") and isinstance(block, dict):
            name = str(kind).removesuffix("_delta")
            block[name] = f"{block.get(name) or ''}{delta.get(name) or ''}"
        elif kind not in ("thinking_delta", "signature_delta", "citations_delta"):
            self._ignore(kind)
        return ""

    def _put(self, index: int, text: str) -> str:
        """Visible text of a block."""
        if self.first_ns is None:
            self._mark()
        block = self._blocks.get(index)
        if not isinstance(block, list):
            block = self._place(index, [])
        block.append(text)
        return self._say(text)

    def _place(self, index: int, part: Any) -> Any:
        self._blocks[index] = part
        self._parts.append(part)
        return part

    def _carried(self) -> Carried | None:
        parts = tuple("".join(part) if isinstance(part, list) else part for part in self._parts)
        return Carried(route=str(self._route), parts=parts) if any(isinstance(p, dict) for p in parts) else None

    def build(self, **options: Any) -> Any:
        """The reply, made plain; an answer given through the tool that stands for it is a plain end."""
        if self.finish == "tool_use" and self._answers and not self._calls:
            self.finish = "end_turn"
        return super().build(**options)


def _number(index: object) -> int:
    return index if isinstance(index, int) else -1


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()

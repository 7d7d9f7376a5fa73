"""A reply from the chunks of a chat completion, streamed or whole.

In: decoded chunks, in order. Out: the visible text of each chunk as it comes, and the `Reply` at the end (`Draft`).
Pure but for the clock that marks the first token. Called by the chat protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from slate_lab.models.assemble import Draft
from slate_lab.models.usage import chat_usage
from slate_lab.records import Usage

__all__ = ["ChatDraft"]


class ChatDraft(Draft):
    """Collects one reply of a chat completion."""

    words = {  # noqa: RUF012  read by the base, never changed
        "stop": "stop",
        "eos": "stop",
        "end_turn": "stop",
        "tool_calls": "tool_calls",
        "function_call": "tool_calls",
        "length": "length",
        "max_tokens": "length",
        "content_filter": "content_filter",
    }

    def __init__(self, *, clock: Callable[[], int], hidden_reasoning: bool = False) -> None:
        super().__init__(clock=clock)
        self._hidden_reasoning = hidden_reasoning

    def add(self, chunk: Mapping[str, Any]) -> str:
        """Take one chunk; its visible text."""
        if self.response_id is None:
            self._introduce(chunk)
        usage = chunk.get("usage")
        if usage or "x_groq" in chunk:
            self._take_usage(usage or chunk["x_groq"])
        choices = chunk.get("choices")
        if choices is None and not usage and "x_groq" not in chunk:
            self._ignore(chunk.get("object") or chunk.get("type"))
        if not choices or not isinstance(choices, list):
            return ""
        choice = choices[0]
        if not isinstance(choice, dict) or choice.get("index", 0) not in (0, None):
            return ""
        if choice.get("finish_reason"):
            self.finish = str(choice["finish_reason"])
        message = choice.get("delta") or choice.get("message")
        if not isinstance(message, dict):
            return ""
        if self.first_ns is None and any(value for key, value in message.items() if key != "role"):
            self._mark()
        return self._take(message, whole="message" in choice)

    def usage(self) -> Usage:
        """What was reported until now."""
        return chat_usage(self.raw_usage, hidden_reasoning=self._hidden_reasoning)

    def _take(self, message: dict[str, Any], *, whole: bool) -> str:
        if message.get("tool_calls"):
            (self._calls.add_whole if whole else self._calls.add)(message["tool_calls"])
        if message.get("function_call"):  # the older single call
            self._calls.add([{"index": 0, "function": message["function_call"]}])
        content = message.get("content")
        if content and not isinstance(content, str):
            content = _parts(content)
        if not content and isinstance(message.get("refusal"), str):
            content = message["refusal"]
            self._refused = self._refused or bool(content)
        return self._say(content) if content else ""

    def _take_usage(self, usage: object) -> None:
        if isinstance(usage, dict) and "usage" in usage:  # Groq wraps it
            usage = usage["usage"]
        if isinstance(usage, dict) and usage:
            self.raw_usage = usage


def _parts(content: object) -> str:
    """The text of a content given as a list of parts."""
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str))

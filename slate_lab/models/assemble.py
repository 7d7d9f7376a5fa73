"""A reply from the chunks of a chat completion, streamed or whole.

In: decoded chunks, in order. Out: the visible text of each chunk as it comes, and the `Reply` at the end. Pure but for
the clock that marks the first token. Called by the chat protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from slate_lab.models.border import plain_reply
from slate_lab.models.plain import Hide, as_is
from slate_lab.models.toolcalls import CallAssembler
from slate_lab.models.usage import chat_usage
from slate_lab.records import Reply, Usage

__all__ = ["ReplyAssembler"]

Finish = Literal["stop", "tool_calls", "length", "content_filter", "other"]

_FINISH: dict[str, Finish] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}


class ReplyAssembler:
    """Collects one reply.

    Attributes:
        finish: the provider's finish word, None until it came.
        raw_usage: its usage payload, None until it came; the last one wins, they are cumulative.
        response_id, model: what the answer says of itself.
    """

    def __init__(self, *, clock: Callable[[], int], hidden_reasoning: bool = False) -> None:
        self.finish: str | None = None
        self.raw_usage: dict[str, Any] | None = None
        self.response_id: str | None = None
        self.model: str | None = None
        self.first_ns: int | None = None
        self._clock = clock
        self._hidden_reasoning = hidden_reasoning
        self._pieces: list[str] = []
        self._calls = CallAssembler()
        self._refused = False

    def add(self, chunk: Mapping[str, Any]) -> str:
        """Take one chunk; its visible text."""
        if self.response_id is None:
            self._introduce(chunk)
        usage = chunk.get("usage")
        if usage or "x_groq" in chunk:
            self._take_usage(usage or chunk["x_groq"])
        choices = chunk.get("choices")
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
            self.first_ns = self._clock()
        return self._take(message, whole="message" in choice)

    @property
    def empty(self) -> bool:
        """Whether no choice has said anything, not even why it ended."""
        return self.first_ns is None and self.finish is None

    def usage(self) -> Usage:
        """What was reported until now."""
        return chat_usage(self.raw_usage, hidden_reasoning=self._hidden_reasoning)

    def build(self, *, recorded: bool = False, streamed: bool = True, hide: Hide = as_is) -> Reply:
        """The reply, made plain; call it once, at the end."""
        calls = self._calls.build(cut=self.finish == "length", hide=hide)
        reply = Reply(
            text="".join(self._pieces),
            calls=calls,
            finish=self._word(bool(calls)),
            usage=self.usage(),
            response_id=self.response_id,
            model=self.model,
            raw_usage=self.raw_usage,
            recorded=recorded,
            first_token_ns=self.first_ns if streamed else None,
        )
        return plain_reply(reply, hide=hide)

    def _word(self, calls: bool) -> Finish:
        if self._refused:
            return "content_filter"
        word = _FINISH.get(self.finish or "stop", "other")
        if calls:
            return "tool_calls" if word == "stop" else word
        return "other" if word == "tool_calls" else word

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
        if not content:
            return ""
        self._pieces.append(content)
        return content

    def _introduce(self, chunk: Mapping[str, Any]) -> None:
        for name, attribute in (("id", "response_id"), ("model", "model")):
            value = chunk.get(name)
            if isinstance(value, str) and value:
                setattr(self, attribute, value)

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

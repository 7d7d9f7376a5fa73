"""A reply in the making: what the readers of every protocol have in common.

In: decoded chunks of an answer, in order, each protocol in its own `add`. Out: the visible text of each chunk as it
comes, and the `Reply` at the end. Pure but for the clock that marks the first token. Called by `Answer`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

from slate_lab.models.border import plain_reply
from slate_lab.models.plain import Hide, as_is
from slate_lab.models.toolcalls import CallAssembler
from slate_lab.records import Carried, Reply, Usage

__all__ = ["Draft", "Finish"]

Finish = Literal["stop", "tool_calls", "length", "content_filter", "other"]


class Draft(ABC):
    """Collects one reply.

    Attributes:
        finish: the provider's finish word, None until it came.
        raw_usage: its usage payload, None until it came; payloads are cumulative, the last word wins.
        response_id, model: what the answer says of itself.
        first_ns: when the first content came, reasoning included.
        done: the protocol's own end came: nothing more need be read.
        refusal: an error that the answer told in the protocol's own way.
        ignored: events of kinds that are not known here, by name; they mean nothing.
    """

    words: ClassVar[Mapping[str, Finish]] = {}
    """What the provider's finish words mean; any other is `other`."""

    def __init__(self, *, clock: Callable[[], int]) -> None:
        self.finish: str | None = None
        self.raw_usage: dict[str, Any] | None = None
        self.response_id: str | None = None
        self.model: str | None = None
        self.first_ns: int | None = None
        self.done = False
        self.refusal: object = None
        self.ignored: dict[str, int] = {}
        self._clock = clock
        self._pieces: list[str] = []
        self._calls = CallAssembler()
        self._refused = False

    @abstractmethod
    def add(self, chunk: Mapping[str, Any]) -> str:
        """Take one chunk; its visible text."""

    @abstractmethod
    def usage(self) -> Usage:
        """What was reported until now."""

    @property
    def empty(self) -> bool:
        """Whether the answer has said nothing, not even why it ended."""
        return self.first_ns is None and self.finish is None

    def build(self, *, recorded: bool = False, streamed: bool = True, hide: Hide = as_is) -> Reply:
        """The reply, made plain; call it once, at the end."""
        word = self.words.get(self.finish or "stop", "other")
        calls = self._calls.build(cut=word == "length", hide=hide)
        reply = Reply(
            text=self._text(),
            calls=calls,
            finish=self._finish(word, bool(calls)),
            usage=self.usage(),
            response_id=self.response_id,
            model=self.model,
            raw_usage=self.raw_usage,
            recorded=recorded,
            first_token_ns=self.first_ns if streamed else None,
            carried=self._carried(),
            ignored=self.ignored,
        )
        return plain_reply(reply, hide=hide)

    def _text(self) -> str:
        return "".join(self._pieces)

    def _carried(self) -> Carried | None:
        """What must go back with the turn; None where the protocol has no such thing."""
        return None

    def _finish(self, word: Finish, calls: bool) -> Finish:
        if self._refused:
            return "content_filter"
        if calls:
            return "tool_calls" if word == "stop" else word
        return "other" if word == "tool_calls" else word

    def _mark(self) -> None:
        """Content came."""
        if self.first_ns is None:
            self.first_ns = self._clock()

    def _say(self, text: str) -> str:
        self._pieces.append(text)
        return text

    def _ignore(self, kind: object) -> None:
        name = kind if isinstance(kind, str) else "no type"
        if name in self.ignored or len(self.ignored) < 20:
            self.ignored[name] = self.ignored.get(name, 0) + 1

    def _introduce(self, chunk: Mapping[str, Any]) -> None:
        for name, attribute in (("id", "response_id"), ("model", "model")):
            value = chunk.get(name)
            if isinstance(value, str) and value:
                setattr(self, attribute, value)

"""The conversation of one worker, measured as it grows, and shortened when it nears the window.

In: messages. Out: the messages of the next request; `compact` asks a model for a summary of the older part. The
estimate is corrected by what the provider says it read. Called by the worker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from slate_lab import tokens
from slate_lab.config import WorkerSpec
from slate_lab.errors import LabError
from slate_lab.records import Message, Reply, Request, Usage
from slate_lab.weave.compact import compacted, plan_cut, size_of, summary_request

__all__ = ["History"]

LEAST_FREED = 0.1
"""A compaction that frees less than this share of the history has freed nothing."""

Told = Callable[[dict[str, int]], None]
"""Told what a compaction did: tokens before and after, messages taken out."""


class History:
    """Messages with their sizes.

    Args:
        brief: the messages that always stay.
        task: what was asked.
        schemas: tokens of the tools' schemas, which every request carries.
        room: tokens a prompt may take; None if the window is unknown.
        spec: when to compact, and to how much.
    """

    def __init__(
        self, brief: Sequence[Message], *, task: str, schemas: int, room: int | None, spec: WorkerSpec
    ) -> None:
        self.messages: list[Message] = []
        self._sizes: list[int] = []
        self._head, self._task = len(brief), task
        self._schemas, self.room, self._spec = schemas, room, spec.compaction
        self._factor = 1.0
        self.add(brief)

    def add(self, messages: Iterable[Message]) -> None:
        """Append messages."""
        for message in messages:
            self.messages.append(message)
            self._sizes.append(size_of(message, tokens.count) if self.room else 0)

    @property
    def tokens(self) -> int:
        """The whole prompt, estimated."""
        return int((sum(self._sizes) + self._schemas) * self._factor)

    def measured(self, usage: Usage) -> None:
        """What the provider read of the prompt as it stood before its reply was added."""
        plain = sum(self._sizes) + self._schemas
        if usage.input_tokens and plain:
            self._factor = min(4.0, max(1.0, usage.input_tokens / plain))

    @property
    def is_long(self) -> bool:
        """Whether it nears the window."""
        return self.room is not None and self.tokens > self.room * self._spec.at_percent / 100

    async def compact(self, ask: Callable[[Request], Awaitable[Reply]], told: Told) -> None:
        """Put a summary in the place of the older part.

        Raises:
            LabError: code `compaction_no_progress`, nothing can be taken out or too little was freed; or `ask`'s own.
        """
        room = self.room or self.tokens
        before = self.tokens
        cut = plan_cut(self.messages, self._sizes, head=self._head, room=int(room / self._factor))
        if cut is None:
            raise _no_progress(before, room, "there is nothing to take out but the brief")
        most = min(self._spec.max_output_tokens, max(64, room // 8))
        request = summary_request(
            self.messages, cut, task=self._task, room=int(room / self._factor), max_output=most, count=tokens.count
        )
        summary = (await ask(request)).text
        if not summary.strip():
            raise _no_progress(before, room, "the summary was empty")
        shorter = compacted(self.messages, cut, summary)
        self.messages, self._sizes = shorter, [size_of(m, tokens.count) for m in shorter]
        after = self.tokens
        told({"before_tokens": before, "after_tokens": after, "messages": cut.stop - cut.start})
        if after > before * (1 - LEAST_FREED) or self.is_long:
            raise _no_progress(before, room, f"its summary left {after}")


def _no_progress(before: int, room: int, why: str) -> LabError:
    text = f"the history of about {before} tokens does not fit {room}, and compacting it freed too little: {why}"
    return LabError(
        f"{text}; give smaller steps, fewer episodes or a model with a larger window", code="compaction_no_progress"
    )

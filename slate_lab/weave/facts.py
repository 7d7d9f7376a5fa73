"""Facts: what a worker found, kept as it happens.

A fact is a finalized non-blank text of the assistant or a completed tool result; deltas and messages that only call
tools are not. Each is written to the store before the worker goes on, so a killed kernel loses none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from slate_lab.records import Fact
from slate_lab.tokens import clean

__all__ = ["FACT_CHARS", "TOTAL_CHARS", "FactLog", "FactSink"]

FACT_CHARS = 8_000
"""Characters of one fact; of a longer one the newest part is kept."""
ARGUMENT_CHARS = 1_000
"""Characters of one argument of a tool call."""
TOTAL_CHARS = 300_000
"""Characters of all facts of a thread; beyond it the oldest are dropped."""


class FactSink(Protocol):
    """Where facts are kept (`store.facts`)."""

    def add(self, thread: str, fact: Fact) -> None:
        """Keep `fact`."""
        ...

    def drop(self, thread: str, up_to_n: int) -> None:
        """Drop the facts 1 to `up_to_n`."""
        ...


class FactLog:
    """The facts of one thread, in memory and in the store, within the caps.

    Attributes:
        facts: what is kept, oldest first.
        omitted: characters left out by the caps.

    Args:
        thread, sink, clock: whose facts they are, where they are kept, and when.
        fact_chars: characters of one fact.
        total_chars: characters of all.
    """

    def __init__(
        self,
        thread: str,
        sink: FactSink,
        clock: Callable[[], int],
        *,
        fact_chars: int = FACT_CHARS,
        total_chars: int = TOTAL_CHARS,
    ) -> None:
        self.fact_chars, self.total_chars = fact_chars, max(fact_chars, total_chars)
        self.facts: list[Fact] = []
        self.omitted = 0
        self._thread, self._sink, self._clock = thread, sink, clock
        self._n = self._chars = 0
        self._frozen = False

    def freeze(self) -> None:
        """Keep nothing from now on: the thread has settled."""
        self._frozen = True

    def text(self, text: str) -> None:
        """Keep a finalized text; a blank one is no fact."""
        if text.strip():
            self._add("text", text)

    def tool(self, name: str, arguments: dict[str, Any], result: str, *, ok: bool) -> None:
        """Keep a completed tool result; long arguments are cut, the whole ones are in no record."""
        short = {clean(key): _short(value) for key, value in arguments.items()}
        self._add("tool", result, tool=clean(name), arguments=short, ok=ok)

    def _add(self, kind: Any, text: str, **rest: Any) -> None:
        if self._frozen:
            return
        text = clean(text)
        cut = max(0, len(text) - self.fact_chars)
        self._n += 1
        fact = Fact(n=self._n, kind=kind, text=text[cut:], at_ns=self._clock(), omitted=cut, **rest)
        self._sink.add(self._thread, fact)
        self.facts.append(fact)
        self.omitted += cut
        self._chars += len(fact.text)
        if self._chars > self.total_chars:
            self._shed()

    def _shed(self) -> None:
        dropped = 0
        while self._chars > self.total_chars and dropped < len(self.facts) - 1:
            size = len(self.facts[dropped].text)
            self._chars -= size
            self.omitted += size
            dropped += 1
        self._sink.drop(self._thread, self.facts[dropped - 1].n)
        del self.facts[:dropped]


def _short(value: Any) -> Any:
    """An argument small enough to keep: short plain values as they are, others as the start of their text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = clean(value if isinstance(value, str) else str(value))
    return text if len(text) <= ARGUMENT_CHARS else f"{text[:ARGUMENT_CHARS]} (... {len(text)} characters)"

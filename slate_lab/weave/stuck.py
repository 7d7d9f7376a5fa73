"""Whether a worker goes round in circles: the same calls again and again, or turns that tell it nothing new.

In: what each turn asked and what came back. Out: the sentence that says how it is stuck, or None. No clock, no model;
called by the worker after each turn that ran tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from slate_lab.records import ToolCall

__all__ = ["Circles"]


class Circles:
    """Remembers the turns of one worker.

    Args:
        same_calls: the same calls with the same arguments so many times in a row.
        no_news: turns in a row in which neither a result nor a word of the worker was new.
    """

    def __init__(self, *, same_calls: int, no_news: int) -> None:
        self._most_same, self._most_old = same_calls, no_news
        self._last = ""
        self._same = self._old = 0
        self._known: set[bytes] = set()

    def asks(self, calls: Sequence[ToolCall]) -> str | None:
        """Before the calls of a turn are run."""
        shape = repr([(c.name, sorted(c.arguments.items(), key=str)) for c in calls])
        self._same = self._same + 1 if shape == self._last else 1
        self._last = shape
        if self._same < self._most_same:
            return None
        return f"the same call of {calls[0].name} was made {self._same} times in a row"

    def learns(self, texts: Sequence[str]) -> str | None:
        """After a turn: `texts` are its results and what the worker said."""
        news = {blake2b(text.strip().encode(), digest_size=16).digest() for text in texts if text.strip()} - self._known
        self._known |= news
        self._old = 0 if news else self._old + 1
        if self._old < self._most_old:
            return None
        return f"nothing new was learnt in {self._old} turns in a row"

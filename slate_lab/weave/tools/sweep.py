"""What one look through files may use, and what it left out: said in one closing line, never silently.

A tool opens a `Sweep`; `walk` and the reading of lines ask it before each step and tell it what they pass over.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

__all__ = ["LINE_S", "Sweep"]

LINE_S = 2.0
"""Seconds that a pattern may search in one line."""


class Sweep:
    """The allowance of one tool call.

    Args:
        check: raises when the worker was stopped; called at every step.
        max_bytes: how much file content may be searched.
        seconds: how long it may take.
        line_s: how long a pattern may search in one line; also how long a search that is stopped may still run.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        check: Callable[[], None],
        *,
        max_bytes: int,
        seconds: float,
        line_s: float = LINE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._check, self._clock = check, clock
        self._max_bytes, self._seconds = max_bytes, seconds
        self.line_s = line_s
        self._left = max_bytes
        self._end = clock() + seconds
        self._kinds: Counter[str] = Counter()
        self._remarks: dict[str, None] = {}
        self._reasons: dict[str, None] = {}
        self.cut = ""

    def go_on(self, size: int = 0) -> bool:
        """Whether to take the next step, which looks at `size` bytes; once False it stays so."""
        self._check()
        if self.cut:
            return False
        self._left -= size
        if self._left < 0:
            self.cut = f"stopped after {_size(self._max_bytes)}"
        elif self._clock() > self._end:
            self.cut = f"stopped after {self._seconds:g} s"
        return not self.cut

    def skip(self, kind: str, reason: str) -> None:
        """Count a `kind` ("file" or "folder") that was passed over."""
        self._kinds[kind] += 1
        self._reasons[reason] = None

    def remark(self, text: str) -> None:
        """Something else the reader of the result should know; said once."""
        self._remarks[text] = None

    @property
    def closing(self) -> str:
        """What was left out, as one line in brackets; "" if nothing was."""
        parts = []
        if self._kinds:
            kinds = ", ".join(f"{n} {kind}{'s' if n != 1 else ''}" for kind, n in sorted(self._kinds.items()))
            parts.append(f"{kinds} skipped: {', '.join(self._reasons)}")
        parts += self._remarks
        if self.cut:
            parts.append(f"{self.cut}, not everything was looked at: narrow the path")
        return f"({'; '.join(parts)})" if parts else ""


def _size(count: int) -> str:
    return f"{count / 1_000_000:g} MB" if count >= 100_000 else f"{count} bytes"

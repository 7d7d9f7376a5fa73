"""Limits of a block: `with limit(tokens=50_000, usd=0.10) as cap:` holds everything dispatched inside, together.

In: limits. Out: a `Cap` with what was used and what is left, also after the block. Blocks nest, and all of them hold.
The actions of a block are held to it until they settle, also when the block has ended before them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

from slate_lab.errors import DispatchError
from slate_lab.records import Limits
from slate_lab.weave.checks import limit_problems
from slate_lab.weave.intake import limits_from
from slate_lab.weave.meter import Meter

__all__ = ["Cap", "limit", "meters_here"]

_HERE: ContextVar[tuple[Meter, ...]] = ContextVar("slate_lab_limits", default=())


class Cap:
    """The limits of one block; made by `limit`."""

    def __init__(self, limits: Limits, clock: Callable[[], int]) -> None:
        self.limits = limits
        self._clock = clock
        self._meter: Meter | None = None
        self._token: Token[tuple[Meter, ...]] | None = None

    def __enter__(self) -> Cap:
        if self._meter is not None:
            raise DispatchError.of("limit_used", "a limit holds one block: make another with limit(...)")
        self._meter = Meter(self.limits, self._clock)  # seconds count from here
        self._token = _HERE.set((*_HERE.get(), self._meter))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._token is not None:
            _HERE.reset(self._token)
            self._token = None

    @property
    def usage(self) -> dict[str, float]:
        """What was used so far: `turns, tokens, tool_calls, seconds, usd`."""
        return {kind: used for kind, used, _ in self._meter.rows()} if self._meter else {}

    @property
    def remaining(self) -> dict[str, float]:
        """What is left of each limit that was set, never below 0."""
        rows = self._meter.rows() if self._meter else ()
        return {kind: max(0, most - used) for kind, used, most in rows if most is not None}

    @property
    def exceeded(self) -> str | None:
        """The first limit that is used up, if any."""
        return next((kind for kind, left in self.remaining.items() if left <= 0), None)

    def __repr__(self) -> str:
        left = ", ".join(f"{kind}={n:.6g}" for kind, n in self.remaining.items())
        return f"<Cap, left: {left or 'no limit'}>"


def limit(*, clock: Callable[[], int] = time.time_ns, **limits: Any) -> Cap:
    """Limits for everything that is dispatched inside a `with` block, together.

    Args:
        clock: nanoseconds.
        **limits: `turns, tokens, tool_calls, seconds, usd`; seconds count from the start of the block.

    Raises:
        DispatchError: there is no such limit, or it is not above 0.
    """
    found = limits_from(limits)
    if problems := limit_problems(found):
        raise DispatchError(problems)
    return Cap(found, clock)


def meters_here() -> tuple[Meter, ...]:
    """The meters of the blocks that the calling code is in, the outermost first."""
    return _HERE.get()

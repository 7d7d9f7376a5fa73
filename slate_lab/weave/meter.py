"""What an action has used against what it may use: checked before each call, and told to the model."""

from __future__ import annotations

from collections.abc import Callable

from slate_lab.errors import LimitExceeded
from slate_lab.records import Limits, Usage
from slate_lab.records.call import NANO

__all__ = ["Meter"]


class Meter:
    """Counters of one action.

    Args:
        limits: what it may use; None is no limit.
        clock: nanoseconds.
    """

    def __init__(self, limits: Limits, clock: Callable[[], int]) -> None:
        self.limits = limits
        self.turns = self.tool_calls = self.tokens = 0
        self.spent_nusd = 0
        self._clock, self._start = clock, clock()

    @property
    def elapsed_s(self) -> float:
        """Seconds since it started."""
        return (self._clock() - self._start) / NANO

    def spend(self, usage: Usage, cost_nusd: int | None) -> None:
        """Count one call; what is known of its cost still counts when another call's is unknown."""
        self.tokens += usage.tokens or 0
        self.spent_nusd += cost_nusd or 0

    def check(self) -> None:
        """Before a call of the model.

        Raises:
            LimitExceeded: the first limit that is used up.
        """
        for kind, used, limit in self._used():
            if limit is not None and used >= limit and kind != "tool_calls":  # it may still answer without tools
                raise LimitExceeded(kind, used=used, limit=limit)

    def check_tools(self, calls: int) -> None:
        """Before `calls` tools are run.

        Raises:
            LimitExceeded: they would be more than allowed.
        """
        limit = self.limits.tool_calls
        if limit is not None and self.tool_calls + calls > limit:
            raise LimitExceeded("tool_calls", used=self.tool_calls, limit=limit)

    @property
    def may_call_tools(self) -> bool:
        """Whether tools may be offered: not on the last turn, nor when no tool call is left."""
        turns, tool_calls = self.limits.turns, self.limits.tool_calls
        return (turns is None or self.turns + 1 < turns) and (tool_calls is None or self.tool_calls < tool_calls)

    def left(self) -> str:
        """What is left, in words for the model; empty without limits."""
        parts = [
            f"{max(0.0, limit - used):.4g} {'USD' if kind == 'usd' else kind.replace('_', ' ')}"
            for kind, used, limit in self._used()
            if limit is not None
        ]
        return f"You have left: {', '.join(parts)}." if parts else ""

    def _used(self) -> list[tuple[str, float, float | None]]:
        usd = self.limits.usd
        return [
            ("turns", self.turns, self.limits.turns),
            ("tokens", self.tokens, self.limits.tokens),
            ("tool_calls", self.tool_calls, None if self.limits.tool_calls is None else self.limits.tool_calls),
            ("seconds", self.elapsed_s, self.limits.seconds),
            ("usd", self.spent_nusd / NANO, None if usd is None else float(usd)),
        ]

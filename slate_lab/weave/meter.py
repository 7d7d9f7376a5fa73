"""What an action has used against what it may use: checked before each call, and told to the model.

A block (`with limit(tokens=...)`) is a meter too, shared by every action that was dispatched inside it: what an action
uses counts against its own limits and against those of its blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from slate_lab.errors import LimitExceeded
from slate_lab.records import Limits, Usage
from slate_lab.records.call import NANO

__all__ = ["Meter"]

Row = tuple[str, float, float | None]


class Meter:
    """Counters of one action, or of one block.

    Args:
        limits: what it may use; None is no limit.
        clock: nanoseconds.
        blocks: meters of the blocks it was dispatched in.
    """

    def __init__(self, limits: Limits, clock: Callable[[], int], *, blocks: Iterable[Meter] = ()) -> None:
        self.limits = limits
        self.turns = self.tool_calls = self.tokens = 0
        self.spent_nusd = 0
        self.blocks = tuple(blocks)
        self._clock, self._start = clock, clock()

    @property
    def elapsed_s(self) -> float:
        """Seconds since it started."""
        return (self._clock() - self._start) / NANO

    def spend(self, usage: Usage, cost_nusd: int | None) -> None:
        """Count one call; what is known of its cost still counts when another call's is unknown."""
        for meter in (self, *self.blocks):
            meter.tokens += usage.tokens or 0
            meter.spent_nusd += cost_nusd or 0

    def count_turn(self) -> None:
        """Count one reply of the worker's model."""
        for meter in (self, *self.blocks):
            meter.turns += 1

    def count_tools(self, calls: int) -> None:
        """Count tools that are run."""
        for meter in (self, *self.blocks):
            meter.tool_calls += calls

    def check(self) -> None:
        """Before a call of the model.

        Raises:
            LimitExceeded: the first limit that is used up.
        """
        for meter in (self, *self.blocks):
            for kind, used, limit in meter.rows():
                if limit is not None and used >= limit and kind != "tool_calls":  # it may still answer without tools
                    raise LimitExceeded(kind, used=used, limit=limit)

    def check_tools(self, calls: int) -> None:
        """Before `calls` tools are run.

        Raises:
            LimitExceeded: they would be more than allowed.
        """
        for meter in (self, *self.blocks):
            limit = meter.limits.tool_calls
            if limit is not None and meter.tool_calls + calls > limit:
                raise LimitExceeded("tool_calls", used=meter.tool_calls, limit=limit)

    @property
    def may_call_tools(self) -> bool:
        """Whether tools may be offered: not on the last turn, nor when no tool call is left."""
        return all(meter._has_tools() for meter in (self, *self.blocks))

    def _has_tools(self) -> bool:
        turns, tool_calls = self.limits.turns, self.limits.tool_calls
        return (turns is None or self.turns + 1 < turns) and (tool_calls is None or self.tool_calls < tool_calls)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the first limit of time; None without one."""
        ends = [m.limits.seconds - m.elapsed_s for m in (self, *self.blocks) if m.limits.seconds is not None]
        return max(0.0, min(ends)) if ends else None

    @property
    def out_of_time(self) -> LimitExceeded:
        """The error of the limit of time that ends first."""
        timed = [(m.limits.seconds - m.elapsed_s, m) for m in (self, *self.blocks) if m.limits.seconds is not None]
        meter = min(timed, key=lambda pair: pair[0])[1]
        return LimitExceeded("seconds", used=meter.elapsed_s, limit=meter.limits.seconds or 0)

    def left(self) -> str:
        """What is left, in words for the model; empty without limits."""
        least: dict[str, float] = {}
        for meter in (self, *self.blocks):
            for kind, used, limit in meter.rows():
                if limit is not None:
                    least[kind] = min(least.get(kind, limit), max(0.0, limit - used))
        parts = [f"{n:.4g} {'USD' if kind == 'usd' else kind.replace('_', ' ')}" for kind, n in least.items()]
        return f"You have left: {', '.join(parts)}." if parts else ""

    def rows(self) -> Iterator[Row]:
        """Kind, used and limit of each counter."""
        limits = self.limits
        yield "turns", self.turns, limits.turns
        yield "tokens", self.tokens, limits.tokens
        yield "tool_calls", self.tool_calls, limits.tool_calls
        yield "seconds", self.elapsed_s, limits.seconds
        yield "usd", self.spent_nusd / NANO, None if limits.usd is None else float(limits.usd)

"""Ticks of a time axis: readable steps, and how a moment is written. Pure; `layout` places them."""

from __future__ import annotations

import math

__all__ = ["clock", "elapsed", "tick_times"]

_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)


def tick_times(first_s: float, last_s: float, most: int) -> tuple[float, tuple[float, ...]]:
    """A readable step and its multiples from `first_s` to `last_s`, at most about `most` of them."""
    span = max(last_s - first_s, 1e-6)
    step = _step(span / max(1, most))
    start = math.ceil(first_s / step - 1e-9)
    return step, tuple(round(i * step, 9) for i in range(start, math.floor(last_s / step + 1e-9) + 1))


def _step(least: float) -> float:
    if least > _STEPS_S[-1]:
        return 86_400.0 * math.ceil(least / 86_400)
    if least > 0.5:
        return float(next(s for s in _STEPS_S if s >= least))
    power = 10.0 ** math.floor(math.log10(least))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= least * 0.999999)


def elapsed(seconds: float, step: float, last: float) -> str:
    """Time since the origin, in the one form that suits an axis which ends at `last` seconds."""
    if last < 180:
        return f"{seconds:.{max(0, -math.floor(math.log10(step)))}f} s" if step < 1 else f"{seconds:.0f} s"
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    if step >= 86_400:
        return f"{whole // 86_400} d"
    if last >= 3600:
        return f"{hours}:{minutes:02d} h" if step >= 60 else f"{hours}:{minutes:02d}:{rest:02d}"
    return f"{minutes}:{rest:02d} min"


def clock(seconds: float, step: float) -> str:
    """The time of day of `seconds` since midnight, UTC."""
    whole = math.floor(seconds) % 86_400
    text = f"{whole // 3600:02d}:{whole % 3600 // 60:02d}"
    return text if step >= 60 else f"{text}:{whole % 60:02d}"

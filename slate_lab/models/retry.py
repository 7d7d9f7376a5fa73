"""When to ask again, and after how long: pure decisions over one failed exchange.

In: the error of an exchange, the response headers, the retry rules, a random number. Out: seconds to wait, or the
error that ends the call. Called by the gate (`plan_retry`) and by the protocols (`retry_after_s`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from msgspec import Struct

from slate_lab.errors import ModelError, ModelErrorKind
from slate_lab.models.faults import is_transient

__all__ = ["Exhausted", "RetrySpec", "Stop", "Wait", "backoff_s", "plan_retry", "retry_after_s", "retryable_status"]

_NUMBER = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,9})?", re.ASCII)
_MOST_S = 1e9  # about 32 years; a longer wait is as good as this one, and its end has a date
_DATE = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? ", re.ASCII)


class Exhausted(ModelError):
    """The retries of a route are used up, or it asks for too long a wait: proved, so another may be asked."""


class RetrySpec(Struct, frozen=True, kw_only=True):
    """How a route is asked again.

    Attributes:
        max_retries: exchanges after the first.
        max_wait_s: the longest single wait; a provider that asks for more ends the call.
        base_s: the first back-off; it doubles each time, with jitter.
        max_concurrent: exchanges at once on this route, None for no cap.
    """

    max_retries: int = 3
    max_wait_s: float = 60.0
    base_s: float = 0.5
    max_concurrent: int | None = None


class Wait(Struct, frozen=True):
    """Ask again after `seconds`."""

    seconds: float


class Stop(Struct, frozen=True):
    """The call ends with `error`."""

    error: ModelError


def retryable_status(status: int) -> bool:
    """Whether an HTTP status is a passing fault: 408, 409, 429 and 5xx (529 is "overloaded")."""
    return status in (408, 409, 429) or 500 <= status <= 599


def retry_after_s(headers: Iterable[tuple[str, str]], *, now_ns: int) -> float | None:
    """Seconds a provider asks to wait, or None if it says nothing usable.

    `retry-after-ms` wins over `Retry-After`; the latter is seconds (decimals allowed) or an HTTP date, whose
    distance is rounded up to whole seconds; a past date is 0. Signs, exponents, hexadecimal and `nan` are not numbers.
    """
    found = {name.lower(): value.strip() for name, value in headers}
    ms = found.get("retry-after-ms", "")
    if _NUMBER.fullmatch(ms):
        return min(float(ms) / 1000, _MOST_S)
    value = found.get("retry-after", "")
    if _NUMBER.fullmatch(value):
        return min(float(value), _MOST_S)
    return _until(value, now_ns) if _DATE.match(value) else None


def _until(value: str, now_ns: int) -> float | None:
    try:
        at = parsedate_to_datetime(value)
    except (ValueError, OverflowError):  # also figures that no date can hold
        return None
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return min(float(max(0, math.ceil(at.timestamp() - now_ns / 1e9))), _MOST_S)


def backoff_s(attempt: int, *, spec: RetrySpec, random: float) -> float:
    """Seconds before the exchange after number `attempt`: doubling, half of it jitter (`random` in 0..1)."""
    full = min(spec.base_s * 2.0 ** min(attempt - 1, 30), spec.max_wait_s)
    return full * (0.5 + 0.5 * random)


def plan_retry(
    error: ModelError,
    *,
    attempt: int,
    delivered: bool,
    spec: RetrySpec,
    random: float,
    now_ns: int,
    left_s: float | None = None,
) -> Wait | Stop:
    """What follows a failed exchange.

    Args:
        error: what the exchange ended with.
        attempt: its number, from 1.
        delivered: the caller was already given part of the answer.
        spec: the rules of the route.
        random: a number in 0..1 for the jitter.
        now_ns: the time, to name the time to come back.
        left_s: seconds until the deadline of the request, None for none.
    """
    if not is_transient(error):
        return Stop(error)
    if delivered:
        return Stop(_final(error, "bad-reply", f"{error.message}; part of the answer was delivered: not asked again"))
    if attempt > spec.max_retries:
        tries = f"{attempt} attempts" if attempt > 1 else "1 attempt"
        return Stop(_final(error, _exhausted(error), f"{error.message} (after {tries})", proved=True))
    asked = error.retry_after_s
    wait = backoff_s(attempt, spec=spec, random=random) if asked is None else asked
    if wait > spec.max_wait_s:
        back = _clock(now_ns, wait)
        why = (
            f"{error.message}; it asks to wait {wait:g} s (maxWaitSeconds is {spec.max_wait_s:g}): come back at {back}"
        )
        return Stop(_final(error, "retry-exhausted", why, retry_after_s=wait, proved=True))
    if left_s is not None and wait >= left_s:
        why = f"{error.message}; the deadline ends in {left_s:.1f} s, the next attempt would start in {wait:.1f} s"
        return Stop(_final(error, _exhausted(error), why, retry_after_s=asked))
    return Wait(wait)


def _exhausted(error: ModelError) -> ModelErrorKind:
    return error.kind if error.kind in ("unreachable", "timeout") else "retry-exhausted"


def _final(
    error: ModelError,
    kind: ModelErrorKind,
    message: str,
    *,
    retry_after_s: float | None = None,
    proved: bool = False,
) -> ModelError:
    make = Exhausted if proved else ModelError
    final = make(kind, message, status=error.status, retry_after_s=retry_after_s or error.retry_after_s)
    final.__cause__ = error
    return final


def _clock(now_ns: int, wait_s: float) -> str:
    at = datetime.fromtimestamp(now_ns / 1e9 + wait_s, tz=UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")

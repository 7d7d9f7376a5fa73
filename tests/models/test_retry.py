"""When to ask again: the rules as tables."""

from __future__ import annotations

import pytest

from slate_lab.models.faults import Fault
from slate_lab.models.retry import RetrySpec, Stop, backoff_s, plan_retry, retry_after_s, retryable_status

NOW = 1_767_225_600_400_000_000  # 2026-01-01T00:00:00.400Z


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param([("Retry-After", "3")], 3, id="seconds"),
        pytest.param([("retry-after", "0.503")], 0.503, id="decimal-and-lower-case"),
        pytest.param([("RETRY-AFTER", " 7 ")], 7, id="spaces-and-upper-case"),
        pytest.param([("Retry-After", "Thu, 01 Jan 2026 00:00:05 GMT")], 5, id="date-is-rounded-up"),
        pytest.param([("Retry-After", "Thursday, 01-Jan-26 00:00:05 GMT")], 5, id="date-of-the-older-form"),
        pytest.param([("Retry-After", "Wed, 31 Dec 2025 23:59:00 GMT")], 0, id="past-date-is-zero"),
        pytest.param([("retry-after-ms", "1500")], 1.5, id="milliseconds"),
        pytest.param([("retry-after", "9"), ("retry-after-ms", "1500")], 1.5, id="milliseconds-win"),
        pytest.param([("retry-after", "9"), ("retry-after-ms", "soon")], 9, id="unusable-milliseconds"),
        pytest.param([("Retry-After", "0")], 0, id="zero"),
        pytest.param([("Retry-After", "-3")], None, id="negative"),
        pytest.param([("Retry-After", "1e3")], None, id="exponent"),
        pytest.param([("Retry-After", "0x10")], None, id="hexadecimal"),
        pytest.param([("Retry-After", "nan")], None, id="nan"),
        pytest.param([("Retry-After", "inf")], None, id="infinite"),
        pytest.param([("Retry-After", "٣")], None, id="other-digits"),
        pytest.param([("Retry-After", "1_0")], None, id="underscore"),
        pytest.param([("Retry-After", "9" * 400)], None, id="absurd"),
        pytest.param([("Retry-After", "9" * 12)], 1e9, id="longer-than-any-cap"),
        pytest.param([("retry-after-ms", "9" * 15)], 1e9, id="milliseconds-longer-than-any-cap"),
        pytest.param([("Retry-After", "Fri, 31 Dec 9999 23:59:59 -2300")], 1e9, id="date-behind-the-last-year"),
        pytest.param([("Retry-After", "Mon, 01 Jan 2026 00:00:00 +99999999999999")], None, id="zone-no-clock-holds"),
        pytest.param(
            [("Retry-After", "Mon, 01 Jan 99999999999999999999 00:00:00 GMT")], None, id="year-no-clock-holds"
        ),
        pytest.param([("Retry-After", "Thu, 99 Jan 2026 00:00:05 GMT")], None, id="no-such-date"),
        pytest.param([("Retry-After", "")], None, id="empty"),
        pytest.param([], None, id="absent-is-not-zero"),
    ],
)
def test_retry_after(headers: list[tuple[str, str]], seconds: float | None) -> None:
    """Seconds to wait, None where nothing usable is said."""
    assert retry_after_s(headers, now_ns=NOW) == seconds


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_passing_statuses(status: int) -> None:
    """These may pass if asked again."""
    assert retryable_status(status)


@pytest.mark.parametrize("status", [200, 301, 400, 401, 402, 403, 404, 413, 422, 600])
def test_lasting_statuses(status: int) -> None:
    """These do not."""
    assert not retryable_status(status)


def test_backoff_doubles_with_jitter_and_is_capped() -> None:
    """Half to all of 0.5, 1, 2, ... seconds, never over the longest wait."""
    spec = RetrySpec(max_wait_s=10)
    assert [backoff_s(n, spec=spec, random=1.0) for n in (1, 2, 3, 9, 5000)] == [0.5, 1, 2, 10, 10]
    assert backoff_s(2, spec=spec, random=0.0) == 0.5


def test_the_longest_wait_has_an_end_that_can_be_named() -> None:
    """Whatever a provider asks for, the call stops with the time to come back."""
    wait = retry_after_s([("Retry-After", "Fri, 31 Dec 9999 23:59:59 -2300")], now_ns=NOW)
    fault = Fault("retry-exhausted", "busy", transient=True, retry_after_s=wait)
    plan = plan_retry(fault, attempt=1, delivered=False, spec=RetrySpec(), random=0.5, now_ns=NOW)
    assert isinstance(plan, Stop)
    assert "come back at 2057-" in plan.error.message

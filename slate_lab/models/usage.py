"""A provider's usage payload as disjoint buckets of tokens, one adapter for each protocol.

In: the payload as the provider sent it. Out: `Usage`, where no token is in two buckets. What is not reported stays
None; parts that contradict each other are clamped, never negative, and `flagged`; a number that cannot be a count of
tokens is left out and `flagged`. Called by the protocols, and where answers enter (`border.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from slate_lab.records import Usage

__all__ = ["MOST", "chat_usage", "messages_usage", "plain_count", "plain_usage", "responses_usage"]

MOST = 10**9
"""Tokens of one answer that are believed; sums of millions of answers and their cost then fit 64 bits."""

_BUCKETS = tuple(name for name in Usage.__struct_fields__ if name != "flagged")


def chat_usage(raw: Mapping[str, Any] | None, *, hidden_reasoning: bool = False) -> Usage:
    """The usage of a chat completion.

    Cached and cache-writing tokens are inside `prompt_tokens`, reasoning is inside `completion_tokens`; except where
    the reported total shows that reasoning was added on top (xAI), or, with `hidden_reasoning`, that the total holds
    reasoning which no field names (Gemini's compatible endpoint).

    Args:
        raw: the payload, None if there was none.
        hidden_reasoning: tokens of the total beyond prompt and completion are reasoning.
    """
    if not raw:
        return Usage()
    read = _Reader(raw)
    return _inclusive(
        read,
        prompt=read("prompt_tokens"),
        completion=read("completion_tokens"),
        cached=read("prompt_tokens_details.cached_tokens", "cached_tokens", "prompt_cache_hit_tokens"),
        written=read(
            "prompt_tokens_details.cache_creation_tokens",
            "prompt_tokens_details.cache_write_tokens",
            "cache_creation_input_tokens",
        ),
        reasoning=read("completion_tokens_details.reasoning_tokens", "reasoning_tokens"),
        hidden_reasoning=hidden_reasoning,
    )


def responses_usage(raw: Mapping[str, Any] | None) -> Usage:
    """The usage of a response: as in chat, cached input is inside the input and reasoning inside the output."""
    if not raw:
        return Usage()
    read = _Reader(raw)
    return _inclusive(
        read,
        prompt=read("input_tokens"),
        completion=read("output_tokens"),
        cached=read("input_tokens_details.cached_tokens"),
        written=read("input_tokens_details.cache_write_tokens", "input_tokens_details.cache_creation_tokens"),
        reasoning=read("output_tokens_details.reasoning_tokens"),
    )


def messages_usage(raw: Mapping[str, Any] | None) -> Usage:
    """The usage of a message: input read from a cache and written into one stands beside `input_tokens`, not inside.

    Written tokens that no lifetime is given for live five minutes, which is the provider's default. Thinking is inside
    `output_tokens`, and mostly not told apart.
    """
    if not raw:
        return Usage()
    read = _Reader(raw)
    written = read("cache_creation_input_tokens")
    short, long = (read(f"cache_creation.ephemeral_{life}_input_tokens") for life in ("5m", "1h"))
    if written is None and (short is not None or long is not None):
        written = (short or 0) + (long or 0)
    rest, long, short, clamped_in = _inside(written, long, short)
    short = (short or 0) + rest if rest is not None else short
    differs = clamped_in or bool(rest and (long is not None))
    output, reasoning, _, clamped_out = _inside(
        read("output_tokens"), read("output_tokens_details.thinking_tokens"), None
    )
    made = Usage(
        input_fresh=read("input_tokens"),
        cache_read=read("cache_read_input_tokens"),
        cache_write_5m=short,
        cache_write_1h=long,
        output=output,
        reasoning=reasoning,
        total_reported=read("total_tokens"),
    )
    wrong = made.total_reported is not None and made.total_reported != made.tokens
    return msgspec.structs.replace(made, flagged=read.flagged or differs or clamped_out or wrong)


def _inclusive(
    read: _Reader,
    *,
    prompt: int | None,
    completion: int | None,
    cached: int | None,
    written: int | None,
    reasoning: int | None,
    hidden_reasoning: bool = False,
) -> Usage:
    """The buckets where parts are reported inside their wholes, checked against the reported total."""
    total = read("total_tokens")
    beyond = None if prompt is None or completion is None or total is None else total - prompt - completion
    if reasoning is None and hidden_reasoning and beyond is not None and beyond > 0:
        reasoning = beyond
    if completion is not None and reasoning and beyond == reasoning:  # reported on top of the completion
        completion, beyond = completion + reasoning, 0
    fresh, cached, written, clamped_in = _inside(prompt, cached, written)
    output, reasoning, _, clamped_out = _inside(completion, reasoning, None)
    return Usage(
        input_fresh=fresh,
        cache_read=cached,
        cache_write_5m=written,
        output=output,
        reasoning=reasoning,
        total_reported=total,
        flagged=read.flagged or clamped_in or clamped_out or bool(beyond),
    )


def plain_count(value: object, *, most: int = MOST) -> int | None:
    """`value` if it is a count: a whole number from 0 to `most` and no bool; else None."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        return None
    return int(value)


def plain_usage(usage: object) -> Usage:
    """The usage that a model gave, without what cannot be a count of tokens; `flagged` if there was any."""
    if not isinstance(usage, Usage):
        return Usage(flagged=True)
    told = {name: getattr(usage, name) for name in _BUCKETS}
    if all(value is None or (type(value) is int and 0 <= value <= MOST) for value in told.values()):
        return usage
    counts = {name: plain_count(value) for name, value in told.items()}
    flagged = any(counts[name] is None and value is not None for name, value in told.items())
    return Usage(**counts, flagged=flagged or bool(usage.flagged))


def _inside(
    whole: int | None, first: int | None, second: int | None
) -> tuple[int | None, int | None, int | None, bool]:
    """What is left of `whole` without its two parts, the parts, and whether they had to be clamped to fit."""
    if whole is None:
        return None, first, second, False
    fit_first = None if first is None else min(first, whole)
    fit_second = None if second is None else min(second, whole - (fit_first or 0))
    rest = whole - (fit_first or 0) - (fit_second or 0)
    return rest, fit_first, fit_second, (fit_first, fit_second) != (first, second)


class _Reader:
    """Reads counts by dotted path; the first path that holds one wins. Anything but a count is ignored and flagged."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._raw = raw
        self.flagged = False

    def __call__(self, *paths: str) -> int | None:
        for path in paths:
            value: Any = self._raw
            for part in path.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
            if value is None:
                continue
            count = plain_count(value)
            if count is not None:
                return count
            self.flagged = True
        return None

"""Spend: tokens in disjoint buckets, exact money, one row per request and per HTTP attempt, and events."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

from msgspec import Struct

CallKind = Literal["worker", "compressor", "compaction"]
NANO = 1_000_000_000


def usd(nano: int | None) -> Decimal | None:
    """Nano-dollars as exact dollars; None stays None (unknown is not 0)."""
    return None if nano is None else Decimal(nano).scaleb(-9)


def _add(a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    return a if b is None else a + b


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one or more answers in **disjoint** buckets; None where nobody reported them.

    Attributes:
        input_fresh: input read without a cache.
        cache_read: input read from a cache.
        cache_write_5m, cache_write_1h: input written into a cache, by its lifetime.
        output: visible output (text and tool calls), reasoning excluded.
        reasoning: hidden output, billed as output.
        total_reported: the provider's own total, for the identity check.
        flagged: the reported parts contradicted each other and were clamped.
    """

    input_fresh: int | None = None
    cache_read: int | None = None
    cache_write_5m: int | None = None
    cache_write_1h: int | None = None
    output: int | None = None
    reasoning: int | None = None
    total_reported: int | None = None
    flagged: bool = False

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_fresh=_add(self.input_fresh, other.input_fresh),
            cache_read=_add(self.cache_read, other.cache_read),
            cache_write_5m=_add(self.cache_write_5m, other.cache_write_5m),
            cache_write_1h=_add(self.cache_write_1h, other.cache_write_1h),
            output=_add(self.output, other.output),
            reasoning=_add(self.reasoning, other.reasoning),
            total_reported=_add(self.total_reported, other.total_reported),
            flagged=self.flagged or other.flagged,
        )

    @property
    def input_tokens(self) -> int | None:
        """All input, cached or not."""
        return _add(_add(self.input_fresh, self.cache_read), _add(self.cache_write_5m, self.cache_write_1h))

    @property
    def output_tokens(self) -> int | None:
        """All output that is billed: visible and reasoning."""
        return _add(self.output, self.reasoning)

    @property
    def tokens(self) -> int | None:
        """Input and output together."""
        return _add(self.input_tokens, self.output_tokens)


class Cost(Struct, frozen=True, kw_only=True):
    """What an attempt cost, exactly.

    Attributes:
        nusd: nano-dollars (1e-9 USD); None where the price or the usage is unknown, never 0 for unknown.
        price: where the price came from: `genai-prices <date>`, `config`, `local` (runs here), `scripted`, `replay`,
            `no answer` (refused or unreachable), `counted once` (the same answer again),
            with `, estimated tokens` where nobody reported any; None if unknown.
    """

    nusd: int | None = None
    price: str | None = None


class Attempt(Struct, frozen=True, kw_only=True):
    """One HTTP exchange (or one scripted answer) of a call.

    Attributes:
        n: 1, 2, ... within the call.
        outcome: `ok`, `transient` (asking again may help), the kind of the error that ended it, or `cancelled`.
        status: the HTTP status, if one arrived.
        waited_s: seconds slept before it, for any reason.
        paced_s: the part of them that was the lab's own pacing (`requestThrottle`, places on the route); the rest is
            back-off before asking again.
        first_token_ns: when the first content arrived.
        recorded: True if the answer came from a recording; `cost` is then 0 and `recorded_cost` what it was.
    """

    n: int
    outcome: str
    started_ns: int
    ended_ns: int
    status: int | None = None
    waited_s: float = 0.0
    paced_s: float = 0.0
    first_token_ns: int | None = None
    usage: Usage = Usage()
    cost: Cost = Cost()
    recorded: bool = False
    recorded_cost: Cost | None = None
    response_id: str | None = None
    raw_usage: dict[str, Any] | None = None
    error: str | None = None


class Call(Struct, frozen=True, kw_only=True):
    """One request to a model with all its attempts.

    Attributes:
        id: set by the store when it is written (0 before).
        thread: the thread it was made for.
        kind: `worker`, `compressor` or `compaction`.
        logical: the logical model, e.g. `local`.
        provider, model: the exact route that ran.
        outcome: `ok`, the kind of the error, or `cancelled`.
        finish: the reply's finish word, if there was one.
        hop: 0 for the route that was asked first, 1, 2, ... for the routes that recovery went on to.
        cause: why it was asked instead of the route before it; None for the first.
    """

    id: int = 0
    thread: str
    kind: CallKind
    logical: str
    provider: str
    model: str
    started_ns: int
    ended_ns: int
    outcome: str
    finish: str | None = None
    usage: Usage = Usage()
    cost: Cost = Cost()
    attempts: tuple[Attempt, ...] = ()
    error: str | None = None
    hop: int = 0
    cause: str | None = None


class Hop(Struct, frozen=True, kw_only=True):
    """One step of recovery: a route was exhausted, and the same request went on to another.

    Attributes:
        at_ns: when.
        kind: whose request it was: `worker`, `compressor` or `compaction`.
        n: 1, 2, ... within the request.
        from_logical, from_route: what was exhausted.
        to_logical, to_route: what is asked instead.
        effort: the effort of the new route, None where it has none.
        cause: the error that proved the exhaustion.
    """

    at_ns: int
    kind: CallKind
    n: int
    from_logical: str
    from_route: str
    to_logical: str
    to_route: str
    effort: str | None = None
    cause: str = ""


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened: `thread` may be empty for events of the whole lab; `data` is JSON."""

    id: int = 0
    at_ns: int
    kind: str
    thread: str | None = None
    data: dict[str, Any] = {}

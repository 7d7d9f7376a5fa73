"""Cost audit: what providers report, in disjoint buckets, and what it costs; expected by hand and computed, equal.

The expected dollars were worked out by hand from the prices in the row, which are dollars per million tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any

from slate_lab.models.once import add_once
from slate_lab.models.prices import PriceBook, Rates, Seller
from slate_lab.models.usage import chat_usage, messages_usage, responses_usage
from slate_lab.records import Attempt, Route, Usage, usd

ADAPTERS: Mapping[str, Callable[[Any], Usage]] = {
    "chat": chat_usage,
    "gemini": partial(chat_usage, hidden_reasoning=True),
    "responses": responses_usage,
    "messages": messages_usage,
}
ROUTE = Route("shop", "m")


@dataclass(frozen=True)
class Row:
    """One report: the payload, the prices (None: not known), the buckets and the dollars it should come to."""

    id: str
    protocol: str
    usage: dict[str, Any] | None
    expect: Usage
    usd: str | None
    price: dict[str, str] | None = None
    ids: tuple[str, ...] = field(default=("r1",))

    def computed(self) -> tuple[Usage, Decimal | None]:
        """Buckets and dollars as the lab makes them, of all answers with these response ids."""
        usage = ADAPTERS[self.protocol](self.usage)
        rates = {} if self.price is None else {"m": Rates(**{k: Decimal(v) for k, v in self.price.items()})}
        cost = PriceBook({"shop": Seller(base_url="http://10.0.0.7/v1", rates=rates)}).cost(ROUTE, usage, at_ns=0)
        trail: list[Attempt] = []
        for n, response_id in enumerate(self.ids):
            row = Attempt(n=n, outcome="ok", started_ns=0, ended_ns=0, usage=usage, cost=cost, response_id=response_id)
            add_once(trail, row)
        costs = [a.cost.nusd for a in trail]
        total = Usage()
        for attempt in trail:
            total = total + attempt.usage
        return total, None if None in costs else usd(sum(c for c in costs if c is not None))


SONNET = {"input": "3", "cache_read": "0.3", "cache_write_5m": "3.75", "cache_write_1h": "6", "output": "15"}
ROWS = (
    Row(
        "openai-cached-inclusive",
        "chat",
        {
            "prompt_tokens": 20212,
            "completion_tokens": 931,
            "total_tokens": 21143,
            "prompt_tokens_details": {"cached_tokens": 16298},
        },
        Usage(input_fresh=3914, cache_read=16298, output=931, total_reported=21143),
        "0.0041684",
        {"input": "0.50", "cache_read": "0.05", "output": "1.50"},
    ),
    Row(
        "chat-cache-creation-inside-prompt",
        "chat",
        {
            "prompt_tokens": 2000,
            "completion_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 500, "cache_creation_tokens": 300},
        },
        Usage(input_fresh=1200, cache_read=500, cache_write_5m=300, output=10),
        "0.001645",
        {"input": "1", "cache_read": "0.1", "cache_write_5m": "1.25", "output": "2"},
    ),
    Row(
        "openai-reasoning-inside-output",
        "responses",
        {
            "input_tokens": 100,
            "output_tokens": 1970,
            "output_tokens_details": {"reasoning_tokens": 956},
            "total_tokens": 2070,
        },
        Usage(input_fresh=100, output=1014, reasoning=956, total_reported=2070),
        "0.01596",
        {"input": "2", "output": "8"},
    ),
    Row(
        "anthropic-exclusive",
        "messages",
        {"input_tokens": 9, "cache_read_input_tokens": 17102, "cache_creation_input_tokens": 0, "output_tokens": 57},
        Usage(input_fresh=9, cache_read=17102, cache_write_5m=0, output=57),
        "0.0060126",
        SONNET,
    ),
    Row(
        "anthropic-written-by-lifetime",
        "messages",
        {
            "input_tokens": 10,
            "cache_creation_input_tokens": 3000,
            "cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 2000},
            "output_tokens": 20,
        },
        Usage(input_fresh=10, cache_write_5m=1000, cache_write_1h=2000, output=20),
        "0.01608",
        SONNET,
    ),
    Row(
        "gemini-thoughts-outside-candidates",
        "gemini",
        {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40},
        Usage(input_fresh=10, output=5, reasoning=25, total_reported=40),
        "0.000095",
        {"input": "0.5", "output": "3"},
    ),
    Row(
        "reasoning-larger-than-completion",
        "chat",
        {"prompt_tokens": 50, "completion_tokens": 102, "completion_tokens_details": {"reasoning_tokens": 109}},
        Usage(input_fresh=50, output=0, reasoning=102, flagged=True),
        "0.000458",
        {"input": "1", "output": "4"},
    ),
    Row("usage-missing", "chat", None, Usage(), None, {"input": "1", "output": "4"}),
    Row(
        "duplicate-response-id",
        "messages",
        {"input_tokens": 9, "output_tokens": 57},
        Usage(input_fresh=9, output=57),
        "0.000882",
        SONNET,
        ("r1", "r1"),
    ),
    Row(
        "two-response-ids",
        "messages",
        {"input_tokens": 9, "output_tokens": 57},
        Usage(input_fresh=18, output=114),
        "0.001764",
        SONNET,
        ("r1", "r2"),
    ),
    Row(
        "unknown-price",
        "chat",
        {"prompt_tokens": 9, "completion_tokens": 57},
        Usage(input_fresh=9, output=57),
        None,
    ),
)


def rows() -> Iterator[str]:
    """The table, in cents."""
    yield f"{'report':36} {'expected ct':>12} {'computed ct':>12}  equal  fresh/read/5m/1h/output/reasoning"
    for row in ROWS:
        usage, cost = row.computed()
        expected = None if row.usd is None else Decimal(row.usd)
        same = usage == row.expect and cost == expected
        parts = (usage.input_fresh, usage.cache_read, usage.cache_write_5m, usage.cache_write_1h)
        told = "/".join("-" if n is None else str(n) for n in (*parts, usage.output, usage.reasoning))
        flag = "  flagged" if usage.flagged else ""
        yield f"{row.id:36} {_cents(expected):>12} {_cents(cost):>12}  {'yes' if same else 'NO':5}  {told}{flag}"


def _cents(dollars: Decimal | None) -> str:
    return "unknown" if dollars is None else f"{(dollars * 100).normalize():f}"

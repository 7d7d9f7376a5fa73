"""Usage in disjoint buckets, and what it costs, exactly."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slate_lab.config import LabConfig
from slate_lab.models.prices import PriceBook, Rates, Seller
from slate_lab.models.usage import chat_usage, messages_usage, responses_usage
from slate_lab.records import Route, Usage, usd

NOW = 1_767_225_600_000_000_000  # 2026-01-01


def reported(prompt: Any, completion: Any, total: Any = None, *, details: dict | None = None, **out: Any) -> dict:
    """A usage payload of a chat completion."""
    raw: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion}
    if total is not None:
        raw["total_tokens"] = total
    if details is not None:
        raw["prompt_tokens_details"] = details
    if out:
        raw["completion_tokens_details"] = out
    return raw


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        pytest.param(
            reported(20212, 931, 21143, details={"cached_tokens": 16298}),
            Usage(input_fresh=3914, cache_read=16298, output=931, total_reported=21143),
            id="cached-is-inside-the-prompt",
        ),
        pytest.param(
            reported(2000, 10, details={"cached_tokens": 500, "cache_creation_tokens": 300}),
            Usage(input_fresh=1200, cache_read=500, cache_write_5m=300, output=10),
            id="written-is-inside-the-prompt",
        ),
        pytest.param(
            reported(100, 1970, 2070, reasoning_tokens=956),
            Usage(input_fresh=100, output=1014, reasoning=956, total_reported=2070),
            id="reasoning-is-inside-the-completion",
        ),
        pytest.param(
            reported(10, 9, 30, reasoning_tokens=11),
            Usage(input_fresh=10, output=9, reasoning=11, total_reported=30),
            id="the-total-shows-reasoning-on-top",
        ),
        pytest.param(
            reported(50, 102, reasoning_tokens=109),
            Usage(input_fresh=50, output=0, reasoning=102, flagged=True),
            id="more-reasoning-than-completion",
        ),
        pytest.param(
            reported(50, 1, details={"cached_tokens": 60, "cache_creation_tokens": 5}),
            Usage(input_fresh=0, cache_read=50, cache_write_5m=0, output=1, flagged=True),
            id="more-cached-than-prompt",
        ),
        pytest.param(
            reported(10, 5, 99),
            Usage(input_fresh=10, output=5, total_reported=99, flagged=True),
            id="the-total-does-not-add-up",
        ),
        pytest.param(reported(-1, True), Usage(flagged=True), id="no-counts"),
        pytest.param(reported("7", 5.0), Usage(output=5, flagged=True), id="text-and-float"),
        pytest.param(reported(7, None), Usage(input_fresh=7), id="half"),
        pytest.param({"prompt_tokens": 7, "prompt_tokens_details": None}, Usage(input_fresh=7), id="null-details"),
        pytest.param(
            {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 4},
            Usage(input_fresh=5, cache_read=4, output=1),
            id="cache-hits-by-another-name",
        ),
        pytest.param(reported(10**30, 2**63), Usage(flagged=True), id="more-than-any-model-reads"),
        pytest.param(reported(10**9, 10**9 + 1), Usage(input_fresh=10**9, flagged=True), id="the-most-believed"),
        pytest.param(reported(1e30, 2.5), Usage(flagged=True), id="large-and-broken-floats"),
        pytest.param(reported(float("nan"), float("inf"), float("-inf")), Usage(flagged=True), id="not-finite"),
        pytest.param(reported(5, 5, 10**30), Usage(input_fresh=5, output=5, flagged=True), id="absurd-total"),
        pytest.param(
            reported(5, 5, details={"cached_tokens": 10**30}, reasoning_tokens=[1]),
            Usage(input_fresh=5, output=5, flagged=True),
            id="absurd-parts",
        ),
        pytest.param(None, Usage(), id="missing"),
        pytest.param({}, Usage(), id="empty"),
    ],
)
def test_chat_usage(raw: dict | None, usage: Usage) -> None:
    """No token is in two buckets, nothing is negative, what is not reported is None, contradictions are flagged."""
    assert chat_usage(raw) == usage


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        pytest.param(
            {
                "input_tokens": 100,
                "output_tokens": 1970,
                "output_tokens_details": {"reasoning_tokens": 956},
                "total_tokens": 2070,
            },
            Usage(input_fresh=100, output=1014, reasoning=956, total_reported=2070),
            id="reasoning-is-inside-the-output",
        ),
        pytest.param(
            {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60}, "output_tokens": 5},
            Usage(input_fresh=40, cache_read=60, output=5),
            id="cached-is-inside-the-input",
        ),
        pytest.param(
            {"input_tokens": 10, "output_tokens": 5, "total_tokens": 99},
            Usage(input_fresh=10, output=5, total_reported=99, flagged=True),
            id="the-total-does-not-add-up",
        ),
        pytest.param(
            {"input_tokens": 5, "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 9}},
            Usage(input_fresh=5, output=0, reasoning=2, flagged=True),
            id="more-reasoning-than-output",
        ),
        pytest.param(None, Usage(), id="missing"),
    ],
)
def test_responses_usage(raw: dict | None, usage: Usage) -> None:
    """Parts are inside their wholes, as over chat."""
    assert responses_usage(raw) == usage


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        pytest.param(
            {
                "input_tokens": 9,
                "cache_read_input_tokens": 17102,
                "cache_creation_input_tokens": 0,
                "output_tokens": 57,
            },
            Usage(input_fresh=9, cache_read=17102, cache_write_5m=0, output=57),
            id="cached-is-outside-the-input",
        ),
        pytest.param(
            {
                "input_tokens": 1,
                "cache_creation_input_tokens": 30,
                "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
                "output_tokens": 2,
            },
            Usage(input_fresh=1, cache_write_5m=10, cache_write_1h=20, output=2),
            id="written-by-lifetime",
        ),
        pytest.param(
            {"input_tokens": 1, "cache_creation": {"ephemeral_1h_input_tokens": 20}, "output_tokens": 2},
            Usage(input_fresh=1, cache_write_5m=0, cache_write_1h=20, output=2),
            id="only-the-lifetimes",
        ),
        pytest.param(
            {
                "input_tokens": 1,
                "cache_creation_input_tokens": 30,
                "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 50},
                "output_tokens": 2,
            },
            Usage(input_fresh=1, cache_write_5m=0, cache_write_1h=30, output=2, flagged=True),
            id="lifetimes-beyond-the-whole",
        ),
        pytest.param(
            {"input_tokens": 7, "output_tokens": 5, "output_tokens_details": {"thinking_tokens": 3}},
            Usage(input_fresh=7, output=2, reasoning=3),
            id="thinking-told-apart",
        ),
        pytest.param(
            {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12},
            Usage(input_fresh=7, output=5, total_reported=12),
            id="a-total-that-adds-up",
        ),
        pytest.param(
            {"input_tokens": 7, "cache_read_input_tokens": 5, "output_tokens": 5, "total_tokens": 12},
            Usage(input_fresh=7, cache_read=5, output=5, total_reported=12, flagged=True),
            id="a-total-that-does-not",
        ),
        pytest.param({"input_tokens": -7, "output_tokens": "5"}, Usage(flagged=True), id="no-counts"),
        pytest.param(None, Usage(), id="missing"),
    ],
)
def test_messages_usage(raw: dict | None, usage: Usage) -> None:
    """What was read from a cache and written into one stands beside the input."""
    assert messages_usage(raw) == usage


def test_reasoning_that_no_field_names() -> None:
    """Where the dialect says so, tokens of the total beyond prompt and completion are reasoning."""
    raw = reported(10, 5, 40)
    assert chat_usage(raw, hidden_reasoning=True) == Usage(input_fresh=10, output=5, reasoning=25, total_reported=40)


@settings(deadline=None)
@given(*[st.none() | st.integers(-5, 5000)] * 6)
def test_buckets_never_lie(p: int, c: int, total: int, cached: int, written: int, thought: int) -> None:
    """Whatever is reported, buckets are None or not negative, and add up to prompt and completion."""
    raw = reported(
        p, c, total, details={"cached_tokens": cached, "cache_creation_tokens": written}, reasoning_tokens=thought
    )
    usage = chat_usage(raw)
    parts = (usage.input_fresh, usage.cache_read, usage.cache_write_5m, usage.output, usage.reasoning)
    assert all(part is None or part >= 0 for part in parts)
    if p is not None and p >= 0:
        assert usage.input_tokens == p
    if c is not None and c >= 0 and not (thought and thought > 0):
        assert usage.output_tokens == c


def test_cost_is_exact() -> None:
    """Cached input at its own rate, in Decimal from the price to the nano-dollar."""
    rates = Rates(input=Decimal("0.50"), cache_read=Decimal("0.05"), output=Decimal("1.50"))
    book = PriceBook({"shop": Seller(rates={"m": rates})})
    cost = book.cost(Route("shop", "m"), Usage(input_fresh=3914, cache_read=16298, output=931), at_ns=NOW)
    assert usd(cost.nusd) == Decimal("0.004168400")
    assert cost.price == "config"


def test_reasoning_is_billed_as_output_and_writes_at_their_rates() -> None:
    """Each bucket has its rate; a cache rate that is not given is the input rate."""
    usage = Usage(input_fresh=1, cache_read=1, cache_write_5m=1, cache_write_1h=1, output=1, reasoning=1)
    own = Rates(
        input=Decimal(1),
        output=Decimal(10),
        cache_read=Decimal(2),
        cache_write_5m=Decimal(3),
        cache_write_1h=Decimal(4),
    )
    assert own.nusd(usage) == (1 + 2 + 3 + 4 + 10 + 10) * 1000
    assert Rates(input=Decimal(1), output=Decimal(10)).nusd(usage) == (4 + 20) * 1000
    assert Rates(input=Decimal("0.0005"), output=Decimal(0)).nusd(Usage(input_fresh=1, output=0)) == 0
    assert Rates(input=Decimal("0.0015"), output=Decimal(0)).nusd(Usage(input_fresh=1, output=0)) == 2


def test_listed_prices_come_from_the_package_with_its_version() -> None:
    """A known model has a price offline; the cost names the data it came from."""
    book = PriceBook({"openai": Seller(base_url="https://api.openai.com/v1")})
    usage = Usage(input_fresh=1_000_000, cache_read=1_000_000, output=500_000, reasoning=500_000)
    cost = book.cost(Route("openai", "gpt-4o-mini"), usage, at_ns=NOW)
    assert usd(cost.nusd) == Decimal("0.825")  # 0.15 + 0.075 + 0.60
    assert cost.price is not None
    assert cost.price.startswith("genai-prices ")
    assert "$0.15 in, $0.6 out /M" in book.describe(Route("openai", "gpt-4o-mini"), at_ns=NOW)


def test_cache_writes_have_listed_prices() -> None:
    """Short and long cache writes are priced apart."""
    book = PriceBook({"anthropic": Seller(base_url="https://api.anthropic.com/v1")})
    route = Route("anthropic", "claude-sonnet-4-20250514")
    short = book.cost(route, Usage(input_fresh=0, cache_write_5m=1_000_000, output=0), at_ns=NOW)
    long = book.cost(route, Usage(input_fresh=0, cache_write_1h=1_000_000, output=0), at_ns=NOW)
    assert usd(short.nusd) == Decimal("3.75")
    assert long.nusd is not None
    assert long.nusd > short.nusd


def test_the_described_price_is_the_base_price() -> None:
    """A dearer tier for long prompts is applied to them, not shown as the price."""
    route = Route("anthropic", "claude-sonnet-4-5")
    assert PriceBook().describe(route, at_ns=NOW).startswith("$3 in, $15 out")
    long = PriceBook().cost(route, Usage(input_fresh=1_000_000, output=0), at_ns=NOW)
    assert usd(long.nusd) == Decimal(6)


@pytest.mark.parametrize(
    ("provider", "seller", "model"),
    [
        pytest.param("openai", Seller(base_url="https://api.openai.com/v1"), "no-such-model-9", id="unknown-model"),
        pytest.param("mine", Seller(base_url="http://10.0.0.7:8000/v1"), "gpt-4o-mini", id="unknown-address"),
        pytest.param("openai", Seller(base_url="http://127.0.0.1:1/v1"), "gpt-4o-mini", id="a-known-name-elsewhere"),
    ],
)
def test_an_unknown_price_is_unknown(provider: str, seller: Seller, model: str) -> None:
    """No price: None, never 0, and no claim where it came from."""
    cost = PriceBook({provider: seller}).cost(Route(provider, model), Usage(input_fresh=5, output=5), at_ns=NOW)
    assert (cost.nusd, cost.price) == (None, None)
    assert PriceBook({provider: seller}).describe(Route(provider, model), at_ns=NOW) == "unknown"


@pytest.mark.parametrize("usage", [Usage(), Usage(input_fresh=5), Usage(output=5)])
def test_unknown_usage_has_an_unknown_cost(usage: Usage) -> None:
    """Half a usage has no cost."""
    assert PriceBook().cost(Route("openai", "gpt-4o-mini"), usage, at_ns=NOW).nusd is None


@pytest.mark.parametrize("protocol", ["local", "scripted"])
def test_what_runs_here_is_free(protocol: str) -> None:
    """A local or scripted route costs 0 and says why, whatever the provider is called and whatever it used."""
    cost = PriceBook({"own": Seller(protocol=protocol)}).cost(Route("own", "x"), Usage(), at_ns=NOW)
    assert (cost.nusd, cost.price) == (0, protocol)


def test_the_configuration_sets_prices() -> None:
    """Prices of the file win over the list; presets that it does not name are known by their names."""
    providers = {
        "shop": {
            "protocol": "chat",
            "baseUrl": "https://api.openai.com/v1",
            "models": {"gpt-4o-mini": {"price": {"input": 1, "output": 2, "cacheRead": Decimal("0.1")}}},
        }
    }
    book = PriceBook.from_config(LabConfig.model_validate({"providers": providers}))
    usage = Usage(input_fresh=10, cache_read=10, output=10)
    assert book.cost(Route("shop", "gpt-4o-mini"), usage, at_ns=NOW).nusd == 10_000 + 1_000 + 20_000
    assert book.cost(Route("openai", "gpt-4o-mini"), usage, at_ns=NOW).price != "config"
    assert book.cost(Route("local", "any"), usage, at_ns=NOW).nusd == 0


@pytest.mark.parametrize(
    ("route", "known"),
    [
        pytest.param(Route("local", "any"), True, id="local"),
        pytest.param(Route("scripted", "any"), True, id="scripted"),
        pytest.param(Route("box", "any"), True, id="local-by-another-name"),
        pytest.param(Route("shop", "priced"), True, id="by-the-configuration"),
        pytest.param(Route("shop", "other"), False, id="not-in-the-configuration"),
        pytest.param(Route("openai", "gpt-4o-mini"), True, id="listed"),
        pytest.param(Route("openai", "no-such-model-9"), False, id="not-listed"),
        pytest.param(Route("own", "mine"), False, id="a-model-of-the-user"),
    ],
)
def test_what_has_a_price(route: Route, known: bool) -> None:
    """Routes that run here, are priced in the configuration, or are listed have a price; others have none."""
    shop = Seller(base_url="http://10.0.0.7/v1", rates={"priced": Rates(input=Decimal(0), output=Decimal(0))})
    assert PriceBook({"shop": shop, "box": Seller(protocol="local")}).knows(route, at_ns=NOW) is known

"""Prices: from tokens to exact nano-dollars, offline.

In: a route and its `Usage`. Out: a `Cost` that names where the price came from. Order: a route that runs here costs 0;
a price in the configuration wins; then the data of the `genai-prices` package (never updated over the network). A price
or a usage that is not known gives None, never 0. Called by the gate for every exchange, and to show prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING

from msgspec import Struct

from slate_lab.records import Cost, Route, Usage

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo

    from slate_lab.config.schema import LabConfig, PriceSpec, ProviderSpec

__all__ = ["FREE", "PriceBook", "Rates", "Seller"]

FREE = frozenset({"local", "scripted"})
"""Protocols whose routes run here and cost nothing."""

_EXACT = Context(prec=60)
_NANO_PER_MTOK = Decimal(1000)  # one dollar per million tokens is 1000 nano-dollars per token


class Rates(Struct, frozen=True, kw_only=True):
    """US dollars per million tokens; a cache rate that is not given is the input rate."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write_5m: Decimal | None = None
    cache_write_1h: Decimal | None = None

    def nusd(self, usage: Usage) -> int:
        """Nano-dollars of `usage`, rounded half to even once, at the end."""
        parts = (
            (usage.input_fresh, self.input),
            (usage.cache_read, _or(self.cache_read, self.input)),
            (usage.cache_write_5m, _or(self.cache_write_5m, self.input)),
            (usage.cache_write_1h, _or(self.cache_write_1h, self.input)),
            (usage.output_tokens, self.output),
        )
        with localcontext(_EXACT):
            exact = sum(((tokens or 0) * rate * _NANO_PER_MTOK for tokens, rate in parts), start=Decimal(0))
            return int(exact.to_integral_value(rounding=ROUND_HALF_EVEN))


class Seller(Struct, frozen=True, kw_only=True):
    """What the book needs to know of a provider: its protocol, its address, and prices set by hand for model ids."""

    protocol: str = "chat"
    base_url: str | None = None
    rates: Mapping[str, Rates] = {}


class PriceBook:
    """The prices of every route of a lab."""

    def __init__(self, sellers: Mapping[str, Seller] | None = None) -> None:
        self._sellers = dict(sellers or {})

    @classmethod
    def from_config(cls, config: LabConfig) -> PriceBook:
        """The book of a configuration; a preset that it does not name is known by its name."""
        return cls({name: _seller(name, spec) for name, spec in config.providers.items()})

    @staticmethod
    def warm() -> None:
        """Load the listed prices (about half a second, once a process), off the loop; nothing else waits for it."""
        _snapshot()

    def cost(self, route: Route, usage: Usage, *, at_ns: int) -> Cost:
        """What `usage` cost on `route` at a time; `nusd` is None where price or usage is unknown."""
        seller = self._sellers.get(route.provider, Seller(protocol=route.provider))
        if seller.protocol in FREE:
            return Cost(nusd=0, price=seller.protocol)
        rates = seller.rates.get(route.model)
        known = usage.input_tokens is not None and usage.output_tokens is not None
        if rates is not None:
            return Cost(nusd=rates.nusd(usage) if known else None, price="config")
        model = _find(route.provider, seller.base_url, route.model)
        if model is None:
            return Cost()
        return Cost(nusd=_listed(model, usage, at_ns) if known else None, price=_source())

    def knows(self, route: Route, *, at_ns: int) -> bool:
        """Whether what `route` uses has a price at a time, 0 for what runs here; else no limit in dollars can hold.

        The first question about a listed price loads the list (`warm`).
        """
        some = Usage(input_fresh=1000, output=1000)
        return self.cost(route, some, at_ns=at_ns).nusd is not None

    def describe(self, route: Route, *, at_ns: int) -> str:
        """The price in words for people: dollars for a million input and output tokens, `free here`, or `unknown`."""
        some = 1000  # few, so that no dearer tier for long prompts applies
        read = self.cost(route, Usage(input_fresh=some, output=0), at_ns=at_ns)
        write = self.cost(route, Usage(input_fresh=0, output=some), at_ns=at_ns)
        if read.price in FREE:
            return "free here"
        if read.nusd is None or write.nusd is None:
            return "unknown"
        return f"${_dollars(read.nusd * 1000)} in, ${_dollars(write.nusd * 1000)} out /M ({read.price})"


def _seller(name: str, spec: ProviderSpec) -> Seller:
    rates = {model: _rates(route.price) for model, route in spec.models.items() if route.price is not None}
    base_url = None if spec.base_url is None else str(spec.base_url)
    return Seller(protocol=spec.protocol or name, base_url=base_url, rates=rates)


def _rates(price: PriceSpec) -> Rates:
    return Rates(
        input=price.input,
        output=price.output,
        cache_read=price.cache_read,
        cache_write_5m=price.cache_write_5m,
        cache_write_1h=price.cache_write_1h,
    )


def _or(rate: Decimal | None, other: Decimal) -> Decimal:
    return other if rate is None else rate


def _dollars(nusd: int) -> str:
    return f"{Decimal(nusd).scaleb(-9).normalize():f}"


@cache
def _source() -> str:
    return f"genai-prices {version('genai-prices')}"


@cache
def _snapshot() -> DataSnapshot:
    from genai_prices.data import providers
    from genai_prices.data_snapshot import DataSnapshot

    return DataSnapshot(providers=providers, from_auto_update=False)


@cache
def _find(provider: str, base_url: str | None, model: str) -> ModelInfo | None:
    """The listed model; an address decides who sells it, the provider's name only where there is no address."""
    try:
        _, info = _snapshot().find_provider_model(model, None, None if base_url else provider, base_url)
    except LookupError:
        return None
    return info


def _listed(model: ModelInfo, usage: Usage, at_ns: int) -> int | None:
    """Nano-dollars by the listed price of that time; None if the list has no price for tokens."""
    from genai_prices import Usage as Listed

    at = datetime.fromtimestamp(at_ns / 1e9, tz=UTC)
    prices = model.get_prices(at)
    if prices.input_mtok is None and prices.output_mtok is None:
        return None
    short, long = usage.cache_write_5m or 0, usage.cache_write_1h or 0
    listed = Listed(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cache_read or 0,
        cache_write_tokens=short + long,
        cache_write_5m_tokens=short,
        cache_write_1h_tokens=long,
        output_tokens=usage.output_tokens,
        output_reasoning_tokens=usage.reasoning or 0,
    )
    with localcontext(_EXACT):
        total = prices.calc_price(listed)["total_price"]
        return int(total.scaleb(9).to_integral_value(rounding=ROUND_HALF_EVEN))

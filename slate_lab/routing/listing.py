"""The pool as people read it: one row per permitted route, with ratings, key and price.

In: a policy and the environment. Out: `ModelRow`s. A key is never in a row, only whether it is there. Called by
`Lab.models`; shown by the verb `models`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from slate_lab.models.catalog import capabilities
from slate_lab.models.prices import PriceBook
from slate_lab.routing.policy import Policy, key_missing
from slate_lab.routing.rows import ModelRow

__all__ = ["model_rows"]


def model_rows(
    policy: Policy, env: Mapping[str, str], *, at_ns: int | None = None, remembered: Mapping[str, str] | None = None
) -> list[ModelRow]:
    """One row per permitted route, the preferred one of each model first.

    Args:
        policy: the resolved logical models.
        env: where keys are looked for.
        at_ns: the time whose prices are told; None is now.
        remembered: providers by logical model that answered last, and are asked first while the lab is open.
    """
    default, book = policy.default(env), PriceBook.from_config(policy.config)
    now, kept = time.time_ns() if at_ns is None else at_ns, remembered or {}
    rows = []
    for model in policy.models.values():
        for route in model.routes:
            provider = policy.providers[route.provider]
            rows.append(
                ModelRow(
                    name=model.model,
                    default=model.model == default,
                    rating=model.capability_rating,
                    cost_rating=model.cost_rating,
                    effort=model.effort,
                    provider=route.provider,
                    model=route.model,
                    preferred=route.provider == model.preferred_provider,
                    remembered=kept.get(model.model) == route.provider,
                    key_variable=provider.api_key_env,
                    key_present=not key_missing(provider, env),
                    window=capabilities(route.provider, provider, route.model).window,
                    price=book.describe(route, at_ns=now),
                    guidelines=model.guidelines,
                    cautions=model.cautions,
                )
            )
    return rows

"""Recovery: which route is asked when the retries of one are proved to be used up.

In: the pool, the route that gave up, what is remembered. Out: candidates in order, and the next step. Pure: nothing is
asked here. Only a proved exhaustion moves on; a route that refuses, a cancellation and everything unclear stop. Each
exact route is asked at most once in one operation, which is one request. Called by the shelf (the order) and by whoever
asks for a job (the step).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from slate_lab.errors import LimitExceeded, ModelError
from slate_lab.models.retry import Exhausted
from slate_lab.records import Route
from slate_lab.routing.logical import LogicalModel
from slate_lab.routing.policy import Grant

__all__ = [
    "STOPPING",
    "Candidate",
    "Ended",
    "Held",
    "Kind",
    "Onward",
    "classify",
    "plan_compressors",
    "plan_hop",
    "plan_order",
    "plan_ratings",
]

Kind = Literal["success", "retry-exhausted", "cancelled", "terminal-fault", "unknown"]

_TERMINAL = frozenset({"auth", "billing", "context-overflow", "bad-request", "unavailable", "replay-miss"})

STOPPING = frozenset({"effort_unsupported"})
"""What holds a candidate back and ends the recovery, too; every other reason passes on to the next one."""


class Candidate(Struct, frozen=True):
    """A route that recovery may ask: the logical model it would answer for, and the exact route."""

    logical: str
    route: Route


class Held(Struct, frozen=True):
    """Why a candidate is not asked: a code (`missing_key`, `effort_unsupported`, `window`, `no_tools`, `unpriced`, or
    the kind of the error that its connection met), and a sentence."""

    code: str
    why: str


class Onward(Struct, frozen=True):
    """The request goes on to `grant`; `passed` were held back before it."""

    grant: Grant
    passed: tuple[tuple[Candidate, Held], ...] = ()


class Ended(Struct, frozen=True):
    """Nothing is left to ask; `at` stopped the recovery, if a candidate did."""

    passed: tuple[tuple[Candidate, Held], ...] = ()
    at: tuple[Candidate, Held] | None = None


def classify(error: BaseException | None) -> Kind:
    """What the end of a request means for recovery; only `retry-exhausted` goes on."""
    if error is None:
        return "success"
    if isinstance(error, asyncio.CancelledError) or (isinstance(error, ModelError) and error.kind == "cancelled"):
        return "cancelled"
    if isinstance(error, Exhausted):
        return "retry-exhausted"
    if isinstance(error, LimitExceeded) or (isinstance(error, ModelError) and error.kind in _TERMINAL):
        return "terminal-fault"
    return "unknown"


def plan_order(
    models: Mapping[str, LogicalModel], logical: str, *, remembered: Mapping[str, str] | None = None
) -> tuple[Candidate, ...]:
    """Every route in the order of recovery from `logical`, that model's own routes first.

    Args:
        models: the pool, in its configured order.
        logical: the model that was asked; one that is not in the pool has no order.
        remembered: the provider that answered last, by logical model: asked before the preferred one.
    """
    kept = remembered or {}
    names = plan_ratings(models, logical)
    return tuple(c for name in names for c in _routes(models[name], kept.get(name)))


def plan_ratings(models: Mapping[str, LogicalModel], logical: str) -> tuple[str, ...]:
    """The logical models in the order of recovery.

    First the model itself, then those of its rating, then alternately the next higher and the next lower rating that
    is occupied, the higher first; within a rating by rising cost, and by the order of the pool where costs are equal.
    """
    active = models.get(logical)
    if active is None:
        return ()
    ratings: dict[int, list[LogicalModel]] = {}
    for model in models.values():
        if model.model != logical:
            ratings.setdefault(model.capability_rating, []).append(model)
    here = active.capability_rating
    higher = sorted(rating for rating in ratings if rating > here)
    lower = sorted((rating for rating in ratings if rating < here), reverse=True)
    order = [here]
    for i in range(max(len(higher), len(lower))):
        order += [*higher[i : i + 1], *lower[i : i + 1]]
    cheapest = (sorted(ratings.get(rating, ()), key=lambda m: m.cost_rating) for rating in order)
    return (logical, *(model.model for group in cheapest for model in group))


def plan_compressors(
    models: Mapping[str, LogicalModel],
    names: Sequence[str],
    *,
    start: str | None = None,
    remembered: Mapping[str, str] | None = None,
) -> tuple[Candidate, ...]:
    """The routes that may compress an episode: forward only through the listed models, all routes of each.

    Args:
        models: the pool.
        names: the list of compressors.
        start: the entry that compressed last; the list begins there, entries before it are not asked again.
        remembered: the provider that answered last, by logical model.
    """
    kept = remembered or {}
    first = names.index(start) if start in names else 0
    return tuple(c for name in names[first:] if name in models for c in _routes(models[name], kept.get(name)))


def plan_hop(
    order: Iterable[Candidate], *, tried: Collection[Route], look: Callable[[Candidate], Grant | Held]
) -> Onward | Ended:
    """The next step of an operation.

    Args:
        order: the candidates.
        tried: the exact routes that were asked already; none is asked twice.
        look: the permission to ask a candidate, or what holds it back.
    """
    passed: list[tuple[Candidate, Held]] = []
    for candidate in order:
        if candidate.route in tried:
            continue
        found = look(candidate)
        if isinstance(found, Grant):
            return Onward(found, tuple(passed))
        if found.code in STOPPING:
            return Ended(tuple(passed), (candidate, found))
        passed.append((candidate, found))
    return Ended(tuple(passed))


def _routes(model: LogicalModel, remembered: str | None) -> list[Candidate]:
    """The routes of one model: the remembered provider, the preferred one, then the order of its map."""
    return [Candidate(model.model, route) for route in model.routes_from(remembered)]

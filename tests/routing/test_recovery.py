"""Recovery as decisions: the order of the routes, what ends it, and the next step. Nothing is asked."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_lab.config import ProviderSpec
from slate_lab.errors import LimitExceeded, ModelError, StoreError
from slate_lab.models.faults import Fault
from slate_lab.models.protocol import Capabilities
from slate_lab.models.retry import Exhausted, RetrySpec, Stop, plan_retry
from slate_lab.records import Route
from slate_lab.routing.logical import LogicalModel
from slate_lab.routing.policy import Grant
from slate_lab.routing.recovery import (
    Candidate,
    Ended,
    Held,
    Onward,
    classify,
    plan_compressors,
    plan_hop,
    plan_order,
    plan_ratings,
)


def model(name: str, rating: int, cost: int = 10, *providers: str) -> LogicalModel:
    """A definition; the first provider is the preferred one."""
    names = providers or ("p",)
    return LogicalModel(
        model=name,
        capability_rating=rating,
        effort="off",
        cost_rating=cost,
        preferred_provider=names[0],
        providers=dict.fromkeys(sorted(names), f"{name}-exact"),
        guidelines="Any.",
        cautions="None.",
    )


def pool(*models: LogicalModel) -> dict[str, LogicalModel]:
    """A pool in the order given."""
    return {m.model: m for m in models}


def rated(*ratings: int) -> dict[str, LogicalModel]:
    """One model of each rating, called by it."""
    return pool(*(model(f"m{rating}", rating) for rating in ratings))


@pytest.mark.parametrize(
    ("models", "start", "order"),
    [
        (rated(58, 86, 72, 55, 50, 45, 40), "m58", "m58 m72 m55 m86 m50 m45 m40"),
        (rated(58, 40), "m58", "m58 m40"),
        (rated(58, 60, 70, 80), "m58", "m58 m60 m70 m80"),
        (rated(58), "m58", "m58"),
        (pool(model("a", 50, 9), model("b", 50, 3), model("c", 50, 5), model("d", 60, 1)), "a", "a b c d"),
        (pool(model("a", 50), model("x", 60, 7), model("y", 60, 7), model("z", 60, 2)), "a", "a z x y"),
        (rated(58), "nobody", ""),
    ],
    ids=[
        "the worked example from 58",
        "only lower ones are occupied",
        "only higher ones are occupied",
        "nothing else",
        "the same rating comes first, by rising cost",
        "equal costs keep the order of the pool",
        "a model that is not in the pool has no order",
    ],
)
def test_the_order_of_logical_models(models: dict[str, LogicalModel], start: str, order: str) -> None:
    """The same rating by rising cost, then alternately the next higher and the next lower occupied rating."""
    assert " ".join(plan_ratings(models, start)) == order


@pytest.mark.parametrize(
    ("remembered", "providers"),
    [({}, "b a c"), ({"m": "c"}, "c b a"), ({"m": "b"}, "b a c"), ({"m": "gone"}, "b a c"), ({"other": "c"}, "b a c")],
    ids=["preferred, then map order", "remembered first", "remembered is the preferred one", "no longer permitted",
         "remembered for another model"],
)  # fmt: skip
def test_the_order_of_providers(remembered: dict[str, str], providers: str) -> None:
    """The routes of one logical model come before any other model: remembered, preferred, then the map."""
    models = pool(model("m", 50, 10, "b", "a", "c"), model("n", 50))
    order = plan_order(models, "m", remembered=remembered)
    assert " ".join(c.route.provider for c in order if c.logical == "m") == providers
    assert [c.logical for c in order] == ["m", "m", "m", "n"]


@given(
    st.lists(
        st.tuples(st.integers(1, 100), st.integers(1, 100), st.sets(st.sampled_from("abc"), min_size=1)),
        min_size=1,
        max_size=9,
    )
)
def test_every_route_stands_exactly_once(made: list[tuple[int, int, set[str]]]) -> None:
    """Whatever the pool, the order holds each permitted route once and nothing else."""
    models = pool(*(model(f"m{i}", rating, cost, *sorted(names)) for i, (rating, cost, names) in enumerate(made)))
    order = plan_order(models, "m0")
    assert len(order) == len(set(order))
    assert set(order) == {Candidate(m.model, route) for m in models.values() for route in m.routes}


@pytest.mark.parametrize(
    ("start", "order"),
    [(None, "a/x a/y b/p c/p"), ("b", "b/p c/p"), ("c", "c/p"), ("gone", "a/x a/y b/p c/p")],
    ids=["from the front", "remembered start", "the last one", "what is remembered is not in the list"],
)
def test_compressors_go_forward_only(start: str | None, order: str) -> None:
    """The list is walked forward, all routes of an entry before the next; entries before the start are left out."""
    models = pool(model("a", 50, 10, "x", "y"), model("b", 90), model("c", 10), model("d", 50))
    found = plan_compressors(models, ["a", "b", "c"], start=start)
    assert " ".join(f"{c.logical}/{c.route.provider}" for c in found) == order


def busy(**more: float) -> Fault:
    """A passing fault."""
    return Fault("retry-exhausted", "HTTP 429", transient=True, status=429, **more)


def stopped(error: ModelError, *, attempt: int = 1, delivered: bool = False, left_s: float | None = None) -> ModelError:
    """The error that a gate ends with under two retries."""
    plan = plan_retry(
        error, attempt=attempt, delivered=delivered, spec=RetrySpec(max_retries=2), random=0, now_ns=0, left_s=left_s
    )
    assert isinstance(plan, Stop)
    return plan.error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (None, "success"),
        (stopped(busy(), attempt=3), "retry-exhausted"),
        (stopped(busy(retry_after_s=3600)), "retry-exhausted"),
        (stopped(Fault("unreachable", "refused", transient=True), attempt=3), "retry-exhausted"),
        (stopped(busy(), left_s=0.1), "unknown"),
        (stopped(busy(), delivered=True), "unknown"),
        (ModelError("retry-exhausted", "says a model, not the gate"), "unknown"),
        (ModelError("timeout", "the deadline"), "unknown"),
        (ModelError("bad-reply", "broken"), "unknown"),
        (KeyError("x"), "unknown"),
        (StoreError("x"), "unknown"),
        *((ModelError(kind, "no"), "terminal-fault") for kind in  # type: ignore[arg-type]
          ("auth", "billing", "context-overflow", "bad-request", "unavailable", "replay-miss")),
        (LimitExceeded("usd", used=1, limit=1), "terminal-fault"),
        (asyncio.CancelledError(), "cancelled"),
        (ModelError("cancelled", "x"), "cancelled"),
    ],
    ids=lambda value: getattr(value, "message", None) or str(value),
)  # fmt: skip
def test_what_an_end_means(error: BaseException | None, kind: str) -> None:
    """Only retries that the gate proved to be used up go on; refusals, cancellation and everything unclear do not."""
    assert classify(error) == kind
    assert (kind == "retry-exhausted") == isinstance(error, Exhausted)


def grant(candidate: Candidate) -> Grant:
    """The permission to ask a candidate."""
    return Grant(
        logical=candidate.logical, route=candidate.route, effort=None, provider=ProviderSpec(),
        capabilities=Capabilities(),
    )  # fmt: skip


A, B, C = (Candidate(name, Route(name, "m")) for name in "abc")


@pytest.mark.parametrize(
    ("held", "tried", "result", "passed"),
    [
        ({}, [A], "b", ""),
        ({}, [A, B], "c", ""),
        ({}, [A, B, C], None, ""),
        ({"b": "missing_key"}, [A], "c", "b"),
        ({"b": "window", "c": "no_tools"}, [A], None, "b c"),
        ({"b": "effort_unsupported"}, [A], "stop b", ""),
        ({"b": "missing_key", "c": "effort_unsupported"}, [A], "stop c", "b"),
    ],
    ids=["the next one", "never twice", "nothing is left", "without credentials it is skipped", "all are held back",
         "an unsupported effort stops", "skipped, then stopped"],
)  # fmt: skip
def test_the_next_step(held: dict[str, str], tried: list[Candidate], result: str | None, passed: str) -> None:
    """Each exact route at most once; one without credentials is passed over; an unsupported effort stops."""

    def look(candidate: Candidate) -> Grant | Held:
        code = held.get(candidate.logical)
        return Held(code, "why") if code else grant(candidate)

    plan = plan_hop([A, B, C], tried=[c.route for c in tried], look=look)
    assert " ".join(c.logical for c, _ in plan.passed) == passed
    if isinstance(plan, Onward):
        assert plan.grant.logical == result
    else:
        assert isinstance(plan, Ended)
        assert (f"stop {plan.at[0].logical}" if plan.at else None) == result


def test_two_models_on_one_route_are_one_route() -> None:
    """Another effort of the same exact route is not another route."""
    twin = Candidate("again", A.route)
    plan = plan_hop([A, twin, B], tried=[A.route], look=grant)
    assert isinstance(plan, Onward)
    assert plan.grant.logical == "b"

"""The shelf: the models of one lab, by logical name, connected when they are first needed.

A model object given by the user (a scripted one, or one of his own) stands in front of the configured ones and enters
by the same door.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from slate_lab.config import ProviderSpec
from slate_lab.errors import ConfigError, Problem
from slate_lab.models.cassette import Cassette
from slate_lab.models.protocol import Model
from slate_lab.models.scripted import ScriptedModel
from slate_lab.records import Route, near
from slate_lab.routing.logical import LogicalModel
from slate_lab.routing.policy import Grant, Policy
from slate_lab.routing.recovery import Candidate, plan_compressors, plan_order

__all__ = ["Shelf"]


_HERE = ProviderSpec(protocol="scripted")
"""The provider of every model that was given as an object."""


class Shelf:
    """Grants routes and hands out the models that answer on them.

    Args:
        policy: the resolved logical models.
        env: where keys are found.
        given: one model that answers every route, or models by logical name or by exact route (`openai/gpt-6-luna`):
            the first stands for the whole logical model, the second for one of its routes, with what the catalog and
            the project say of that route, and no key.
        replay: a cassette to answer from or record to.
        progress: told what a slow start is doing, with a share from 0 to 1 if it is known.
        remembered: the provider that answered last, by logical model; it is asked first.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        env: Mapping[str, str],
        given: Model | Mapping[str, Model] | None = None,
        replay: Cassette | None = None,
        progress: Callable[[str, float | None], None],
        remembered: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        _refuse_names(given)
        self._policy, self._env, self._replay, self._progress = policy, env, replay, progress
        self._every = given if given is not None and not isinstance(given, Mapping) else None
        named = dict(given) if isinstance(given, Mapping) else {}
        self._named: dict[str, Model] = {name: model for name, model in named.items() if "/" not in name}
        self._routed = _by_route({name: model for name, model in named.items() if "/" in name}, policy)
        self._remembered = remembered
        self._open: dict[Route, Model] = {}

    @property
    def names(self) -> list[str]:
        """Logical models that can be asked for."""
        return list(dict.fromkeys([*self._named, *self._policy.models]))

    def grant(self, logical: str | None) -> Grant:
        """The route of `logical` (None: the default).

        Raises:
            DispatchError: unknown model (near names listed), or its key is missing (variable named).
        """
        if self._every is not None:
            if logical is not None:
                self._policy.require(logical)
            return _given(self._every, logical or "own")
        name = logical or next(iter(self._named), None) or self._policy.default(self._env)
        own = self._named.get(name)
        if own is None:
            first = self._remembered().get(name)
            return self._policy.route(name, self._env, need_key=self._need_key, first=first, given=self._routed)
        return _given(own, name)

    def order(self, grant: Grant) -> tuple[Candidate, ...]:
        """What recovery from `grant` may ask, in order."""
        return plan_order(self._pool(), grant.logical, remembered=self._remembered())

    def compressors(self, grant: Grant, names: Sequence[str], *, start: str | None = None) -> tuple[Candidate, ...]:
        """What may compress the work of `grant`, forward only: the listed models, else its own route and model."""
        if names and self._every is None:
            return plan_compressors(self._pool(), names, start=start, remembered=self._remembered())
        own = Candidate(grant.logical, grant.route)
        others = self.order(grant)
        return (own, *(c for c in others if c.logical == grant.logical and c.route != grant.route))

    def take(self, candidate: Candidate) -> Grant:
        """The grant of one candidate.

        Raises:
            DispatchError: its key is missing, or it does not know the effort.
        """
        own = self._every or self._named.get(candidate.logical)
        if own is not None:
            return self.grant(None if candidate.logical in ("own", "scripted") else candidate.logical)
        return self._policy.exact(
            candidate.logical, candidate.route, self._env, need_key=self._need_key, given=self._routed
        )

    @property
    def _need_key(self) -> bool:
        return self._replay is None or self._replay.mode != "replay"

    def _pool(self) -> dict[str, LogicalModel]:
        """The pool as it is answered here: a model that the user gave stands for all routes of its name."""
        if self._every is not None:
            return {}
        pool = dict(self._policy.models)
        for name in pool.keys() & self._named.keys():
            route = _given(self._named[name], name).route
            pool[name] = msgspec.structs.replace(
                pool[name], preferred_provider=route.provider, providers={route.provider: route.model}
            )
        return pool

    def model(self, grant: Grant) -> Model:
        """The model behind a grant, connected once."""
        own = self._every or self._named.get(grant.logical) or self._routed.get(grant.route)
        if own is not None:
            return own
        model = self._open.get(grant.route)
        if model is None:
            from slate_lab.models.connect import connect  # httpx and aiohttp load with the first model that needs them

            model = self._open[grant.route] = connect(
                grant.route.provider,
                grant.provider,
                grant.route.model,
                grant.capabilities,
                env=self._env,
                replay=self._replay,
                progress=self._progress,
            )
        return model

    async def aclose(self) -> None:
        """Close every model that was connected here; a model given by the user is his own to close."""
        models, self._open = list(self._open.values()), {}
        for model in models:
            await model.aclose()


def _refuse_names(given: object) -> None:
    """`models=` takes objects that answer; a name is the natural guess, and belongs elsewhere."""
    for name, model in given.items() if isinstance(given, Mapping) else [("models", given)]:
        if model is not None and not isinstance(model, Model):
            hint = 'choose one by name with config={"defaultModel": "local"}, or with model="local" for one thread'
            raise ConfigError([Problem("not_a_model", f"{name}={str(model)[:60]!r} is no model object: {hint}")])


def _by_route(given: Mapping[str, Model], policy: Policy) -> dict[Route, Model]:
    """Models given by exact route; a route that no logical model permits is an error."""
    permitted = {str(route): route for model in policy.models.values() for route in model.routes}
    for name in given:
        if name not in permitted:
            close = near(name, permitted)
            hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(permitted)}"
            raise ConfigError([Problem("unknown_route", f"models: no logical model permits the route {name}; {hint}")])
    return {permitted[name]: model for name, model in given.items()}


def _given(model: Model, name: str) -> Grant:
    """The grant of a model that the user gave as an object; only a scripted one is known to cost nothing."""
    scripted = isinstance(model, ScriptedModel)
    return Grant(
        logical="scripted" if scripted and name == "own" else name,
        route=Route("scripted" if scripted else "own", name),
        effort=None,
        provider=_HERE,
        capabilities=model.capabilities,
    )

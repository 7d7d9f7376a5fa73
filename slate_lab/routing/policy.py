"""The policy: which logical models a lab may use, and the exact route that answers for each.

In: the configuration, once; the environment, at each question. Out: a frozen `Policy`; `route` gives a `Grant`. Every
problem of the definitions is collected and any one blocks. What is enforced: exact permission, whole definitions, fixed
effort, a key that is there. What fits a task stays a judgement: guidelines and cautions are told, not enforced.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import msgspec
from msgspec import Struct

from slate_lab.config import LabConfig, ProviderSpec, nearest_place
from slate_lab.errors import ConfigError, DispatchError, Place, Problem
from slate_lab.models.catalog import PRESETS, capabilities, weights_name, with_preset
from slate_lab.models.protocol import Capabilities
from slate_lab.records import Route, near
from slate_lab.routing.edits import Report, plan_pool
from slate_lab.routing.logical import LogicalModel
from slate_lab.routing.pool import JUDGEMENT, POOL

__all__ = ["MAX_CHARS", "MAX_LINES", "Grant", "LogicalModel", "Policy", "key_missing"]

MAX_CHARS = 19_400
MAX_LINES = 105
"""The most that the rendered policy may take in an orchestrator's prompt."""

_LOCAL_ONLY = ("weights", "context_tokens", "threads", "idle_s")


class Grant(Struct, frozen=True, kw_only=True):
    """The permission to ask one exact route for a logical model.

    Attributes:
        logical: the name that was asked for.
        route: the provider and model that answer.
        effort: the effort word to send; None where the route has no efforts.
        provider: the provider's settings.
        capabilities: what the route can do.
    """

    logical: str
    route: Route
    effort: str | None
    provider: ProviderSpec
    capabilities: Capabilities


class Policy(Struct, frozen=True, kw_only=True):
    """The logical models of one lab. Made by `Policy.resolve`, never changed.

    Attributes:
        models: definitions by name, in the order of the pool.
        config: the configuration with the presets filled in under `providers`.
    """

    models: Mapping[str, LogicalModel]
    config: LabConfig

    @classmethod
    def resolve(cls, config: LabConfig, *, places: Mapping[str, Place] | None = None) -> Policy:
        """The policy of a configuration.

        Args:
            config: as loaded.
            places: where its keys stand (`Loaded.places`), so that problems can say so.

        Raises:
            ConfigError: with all problems.
        """
        problems: list[Problem] = []

        def report(code: str, message: str, path: str) -> None:
            problems.append(Problem(code, message, nearest_place(places or {}, path)))

        providers = _providers(config, report)
        models = plan_pool([_embedded(model, providers) for model in POOL], config.models, report=report)
        for model in models.values():
            for provider in model.providers:
                if provider not in providers:
                    names = ", ".join(near(provider, providers)) or ", ".join(providers)
                    report(
                        "unknown_provider", f"{model.model}: there is no provider {provider} (known: {names})", "models"
                    )
        policy = cls(models=models, config=config.model_copy(update={"providers": providers}))
        _check_names(policy, report)
        text = policy.render()
        lines = text.count("\n") + 1
        if len(text) > MAX_CHARS or lines > MAX_LINES:
            size = f"{len(text)} characters in {lines} lines, more than {MAX_CHARS} or {MAX_LINES}"
            report("policy_too_long", f"the policy takes {size}: shorten guidelines and cautions, or exclude", "models")
        if problems:
            raise ConfigError(problems)
        return policy

    @property
    def providers(self) -> Mapping[str, ProviderSpec]:
        """Every provider, presets filled in."""
        return self.config.providers

    def require(self, logical: str) -> LogicalModel:
        """The definition of a name.

        Raises:
            DispatchError: `unknown_model`, with near names.
        """
        model = self.models.get(logical)
        if model is None:
            raise DispatchError.of("unknown_model", _unknown(logical, self.models))
        return model

    def default(self, env: Mapping[str, str]) -> str:
        """`defaultModel`; else the first model whose key is set; else `local`; else the first there is."""
        if self.config.default_model is not None:
            return self.config.default_model
        for name, model in self.models.items():
            if any(_keyed(self.providers[route.provider], env) for route in model.routes):
                return name
        return "local" if "local" in self.models else next(iter(self.models))

    def route(
        self,
        logical: str,
        env: Mapping[str, str],
        *,
        need_key: bool = True,
        first: str | None = None,
        given: Container[Route] = (),
    ) -> Grant:
        """The first permitted route that has its key and knows the effort.

        Args:
            logical: the logical model.
            env: where keys are found.
            need_key: False while answers come from a recording; the preferred route is then taken without a key.
            first: a provider that is asked before the preferred one: it answered last.
            given: routes that are answered by an object of the user and need no key.

        Raises:
            DispatchError: `unknown_model` (near names), `missing_key` (the variable and the line that sets it),
                `effort_unsupported`.
        """
        model = self.require(logical)
        able = [grant for route in model.routes_from(first) if (grant := self._grant(model, route)) is not None]
        if not able:
            raise DispatchError.of("effort_unsupported", _unsupported(model, model.routes))
        for grant in able:
            if grant.route in given or not key_missing(grant.provider, env):
                return grant
        if not need_key:
            return able[0]
        raise DispatchError.of("missing_key", _no_key(logical, able, local="local" in self.models))

    def exact(
        self,
        logical: str,
        route: Route,
        env: Mapping[str, str],
        *,
        need_key: bool = True,
        given: Container[Route] = (),
    ) -> Grant:
        """The grant of one permitted route; the arguments are those of `route`.

        Raises:
            DispatchError: `effort_unsupported`, `missing_key`.
        """
        model = self.require(logical)
        grant = self._grant(model, route)
        if grant is None:
            raise DispatchError.of("effort_unsupported", _unsupported(model, (route,)))
        if need_key and route not in given and key_missing(grant.provider, env):
            raise DispatchError.of("missing_key", f"{route} needs the key {grant.provider.api_key_env}")
        return grant

    def _grant(self, model: LogicalModel, route: Route) -> Grant | None:
        """The grant of one route; None if it does not know the effort."""
        provider = self.providers[route.provider]
        able = capabilities(route.provider, provider, route.model)
        if model.effort not in able.efforts and model.effort != "off":
            return None
        effort = model.effort if model.effort in able.efforts else None
        return Grant(logical=model.model, route=route, effort=effort, provider=provider, capabilities=able)

    def render(self) -> str:
        """The policy as an orchestrator reads it: one line per logical model."""
        head = [JUDGEMENT, "A higher rating alone never justifies a choice; take the cheapest that fits."]
        return "\n".join([*head, *(_line(model) for model in self.models.values())])


def _providers(config: LabConfig, report: Report) -> dict[str, ProviderSpec]:
    """Presets and the project's providers, completed."""
    providers: dict[str, ProviderSpec] = {}
    for name in dict.fromkeys([*PRESETS, *config.providers]):
        said = config.providers.get(name)
        spec = with_preset(name, said)
        assert spec is not None
        providers[name] = spec
        if said is None:
            continue
        path = f"providers.{name}"
        if spec.protocol is None:
            report("no_protocol", f"{name} is no preset, so it needs a protocol (chat for most servers)", path)
        elif spec.protocol not in ("local", "scripted") and spec.base_url is None:
            report("no_address", "this protocol needs a baseUrl", path)
        if spec.protocol != "local":
            for field in sorted(said.model_fields_set.intersection(_LOCAL_ONLY)):
                key = ProviderSpec.model_fields[field].alias or field
                report("local_only", "only the protocol local has this key", f"{path}.{key}")
        elif spec.weights is None:
            report("no_weights", "the protocol local needs weights: a catalog name, a path or an address", path)
    return providers


def _embedded(model: LogicalModel, providers: Mapping[str, ProviderSpec]) -> LogicalModel:
    """A shipped model; the embedded one takes the name of the weights that run, so that records say the truth."""
    weights = providers["local"].weights
    if model.providers.get("local") is None or weights is None:
        return model
    return msgspec.structs.replace(model, providers={**model.providers, "local": weights_name(weights)})


def _check_names(policy: Policy, report: Report) -> None:
    """Every logical model that the rest of the configuration names must exist."""
    config = policy.config
    named = [("defaultModel", config.default_model)]
    named += [(f"threadTypes.{name}.model", spec.model) for name, spec in config.thread_types.items()]
    named += [(f"compressor.models[{index}]", name) for index, name in enumerate(config.compressor.models)]
    for path, name in named:
        if name is not None and name not in policy.models:
            report("unknown_model", _unknown(name, policy.models), path)
    routes = [str(route) for model in policy.models.values() for route in model.routes]
    for name in config.routes:
        if name not in routes:
            close = near(name, routes) or routes
            report(
                "unknown_route", f"no logical model permits this route; near it: {', '.join(close)}", f"routes.{name}"
            )


def _keyed(provider: ProviderSpec, env: Mapping[str, str]) -> bool:
    return provider.api_key_env is not None and not key_missing(provider, env)


def key_missing(provider: ProviderSpec, env: Mapping[str, str]) -> bool:
    """Whether a provider needs a key that is not set."""
    return provider.api_key_env is not None and not env.get(provider.api_key_env, "").strip()


def _no_key(logical: str, able: list[Grant], *, local: bool) -> str:
    variables = dict.fromkeys(g.provider.api_key_env for g in able)
    lines = " or ".join(f"`export {variable}=...`" for variable in variables)
    instead = ", or take the model local, which needs none" if local else ""
    return f"{logical} needs a key: {lines} in the shell that starts Jupyter (or %env in a notebook){instead}"


def _unsupported(model: LogicalModel, asked: Sequence[Route]) -> str:
    routes = ", ".join(str(route) for route in asked)
    return (
        f"{model.model} asks for the effort {model.effort}, which {routes} is not known to have: set its `efforts` "
        "under providers, or replace the effort"
    )


def _unknown(name: str, models: Mapping[str, LogicalModel]) -> str:
    close = near(name, models)
    hint = f"did you mean {', '.join(close)}?" if close else f"there are: {', '.join(models)}"
    return f"there is no logical model {name[:64]!r}; {hint}"


def _line(model: LogicalModel) -> str:
    said = " ".join(f"{model.guidelines} Mind: {model.cautions}".split())
    ratings = f"capability {model.capability_rating}, cost {model.cost_rating}, effort {model.effort}"
    return f"- {model.model} ({ratings}): {said}"

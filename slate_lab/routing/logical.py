"""A logical model: a name without a provider, with a fixed effort, and the routes that may answer for it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from slate_lab.config import LogicalModelSpec
from slate_lab.records import Route

__all__ = ["LogicalModel"]


class LogicalModel(Struct, frozen=True, kw_only=True):
    """A definition; these eight fields and no others.

    Attributes:
        model: the logical name.
        capability_rating: 1..100, the judgement of whoever wrote the definition, not a measurement.
        effort: how hard it thinks; fixed, a different effort is a different logical model.
        cost_rating: 1..100, judged likewise; higher costs more.
        preferred_provider: the provider that is asked first.
        providers: the exact model id at each permitted provider.
        guidelines: what it is good for.
        cautions: what to mind.
    """

    model: str
    capability_rating: int
    effort: str
    cost_rating: int
    preferred_provider: str
    providers: Mapping[str, str]
    guidelines: str
    cautions: str

    @classmethod
    def from_spec(cls, spec: LogicalModelSpec) -> LogicalModel:
        """The definition a project wrote."""
        return cls(
            model=spec.model,
            capability_rating=spec.capability_rating,
            effort=spec.effort,
            cost_rating=spec.cost_rating,
            preferred_provider=spec.preferred_provider,
            providers=dict(spec.providers),
            guidelines=spec.guidelines,
            cautions=spec.cautions,
        )

    @property
    def routes(self) -> tuple[Route, ...]:
        """The permitted routes: the preferred provider's first, then the others in their order."""
        return self.routes_from(None)

    def routes_from(self, first: str | None) -> tuple[Route, ...]:
        """The permitted routes, those of the provider `first` in front if it is one of them."""
        names = dict.fromkeys((first, self.preferred_provider, *self.providers))
        return tuple(Route(name, self.providers[name]) for name in names if name is not None and name in self.providers)

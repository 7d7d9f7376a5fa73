"""The units of a lab: resolved at first use and never again, and the workers that are live with them.

In: the project, its trust, the patterns of `workerExtensions`. Out: the frozen resolution, and a `Crew` for each
worker. Wired by the lab, used by admission (which tools there are) and by the runner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Any

from slate_lab.config import Trust
from slate_lab.config.modules import ProjectModules
from slate_lab.models.protocol import Model
from slate_lab.weave.tools.kit import Kit, Tool
from slate_lab.weave.units.crew import Crew, Late, compose
from slate_lab.weave.units.finding import FOLDER, find_installed, find_project
from slate_lab.weave.units.resolving import Resolution, resolve
from slate_lab.weave.units.unit import Provider

__all__ = ["Units"]


class Units:
    """Units of one lab.

    Args:
        trust: the project's; its own units run only if it is trusted.
        patterns: regular expressions over units' names; none select nothing, and nothing is looked for.
        taken: names of tools that the lab has already.
    """

    def __init__(self, trust: Trust, *, patterns: Sequence[str] = (), taken: Iterable[str] = ()) -> None:
        self._trust, self._patterns, self._taken = trust, tuple(patterns), tuple(taken)
        self._modules: ProjectModules | None = None
        self._resolution: Resolution | None = None
        self._resolving = Lock()
        self._own: dict[str, Provider] = {}
        self._composed: dict[str, Model] = {}
        self.live: set[Crew] = set()

    @property
    def resolution(self) -> Resolution:
        """Which units workers get; the first call loads them in the lab, every later one gives the same."""
        with self._resolving:
            if self._resolution is None:
                self._resolution = self._resolve()
            return self._resolution

    def _resolve(self) -> Resolution:
        if not self._patterns:
            return Resolution()
        self._modules = self._modules or ProjectModules(self._trust, FOLDER)
        found = [*find_installed(), *find_project(self._trust.root, self._modules.load)]
        held = "" if self._trust.allows(FOLDER) else f"held back: {self._trust.reason}"
        return resolve(found, self._patterns, self._taken, held=held)

    def provider(self, id: str, model: Provider) -> None:
        """Register a model with the lab: workers that lack the provider `id` take it over."""
        self._own[id] = model

    @property
    def providers(self) -> dict[str, Provider]:
        """The lab's registrations: those of its units, and over them its own."""
        return {**self.resolution.providers, **self._own}

    def model(self, provider: str) -> Model | None:
        """The lab's own model on a provider, for what is asked outside a worker; made once.

        Raises:
            UnitFailed: it cannot be made.
        """
        given = self.providers.get(provider)
        if given is not None and provider not in self._composed:
            self._composed[provider] = compose(provider, given)
        return self._composed.get(provider)

    def crew(self, kit: Kit, granted: Mapping[str, Tool], *, late: Late) -> Crew:
        """The units of one worker, not started yet; they end with the kit."""
        crew = Crew(
            self.resolution,
            providers=self.providers,
            kit=kit,
            granted=granted,
            taken=self._taken,
            late=late,
            live=self.live,
        )
        if not crew.idle:
            kit.on_close(crew.close)
        return crew

    def rows(self) -> list[dict[str, Any]]:
        """One row per unit that matched: name, where, tools, and why it is not loaded."""
        resolution = self.resolution
        rows: list[dict[str, Any]] = [
            {"unit": u.name, "where": u.where, "tools": list(u.tools), "refused": None} for u in resolution.selected
        ]
        return rows + [{"unit": r.name, "where": r.where, "tools": [], "refused": r.reason} for r in resolution.refused]

    async def aclose(self) -> None:
        """End what is left of workers, then forget the modules."""
        for crew in list(self.live):
            await crew.close()
        given = self._own.values(), self.resolution.providers.values() if self._resolution else ()
        registered = {id(model) for models in given for model in models}
        for model in self._composed.values():
            if id(model) not in registered:
                await model.aclose()
        if self._modules is not None:
            self._modules.close()

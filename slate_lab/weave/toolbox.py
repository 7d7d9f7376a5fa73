"""All tools of one lab, by name, looked for when the first action needs them; and who gets those that were added.

In: the built-in tools, the units of the project. Out: a mapping that admission reads. Wired by the lab.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from slate_lab.models.protocol import Model
from slate_lab.weave.admission import Admitted
from slate_lab.weave.job import Job
from slate_lab.weave.tools import Kit, Tool
from slate_lab.weave.types import ThreadType
from slate_lab.weave.units import Crew, Units

__all__ = ["Toolbox", "may_use"]

_WRITING = frozenset({"write", "edit", "bash", "python"})


class Toolbox(Mapping[str, Tool]):
    """The lab's tools.

    Args:
        base: what every lab has.
        units: whose tools join it when they are first asked for, and stay the same from then on.
    """

    def __init__(self, base: Mapping[str, Tool], units: Units) -> None:
        self._base, self._units = base, units

    @cached_property
    def _all(self) -> dict[str, Tool]:
        return {**self._base, **self._units.resolution.tools}

    def __getitem__(self, name: str) -> Tool:
        return self._base[name] if name in self._base else self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def added(self, kind: ThreadType) -> tuple[str, ...]:
        """The tools that a type of thread gets beside its own."""
        if not kind.tools or kind.fixed:
            return ()
        reads = self._units.resolution.reads
        return tuple(n for n in self._all if n not in self._base and may_use(kind, reads=n in reads))

    def crew(self, kit: Kit, admitted: Admitted) -> Crew:
        """The units of one worker, not started yet; they end with the kit."""
        open_to = admitted.action.tools is None and admitted.grant.provider.protocol != "local"

        def late(name: str, reads: bool) -> bool:
            return open_to and may_use(admitted.kind, reads=reads)

        return self._units.crew(kit, admitted.tools, late=late)

    def model(self, job: Job, provider: str) -> Model | None:
        """The model that a unit or the lab registered for a provider: in the worker its own, outside it the lab's."""
        own = job.crew.model(provider) if job.crew else None
        return own or self._units.model(provider)


def may_use(kind: ThreadType, *, reads: bool) -> bool:
    """Whether a type gets an added tool: one that may change things gets all, one that only looks those that look.

    A type without tools, or whose tools a project listed, gets none beside its own.
    """
    return bool(kind.tools) and not kind.fixed and (reads or bool(_WRITING & set(kind.tools)))

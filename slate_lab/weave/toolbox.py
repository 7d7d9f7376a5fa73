"""All tools of one lab, by name, looked for when the first action needs them; and who gets those that were added.

In: the built-in tools, and what the configuration adds: functions, units, servers. Out: a mapping that admission
reads. Wired by the lab.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any

from slate_lab.models.protocol import Model
from slate_lab.weave.admission import Admitted
from slate_lab.weave.functions import Functions
from slate_lab.weave.job import Job
from slate_lab.weave.mcp import Servers
from slate_lab.weave.tools import Kit, Tool
from slate_lab.weave.types import ThreadType
from slate_lab.weave.units import Crew, Units

__all__ = ["Toolbox", "may_use"]

_WRITING = frozenset({"write", "edit", "bash", "python"})


class Toolbox(Mapping[str, Tool]):
    """The lab's tools.

    Args:
        base: what every lab has.
        units, functions, servers: whose tools join it when they are first asked for, and stay from then on.
    """

    def __init__(self, base: Mapping[str, Tool], units: Units, functions: Functions, servers: Servers) -> None:
        self._base, self._units, self._functions, self._servers = base, units, functions, servers
        self._found: dict[str, Tool] | None = None
        self._finding = Lock()

    @property
    def _all(self) -> dict[str, Tool]:
        with self._finding:
            if self._found is None:
                found = {**self._base, **self._functions.load(), **self._units.resolution.tools}
                self._found = {**found, **self._servers.start(found)}
            return self._found

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
        found = [name for name in self._all if name not in self._base]
        reads = self._units.resolution.reads | self._servers.reads
        return tuple(name for name in found if may_use(kind, reads=name in reads))

    def crew(self, kit: Kit, admitted: Admitted) -> Crew:
        """The units of one worker, not started yet; they end with the kit."""
        open_to = admitted.action.tools is None and admitted.grant.provider.protocol != "local"

        def late(name: str, reads: bool) -> bool:
            return open_to and may_use(admitted.kind, reads=reads)

        return self._units.crew(kit, admitted.tools, late=late)

    def rows(self) -> list[dict[str, Any]]:
        """What the configuration added: each function, unit and server, its tools, and why it cannot be used."""
        functions = [
            {"function": f, "tools": [f.partition(":")[2]], "refused": self._functions.fault(f) or None}
            for f in self._functions.names
        ]
        return [*functions, *self._units.rows(), *self._servers.rows()]

    def close(self) -> None:
        """End the servers and forget the project's modules."""
        self._servers.close()
        self._functions.close()

    def model(self, job: Job, provider: str) -> Model | None:
        """The model that a unit or the lab registered for a provider: in the worker its own, outside it the lab's."""
        own = job.crew.model(provider) if job.crew else None
        return own or self._units.model(provider)


def may_use(kind: ThreadType, *, reads: bool) -> bool:
    """Whether a type gets an added tool: one that may change things gets all, one that only looks those that look.

    A type without tools, or whose tools a project listed, gets none beside its own.
    """
    return bool(kind.tools) and not kind.fixed and (reads or bool(_WRITING & set(kind.tools)))

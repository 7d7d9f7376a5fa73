"""Which units the workers of a lab get: found, read, tried once in the lab, and refused whole where a name collides.

In: what was found, the patterns of `workerExtensions`, the names that are taken. Out: a `Resolution`, which the lab
keeps as it is: the orchestrator's words and every worker rest on the same one. A unit whose readable names collide is
refused before its code runs; what it registers is looked at again here, and once more in every worker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from slate_lab.errors import LabError
from slate_lab.weave.tools.kit import Tool
from slate_lab.weave.units.finding import Found
from slate_lab.weave.units.names import bad_names, collisions, same_name
from slate_lab.weave.units.source import Declared, entry_problem
from slate_lab.weave.units.unit import Provider, Unit

__all__ = ["LoadUnit", "Refused", "Registrar", "Resolution", "resolve"]

Registrar = Callable[[Unit], object]
"""`register` of a unit's module."""

_INIT = "__init__.py"


@dataclass(frozen=True)
class LoadUnit:
    """What is loaded together into a worker: one module, or one package as a whole.

    Attributes:
        name, where: of the unit.
        registrars: `register` of each module, in the order of the entries.
        tools: what it registered in the lab, by name.
        reads: the names of those that only look.
    """

    name: str
    where: str
    registrars: tuple[Registrar, ...] = field(repr=False)
    tools: Mapping[str, Tool]
    reads: frozenset[str]


@dataclass(frozen=True)
class Refused:
    """A unit that no worker gets, and why."""

    name: str
    where: str
    reason: str


@dataclass(frozen=True)
class Resolution:
    """The units of a lab, as they were at first use.

    Attributes:
        selected: those that every worker loads.
        refused: those that matched and are not loaded.
        providers: the models that units registered in the lab, by provider id.
    """

    selected: tuple[LoadUnit, ...] = ()
    refused: tuple[Refused, ...] = ()
    providers: Mapping[str, Provider] = field(default_factory=dict)

    @property
    def tools(self) -> dict[str, Tool]:
        """Every tool of the selected units, by name, as it was registered in the lab."""
        return {name: tool for unit in self.selected for name, tool in unit.tools.items()}

    @property
    def reads(self) -> frozenset[str]:
        """The names of those that only look."""
        return frozenset(name for unit in self.selected for name in unit.reads)


@dataclass
class _Seen:
    """One module that was tried in the lab."""

    register: Registrar
    unit: Unit


def resolve(found: Sequence[Found], patterns: Iterable[str], taken: Iterable[str], *, held: str = "") -> Resolution:
    """Try what matches and keep what may be loaded.

    Args:
        found: in the order in which names are given away: the first unit with a name, or with a tool's name, has it.
        patterns: regular expressions, searched anywhere in a unit's name.
        taken: names of tools that are the lab's already.
        held: why code of the project may not run; empty if it may. Installed units are not the project's.
    """
    trial = _Trial([re.compile(p) for p in patterns], {same_name(n) for n in taken}, held)
    for one in found:
        trial.consider(one)
    return Resolution(tuple(trial.selected), tuple(trial.refused), trial.providers)


class _Trial:
    def __init__(self, patterns: list[re.Pattern[str]], taken: set[str], held: str) -> None:
        self._patterns, self._taken, self._held = patterns, taken, held
        self._names: set[str] = set()
        self.selected: list[LoadUnit] = []
        self.refused: list[Refused] = []
        self.providers: dict[str, Provider] = {}

    def consider(self, found: Found) -> None:
        """One module or package."""
        if found.module.partition(".")[0] == "slate_lab":
            return self._refuse(found, found.name, "it is the lab itself") if self._wants(found.name) else None
        if found.name in self._names:
            return self._refuse(found, found.name, "another unit has this name") if self._wants(found.name) else None
        self._names.add(found.name)
        if found.parts is None:
            return self._module(found, found.name, found.module, found.own)
        entries = found.own.entries or ((_INIT,) if found.own.registers and not found.own.odd_entries else ())
        problem = self._no_whole(found, entries)
        if self._wants(found.name) and not problem:
            return self._package(found, entries)
        if self._wants(found.name) and (found.own.entries or found.own.odd_entries):
            self._refuse(found, found.name, f"not loaded as a whole: {problem}; its modules are looked at one by one")
        for path, part in found.parts.items():
            self._module(found, _part_name(found, path), _dotted(found, path), part)
        return None

    def _wants(self, name: str) -> bool:
        return any(pattern.search(name) for pattern in self._patterns)

    def _refuse(self, found: Found, name: str, reason: str) -> None:
        self.refused.append(Refused(name, found.where, reason))

    def _no_whole(self, found: Found, entries: tuple[str, ...]) -> str:
        """Why a package cannot be one load unit; empty if it may be."""
        if found.own.odd_entries or not entries:
            return "__entries__ is no literal list of paths"
        for entry in entries:
            problem = entry_problem(entry) or ("" if _path(entry) in (found.parts or {}) else "it is not there")
            if problem:
                return f"the entry {entry!r}: {problem}"
        return ""

    # one module

    def _module(self, found: Found, name: str, module: str, source: Declared) -> None:
        if not self._wants(name) or not (source.registers or source.fault):
            return
        reason = self._before(found, [source])
        if reason:
            return self._refuse(found, name, reason)
        seen = self._try(found, name, module)
        if isinstance(seen, str):
            return self._refuse(found, name, seen)
        return self._keep(found, name, [seen])

    def _before(self, found: Found, sources: Sequence[Declared]) -> str:
        """Why its code is not even run."""
        if self._held and found.where.startswith("units/"):
            return self._held
        fault = next((source.fault for source in sources if source.fault), "")
        return fault or self._colliding([name for source in sources for name in source.tools], "declares")

    def _colliding(self, names: Sequence[str], does: str) -> str:
        taken = collisions(names, self._taken)
        if taken:
            return f"refused whole: it {does} {', '.join(taken)}, the name of a tool that is not its own"
        bad = bad_names(names)
        return f"refused whole: it {does} {bad[0][:80]!r}, which is no name for a tool" if bad else ""

    def _try(self, found: Found, name: str, module: str) -> _Seen | str:
        """Run a module and its `register` once, in the lab; or why that failed."""
        unit = Unit(name)
        try:
            register = found.load(module).register
            register(unit)
        except (Exception, SystemExit, GeneratorExit) as e:  # noqa: BLE001  foreign code: one bad unit spoils no other
            said = e.message if isinstance(e, LabError) else f"{type(e).__name__}: {e}"
            return f"it failed when it was loaded: {said[:300]}"
        finally:
            unit.close()
        return _Seen(register, unit)

    def _keep(self, found: Found, name: str, seen: Sequence[_Seen]) -> None:
        """Select a unit that was tried, unless what it registered forbids it."""
        tools = {n: tool for s in seen for n, tool in s.unit.tools.items()}
        twice = sum(len(s.unit.tools) for s in seen) - len(tools)
        reason = self._colliding(list(tools), "registers")
        if reason or twice:
            return self._refuse(found, name, reason or "refused whole: two of its entries register the same tool")
        for s in seen:
            self.providers |= {id: model for id, model in s.unit.providers.items() if id not in self.providers}
        if not tools:
            return self._refuse(found, name, "it registers no tool")
        self._taken |= {same_name(n) for n in tools}
        self.selected.append(
            LoadUnit(
                name,
                found.where,
                tuple(s.register for s in seen),
                tools,
                frozenset(n for s in seen for n in s.unit.reads),
            )
        )
        return None

    # a package

    def _package(self, found: Found, entries: tuple[str, ...]) -> None:
        """A package as a whole if every entry registers a tool, else the entries that do, one by one."""
        parts = found.parts or {}
        reason = self._before(found, [found.own, *(parts[_path(entry)] for entry in entries)])
        if reason:
            return self._refuse(found, found.name, reason)
        tried = {e: self._try(found, _part_name(found, _path(e)), _dotted(found, _path(e))) for e in entries}
        good = {e: s for e, s in tried.items() if isinstance(s, _Seen) and s.unit.tools}
        if len(good) == len(entries) or entries == (_INIT,):
            first = next(iter(tried.values()))
            if isinstance(first, str):
                return self._refuse(found, found.name, first)
            return self._keep(found, found.name, [s for s in tried.values() if isinstance(s, _Seen)])
        missing = ", ".join(e for e in entries if e not in good)
        self._refuse(found, found.name, f"not loaded as a whole: {missing} registers no tool; the others one by one")
        for entry, seen in tried.items():
            name = _part_name(found, _path(entry))
            if isinstance(seen, str):
                self._refuse(found, name, seen)
            elif self._wants(name):
                self._keep(found, name, [seen])
        return None


def _path(entry: str) -> str:
    """A declared entry as a path in its package: `./a.py` is `a.py`."""
    return PurePosixPath(entry).as_posix()


def _part_name(found: Found, path: str) -> str:
    stem = path.removesuffix(".py").removesuffix("/__init__")
    return found.name if path == _INIT else f"{found.name}/{stem}"


def _dotted(found: Found, path: str) -> str:
    stem = path.removesuffix(".py").replace("/", ".")
    return found.module if path == _INIT else f"{found.module}.{stem.removesuffix('.__init__')}"

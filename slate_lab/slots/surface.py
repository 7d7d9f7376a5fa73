"""The surface: the folder of a project that holds its slots, found, read and checked as a whole.

In: the project's root and the configured folder. Out: a frozen `Surface`, or one `ConfigError` with every problem, each
with file and line. Nothing is run. Called by `watch` before a turn, and by the verbs that list or check slots.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from slate_lab.errors import ConfigError, Place, Problem
from slate_lab.records import near
from slate_lab.slots.capabilities import Grants
from slate_lab.slots.entrypoint import Entrypoint, find_entrypoint
from slate_lab.slots.manifest import Manifest, read_manifest
from slate_lab.slots.pipelines import PHASES, Lane, Listed, Phase, read_pipelines

__all__ = ["BASE", "PIPELINES", "Slot", "Surface", "load_surface", "surface_folder"]

PIPELINES, MANIFEST = "pipelines.yaml", "slot.yaml"
BASE = ("base_input", "base_output")
"""The seed slots that a starter project holds; a thread type's `slots: base` means these."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


class Slot(Struct, frozen=True, kw_only=True):
    """One slot of the surface.

    Attributes:
        id: the name of its folder.
        lane: where the pipeline lists it; None is inactive.
        grants: its capabilities.
    """

    id: str
    phase: Phase
    lane: Lane | None
    folder: Path
    manifest: Manifest
    entrypoint: Entrypoint
    grants: Grants


class Surface(Struct, frozen=True, kw_only=True):
    """A checked surface.

    Attributes:
        project: the project's root.
        folder: the surface's own, None if the project has none.
        slots: all of them: the listed ones in the order in which they run, then the inactive ones.
        warnings: what is odd but does no harm.
    """

    project: Path
    folder: Path | None
    slots: tuple[Slot, ...] = ()
    warnings: tuple[str, ...] = ()

    def lane(self, phase: Phase, lane: Lane) -> tuple[Slot, ...]:
        """The slots of a lane, in order."""
        return tuple(slot for slot in self.slots if slot.phase == phase and slot.lane == lane)

    def only(self, ids: Sequence[str] | None) -> Surface:
        """The surface with only these slots; None is all."""
        if ids is None:
            return self
        return Surface(project=self.project, folder=self.folder, slots=tuple(s for s in self.slots if s.id in ids))

    @property
    def active(self) -> tuple[Slot, ...]:
        """The slots that run."""
        return tuple(slot for slot in self.slots if slot.lane is not None)


def surface_folder(project: Path, name: str) -> Path:
    """The folder `name` of `project`, which may not exist.

    Raises:
        ConfigError: it leads outside the project, or is no folder.
    """
    real, folder = Path(os.path.realpath(project)), project / name
    found = Path(os.path.realpath(folder))
    place = Place(path="runtime.surface_root")
    if ".." in Path(name).parts or Path(name).is_absolute() or not name or not found.is_relative_to(real):
        message = f"{name!r} leads outside the project: name a folder inside it, without `..` or links out"
        raise ConfigError([Problem("surface_outside", message, place)])
    if folder.exists() and not folder.is_dir():
        raise ConfigError([Problem("surface_no_folder", f"{name!r} is a file: name a folder", place)])
    return folder


def load_surface(project: Path, name: str = "agent", *, allowed: Sequence[str] = ("*",)) -> Surface:
    """The surface of `project`, checked; empty if its folder does not exist.

    Args:
        project: the project's root.
        name: the configured folder.
        allowed: capabilities that the project allows at most.

    Raises:
        ConfigError: every problem of the surface, in the order of files and lines.
    """
    folder = surface_folder(project, name)
    if not folder.is_dir():
        return Surface(project=project, folder=None)
    problems: list[Problem] = []
    warnings: list[str] = []
    pipelines = folder / PIPELINES
    listed: list[Listed] = []
    outside = [f for f in (pipelines, folder / "lib") if not _is_within(f, project)]
    for file in outside:
        text = "this leads outside the project: keep it inside, without links out"
        problems.append(Problem("surface_outside", text, Place(str(file))))
    if pipelines.is_file() and pipelines not in outside:
        listed, wrong = read_pipelines(pipelines)
        problems += wrong
    elif pipelines not in outside:
        text = "this file is missing: a surface needs it (schema_version: 1, then the phases)"
        problems.append(Problem("no_pipelines", text, Place(str(pipelines))))
    found = [entry for phase in PHASES for entry in _discover(project, folder / phase, phase, problems, warnings)]
    _check_twice(found, problems)
    problems += _check_listed(pipelines, listed, found)
    slots = [_slot(project, path, phase, listed, allowed, problems) for phase, path in found]
    if problems:
        raise ConfigError(sorted(problems, key=_order))
    known = [slot for slot in slots if slot is not None]
    warnings += [_withheld(slot) for slot in known if slot.grants.withheld]
    rank = {entry.id: n for n, entry in enumerate(listed)}
    known.sort(key=lambda s: (s.lane is None, rank.get(s.id, 0)))
    return Surface(project=project, folder=folder, slots=tuple(known), warnings=tuple(warnings))


def _discover(
    project: Path, folder: Path, phase: Phase, problems: list[Problem], warnings: list[str]
) -> Iterator[tuple[Phase, Path]]:
    """The slots of one phase, by name."""
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "_")) or not path.is_dir():
            continue
        if not (path / MANIFEST).exists():
            warnings.append(f"{path} has no {MANIFEST} and is no slot: add one, or take the folder away")
        elif not _ID.fullmatch(path.name):
            text = f"{path.name!r} is no slot id: letters, digits, `.`, `_` and `-`, at most 64"
            problems.append(Problem("bad_slot_id", text, Place(str(path))))
        elif not _is_within(path / MANIFEST, project):
            text = "this slot leads outside the project: keep it inside, without links out"
            problems.append(Problem("slot_outside", text, Place(str(path))))
        else:
            yield phase, path


def _is_within(path: Path, project: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(project))


def _check_twice(found: list[tuple[Phase, Path]], problems: list[Problem]) -> None:
    first: dict[str, Phase] = {}
    for phase, path in found:
        if path.name in first:
            text = f"the slot id {path.name} exists in {first[path.name]} too: rename one of the two folders"
            problems.append(Problem("duplicate_slot", text, Place(str(path / MANIFEST), 1)))
        first.setdefault(path.name, phase)


def _check_listed(file: Path, listed: list[Listed], found: list[tuple[Phase, Path]]) -> Iterator[Problem]:
    """Entries that stand twice, or that are no slots of their phase."""
    where = {path.name: phase for phase, path in reversed(found)}
    seen: dict[tuple[Phase, str], int] = {}
    for entry in listed:
        place = Place(str(file), entry.line, f"{entry.phase}.{entry.lane}")
        twice = seen.setdefault((entry.phase, entry.id), entry.line) if (entry.phase, entry.id) in seen else None
        seen.setdefault((entry.phase, entry.id), entry.line)
        if twice is not None:
            text = f"{entry.id} is listed twice in {entry.phase}, first in line {twice}: take one away"
            yield Problem("listed_twice", text, place)
        elif (entry.phase, entry.id) not in {(phase, path.name) for phase, path in found}:
            yield Problem("unknown_slot", _absent(entry, where), place)


def _absent(entry: Listed, where: dict[str, Phase]) -> str:
    if entry.id in where:
        return f"{entry.id} is a slot of {where[entry.id]}, not of {entry.phase}: list it there, or move its folder"
    close = near(entry.id, where, limit=1)
    hint = f"did you mean {close[0]}?" if close else f"make {entry.phase}/{entry.id}/{MANIFEST}, or take it out"
    return f"there is no slot {entry.id} in {entry.phase}; {hint}"


def _slot(
    project: Path,
    folder: Path,
    phase: Phase,
    listed: list[Listed],
    allowed: Sequence[str],
    problems: list[Problem],
) -> Slot | None:
    file = folder / MANIFEST
    manifest, wrong = read_manifest(file)
    problems += wrong
    if any(problem.place.path == "entrypoint" for problem in wrong):
        return None
    try:
        entrypoint = find_entrypoint(manifest.entrypoint, folder=folder, project=project)
    except ValueError as e:
        problems.append(Problem("entrypoint", str(e), Place(str(file), _line(file, "entrypoint"), "entrypoint")))
        return None
    lane = next((e.lane for e in listed if e.id == folder.name and e.phase == phase), None)
    return Slot(
        id=folder.name,
        phase=phase,
        lane=lane,
        folder=folder,
        manifest=manifest,
        entrypoint=entrypoint,
        grants=Grants(manifest.capabilities, tuple(allowed)),
    )


def _line(file: Path, key: str) -> int:
    """The line of a key, 1 if it is not written."""
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((n for n, line in enumerate(lines, 1) if line.startswith(f"{key}:")), 1)


def _withheld(slot: Slot) -> str:
    names = ", ".join(slot.grants.withheld)
    return f"{slot.folder / MANIFEST}: {names} is asked for but not allowed: add it to slots.capabilities in slate.yaml"


def _order(problem: Problem) -> tuple[bool, str, int]:
    return (not problem.place.file.endswith(PIPELINES), problem.place.file, problem.place.line or 0)

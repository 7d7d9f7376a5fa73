"""Where units lie: the project's `units/` folder, and the entry points `slate_lab.units` of installed packages.

In: a project. Out: `Found`, one per module or package, read but not run. Called by `resolving`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from slate_lab.weave.units.source import Declared, declared

__all__ = ["FOLDER", "GROUP", "Found", "find_installed", "find_project"]

FOLDER = "units"
GROUP = "slate_lab.units"


@dataclass(frozen=True)
class Found:
    """One module or package that may hold units.

    Attributes:
        name: what `workerExtensions` is matched with.
        where: for people.
        module: the module's own name, as `load` takes it.
        load: runs and gives a module.
        own: what the module itself declares.
        parts: what the modules of a package declare, by their path in it; None if it is a plain module.
    """

    name: str
    where: str
    module: str
    load: Callable[[str], ModuleType] = field(repr=False)
    own: Declared
    parts: Mapping[str, Declared] | None = None


def find_project(root: Path, load: Callable[[str], ModuleType]) -> list[Found]:
    """The units of the project's folder, by name; names that begin with `_` are the units' own business."""
    folder = root / FOLDER
    found = []
    for file in sorted([*folder.glob("*.py"), *folder.glob("*/__init__.py")]):
        place = file.parent if file.name == "__init__.py" else file
        if not place.stem.startswith("_") and place.stem.isidentifier() and place.parent == folder:
            where = place.relative_to(root).as_posix()
            parts = _parts(file.parent) if place.is_dir() else None
            found.append(Found(place.stem, where, place.stem, load, _read(file), parts))
    return found


def find_installed() -> list[Found]:
    """The units that installed packages offer, by name. No package is imported for it."""
    return [_installed(point) for point in sorted(entry_points(group=GROUP), key=lambda p: (p.name, p.value))]


def _installed(point: EntryPoint) -> Found:
    file = _source_of(point.module)
    where = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
    own = _read(file) if file else Declared(registers=True)  # its source cannot be read: what it registers is checked
    parts = _parts(file.parent) if file and file.name == "__init__.py" else None
    return Found(point.name, where, point.module, importlib.import_module, own, parts)


def _source_of(module: str) -> Path | None:
    """The source file of an installed module; only its top package is looked up, so that nothing of it runs."""
    top, *rest = module.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    if not rest:
        return Path(spec.origin) if spec.origin.endswith(".py") else None
    for folder in spec.submodule_search_locations or ():
        base = Path(folder).joinpath(*rest)
        for file in (base / "__init__.py", base.with_name(f"{base.name}.py")):
            if file.is_file():
                return file
    return None


def _parts(folder: Path) -> dict[str, Declared]:
    """The modules of a package by path, `__init__.py` too."""
    return {file.relative_to(folder).as_posix(): _read(file) for file in _modules(folder)}


def _modules(folder: Path) -> Iterator[Path]:
    yield from sorted(f for f in folder.rglob("*.py") if all(p.isidentifier() for p in _dotted(folder, f)))


def _dotted(folder: Path, file: Path) -> tuple[str, ...]:
    return file.relative_to(folder).with_suffix("").parts


def _read(file: Path) -> Declared:
    try:
        return declared(file.read_bytes())
    except OSError as e:
        return Declared(fault=f"it cannot be read: {e.strerror or e}")

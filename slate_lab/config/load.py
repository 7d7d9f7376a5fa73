"""From files to a configuration: read, merge, override, validate, with a place for everything.

In: a project's root. Out: `Loaded`, or one `ConfigError` with every problem. The home file comes first, the project's
over it, overrides last; tables merge key by key, everything else replaces. Called by the lab and by `slate-lab check`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platformdirs import user_config_path
from pydantic import ValidationError

from slate_lab.config.json_text import read_json
from slate_lab.config.memory_checks import memory_problems
from slate_lab.config.nodes import MAX_DEPTH, Fault, Parsed, encodable, path_text
from slate_lab.config.nodes import Path as KeyPath
from slate_lab.config.problems import problems_of
from slate_lab.config.schema import LabConfig
from slate_lab.config.trust import Trust
from slate_lab.config.values import MAX_SAFE, read_whole, shown
from slate_lab.config.yaml_text import read_yaml
from slate_lab.errors import ConfigError, Place, Problem

__all__ = ["MAX_BYTES", "Loaded", "home_directory", "load_config", "nearest_place", "read_file"]

MAX_BYTES = 256 * 1024
"""The largest file that is read."""

OVERRIDE = "override"
_NAMES = ("slate.yaml", "slate.json")
_DEFAULT_CONCURRENT = 8


@dataclass(frozen=True)
class Loaded:
    """A configuration and where it came from.

    Attributes:
        config: the effective values.
        warnings: what was wrong but has a safe answer, for people.
        files: the files that were read, home first.
        places: file and line of every key path that a file or override set, as `{"limits.thread.usd": Place}`.
    """

    config: LabConfig
    warnings: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    places: Mapping[str, Place] = field(default_factory=dict)

    @property
    def origins(self) -> dict[str, str]:
        """`file:line`, or `override`, of every key path that was set; a path that is absent has its default."""
        return {path: f"{p.file}:{p.line}" if p.line else p.file for path, p in self.places.items()}


@dataclass
class _Merged:
    """What all sources say together: plain values, and the place of every key path."""

    values: dict[str, Any] = field(default_factory=dict)
    places: dict[KeyPath, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    whole: bool = True

    def lay(self, values: Mapping[str, Any], places: Mapping[KeyPath, Place]) -> None:
        """Lay `values` over what is there; places of what is replaced are forgotten."""
        replaced: set[KeyPath] = set()
        self.values = _merge(self.values, values, (), replaced)
        self.places = {
            path: place
            for path, place in self.places.items()
            if not any(path[:end] in replaced for end in range(1, len(path) + 1))
        }
        self.places.update(places)

    def place(self, path: KeyPath) -> Place:
        """The place of `path`, or of the nearest table around it."""
        for end in range(len(path), 0, -1):
            found = self.places.get(path[:end])
            if found is not None:
                return Place(found.file, found.line, path_text(path))
        return Place(path=path_text(path))


def load_config(
    root: Path,
    *,
    overrides: Mapping[str, Any] | None = None,
    home: Path | None = None,
    trust: Trust | None = None,
) -> Loaded:
    """The effective configuration of the project at `root`.

    Args:
        root: the project's directory; it may hold `slate.yaml` or `slate.json`, or neither.
        overrides: values that win over the files, with the keys of the file (camelCase); real Python types.
        home: the directory of the user's own file, or that file; None is the platform's place for it.
        trust: what of the project's file counts; None takes the whole file. In a project that is not trusted the home
            file wins over what is left.

    Raises:
        ConfigError: with all problems, each with file, line and key path.
    """
    merged = _Merged()
    files: list[Path] = []
    if not root.is_dir():
        raise ConfigError([Problem("no_folder", "this folder does not exist", Place(str(root)))])
    guard = None if trust is None or trust.trusted else trust
    for directory in dict.fromkeys((root, home_directory(home)) if guard else (home_directory(home), root)):
        file = _find(directory, merged.problems)
        if file is not None:
            files.insert(0 if guard else len(files), file)
            _add_file(merged, file, trust if directory is root else None)
    _add_overrides(merged, overrides or {})
    warnings = _settle_concurrency(merged)
    config = _validate(merged)
    if config is None or merged.problems:
        raise ConfigError(_in_order(merged.problems, files))
    return Loaded(config, warnings, tuple(files), {path_text(path): place for path, place in merged.places.items()})


def nearest_place(places: Mapping[str, Place], path: str) -> Place:
    """The place of the key path `path`, or of the nearest table around it that stands in a file."""
    outer = path
    while outer:
        found = places.get(outer)
        if found is not None:
            return Place(found.file, found.line, path)
        outer = outer[: max(outer.rfind("."), outer.rfind("["), 0)]
    return Place(path=path)


def home_directory(home: Path | None = None) -> Path:
    """Where the user's own file is looked for (a file given as `home` is taken as it is)."""
    return user_config_path("slate_lab") if home is None else home


def _find(directory: Path, problems: list[Problem]) -> Path | None:
    """The one configuration file of `directory`."""
    if directory.suffix in (".yaml", ".json") and not directory.is_dir():
        return directory if directory.exists() else None
    present = [directory / name for name in _NAMES if (directory / name).exists()]
    for path in [path for path in present if not path.is_file()]:
        problems.append(Problem("not_a_file", "this cannot be read: it is not a regular file", Place(str(path))))
        return None
    if len(present) > 1:
        message = "slate.yaml and slate.json both exist here: keep slate.yaml and remove slate.json, or the other way"
        problems.append(Problem("two_files", message, Place(str(directory))))
        return None
    if not present and (directory / "slate.yml").exists():
        message = "this file is not read: rename it to slate.yaml"
        problems.append(Problem("file_name", message, Place(str(directory / "slate.yml"))))
    return present[0] if present else None


def _add_file(merged: _Merged, file: Path, trust: Trust | None) -> None:
    parsed = read_file(file)
    merged.problems += [Problem(f.code, f.message, Place(str(file), f.line, path_text(f.path))) for f in parsed.faults]
    if parsed.root is None:
        merged.whole = False
        return
    values = parsed.root.plain()
    assert isinstance(values, dict)
    values = trust.keep(file, values) if trust else values
    places = {path: Place(str(file), line) for path, line in parsed.root.lines() if path[0] in values}
    merged.lay(values, places)


def read_file(file: Path) -> Parsed:
    """The text of one YAML or JSON file as nodes that know their line; what is wrong with it is listed."""
    try:
        if file.exists() and not file.is_file() and not file.is_dir():  # a pipe would be waited for
            return Parsed(None, (Fault("unreadable", "cannot be read: it is no ordinary file"),))
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as e:
        return Parsed(None, (Fault("unreadable", f"cannot be read: {e.strerror or e}"),))
    if len(raw) > MAX_BYTES:
        return Parsed(None, (Fault("unreadable", f"larger than {MAX_BYTES // 1024} KiB"),))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = raw.count(b"\n", 0, e.start) + 1
        return Parsed(None, (Fault("unreadable", f"not UTF-8 (byte {e.start})", line),))
    return read_json(text) if file.suffix == ".json" else read_yaml(text)


def _merge(base: Mapping[str, Any], over: Mapping[str, Any], path: KeyPath, replaced: set[KeyPath]) -> dict[str, Any]:
    """Tables merge key by key; lists, scalars and null replace. Paths that were replaced are added to `replaced`."""
    merged = dict(base)
    for key, value in over.items():
        before = base.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            merged[key] = _merge(before, value, (*path, key), replaced)
        else:
            merged[key] = value
            replaced.add((*path, key))
    return merged


def _add_overrides(merged: _Merged, overrides: Mapping[str, Any]) -> None:
    places: dict[KeyPath, Place] = {}
    values = _plain(overrides, (), places, merged.problems)
    merged.lay(values, places)


def _plain(value: Any, path: KeyPath, places: dict[KeyPath, Place], problems: list[Problem]) -> Any:
    """A Python value as plain tables and lists, with a place for every key."""
    if path:
        places[path] = Place(OVERRIDE, None, path_text(path))
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return value
    if not isinstance(value, Mapping | list | tuple):
        message = f"expected a list, found {shown(value)}"
        problems.append(Problem("override", message, Place(OVERRIDE, None, path_text(path))))
        return []
    if len(path) >= MAX_DEPTH:
        problems.append(
            Problem("override", f"nested more than {MAX_DEPTH} deep", Place(OVERRIDE, None, path_text(path)))
        )
        return None
    if not isinstance(value, Mapping):
        return [_plain(item, (*path, index), places, problems) for index, item in enumerate(value)]
    table = {}
    for key, item in value.items():
        if isinstance(key, str) and encodable(key):
            table[key] = _plain(item, (*path, key), places, problems)
        else:
            message = f"a key must be text, found {shown(key)}"
            problems.append(Problem("override", message, Place(OVERRIDE, None, path_text(path))))
    return table


def _settle_concurrency(merged: _Merged) -> tuple[str, ...]:
    """`maxConcurrent`: a whole number from 1 to 2^53 - 1, taken as it is; anything else is one warning, and 8."""
    if "maxConcurrent" not in merged.values:
        return ()
    value = merged.values["maxConcurrent"]
    try:
        number = read_whole(value)
    except ValueError:
        number = 0
    if number >= 1:
        return ()
    place = merged.place(("maxConcurrent",))
    merged.values = {**merged.values, "maxConcurrent": _DEFAULT_CONCURRENT}
    message = f"expected a whole number from 1 to {MAX_SAFE}, found {shown(value)}: using {_DEFAULT_CONCURRENT}"
    return (str(Problem("max_concurrent", message, place)),)


def _validate(merged: _Merged) -> LabConfig | None:
    """The values as a configuration; problems are added. A file that cannot be read leaves nothing to validate."""
    if not merged.whole:
        return None
    merged.problems += memory_problems(merged.values, merged.place)
    try:
        return LabConfig.model_validate(merged.values)
    except ValidationError as e:
        merged.problems += problems_of(e, merged.place)
        return None


def _in_order(problems: list[Problem], files: list[Path]) -> list[Problem]:
    """Problems by file and line; those of overrides last."""
    rank = {str(file): index for index, file in enumerate(files)}
    return sorted(problems, key=lambda p: (rank.get(p.place.file, len(rank)), p.place.line or 0))

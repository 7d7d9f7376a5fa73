"""The starter project: a commented `slate.yaml` and three notes of one incident, to have something to ask about.

In: a directory. Out: files in it, copied from the package's data. Called by `slate-lab init` and `%slate init`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from slate_lab.errors import ConfigError, Place, Problem

__all__ = ["starter_files", "write_starter"]


def starter_files() -> dict[str, str]:
    """The starter's files: relative path with `/`, and text.

    Raises:
        ConfigError: the package was installed without its data.
    """
    installed = files("slate_lab") / "data" / "starter"
    checkout = Path(__file__).parents[2] / "data" / "starter"
    for place in (installed, checkout):
        if place.is_dir():
            return dict(sorted(_texts(place, "")))
    raise ConfigError([Problem("no_starter", "the starter project is missing from the package: reinstall slate-lab")])


def write_starter(root: Path, *, force: bool = False) -> list[Path]:
    """Write the starter project into `root`, which is made if it is not there.

    Args:
        root: the project's directory.
        force: replace files of the same names; others are never touched.

    Returns:
        The files written.

    Raises:
        ConfigError: a file is there already and `force` is not set, or the project has slate.json (nothing is written
            then); or `root` cannot be written.
    """
    texts = starter_files()
    problems = [_taken(root / name) for name in texts if os.path.lexists(root / name) and not force]
    if (root / "slate.json").exists():
        message = "this project has slate.json, and only one of the two is read: remove it first"
        problems.append(Problem("two_files", message, Place(str(root / "slate.json"))))
    if problems:
        raise ConfigError(problems)
    try:
        return [_write(root / name, text) for name, text in texts.items()]
    except OSError as e:
        message = f"cannot be written: {e.strerror or e}"
        raise ConfigError([Problem("unwritable", message, Place(str(e.filename or root)))]) from e


def _taken(path: Path) -> Problem:
    return Problem("exists", "exists already; nothing was written (force replaces it)", Place(str(path)))


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():  # replaced itself, never what it points to
        path.unlink()
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def _texts(place: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for entry in place.iterdir():
        if entry.name == "__pycache__":
            continue
        if entry.is_dir():
            yield from _texts(entry, f"{prefix}{entry.name}/")
        elif not entry.name.startswith("."):
            yield prefix + entry.name, entry.read_text(encoding="utf-8")

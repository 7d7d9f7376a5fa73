"""All files below a folder, in sorted order, each opened relative to the folder it stands in.

One descriptor is open for each level, got from its parent's and refusing links; nothing is resolved again from the
root, so a deep or broad tree costs one step for each name. What cannot be shown or entered is told to the `Sweep`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from io import BufferedReader

from msgspec import Struct

from slate_lab.weave.tools.opening import is_odd, open_file, open_folder
from slate_lab.weave.tools.sweep import Sweep

__all__ = ["DEPTH", "MAX_PATH", "Found", "listing", "walk"]

DEPTH = 100
"""The most levels entered below the folder asked for; each holds one descriptor open."""
MAX_PATH = 4_096
"""The longest path, in characters, that tools take or follow."""


class Found(Struct, frozen=True):
    """A regular file; `open` works until the walk goes on to the next.

    Attributes:
        path: relative to the workspace.
        name: its last part.
        folder: descriptor of the folder it stands in.
    """

    path: str
    name: str
    folder: int

    def open(self) -> BufferedReader:
        """Its bytes; raises `OSError` if it is gone, became something else, or is not readable."""
        return open_file(self.name, folder=self.folder)


def listing(fd: int, sweep: Sweep, *, hide: Callable[[str], bool] | None = None) -> Iterator[tuple[str, bool]]:
    """The open folder as `(name, is a folder)`, sorted; links and special files are left out, odd names skipped."""
    found: list[tuple[str, bool]] = []
    try:
        with os.scandir(fd) as scan:
            for entry in scan:
                folder = entry.is_dir(follow_symlinks=False)
                if not sweep.go_on():
                    break
                if not (folder or entry.is_file(follow_symlinks=False)) or (hide and hide(entry.name)):
                    continue
                if is_odd(entry.name):
                    sweep.skip("folder" if folder else "file", "odd names")
                else:
                    found.append((entry.name, folder))
    except OSError:
        sweep.skip("folder", "not readable")
    yield from sorted(found)


def walk(fd: int, top: str, sweep: Sweep, *, hide: Callable[[str], bool] | None = None) -> Generator[Found, None, None]:
    """All regular files below the open folder `fd`, whose path is `top` ("" for the root).

    `hide` leaves out names of that folder itself. `fd` stays the caller's; close the generator to free the others.
    """
    levels = [(fd, f"{top}/" if top else "", listing(fd, sweep, hide=hide))]
    try:
        while levels:
            folder, prefix, entries = levels[-1]
            name, is_folder = next(entries, ("", False))
            if not name:
                levels.pop()
                if levels:
                    os.close(folder)
            elif not sweep.go_on():
                return
            elif not is_folder:
                yield Found(prefix + name, name, folder)
            elif len(levels) > DEPTH or len(prefix) + len(name) >= MAX_PATH:
                sweep.skip("folder", f"deeper than {DEPTH} folders")
            elif (inner := _enter(name, folder, sweep)) is not None:
                levels.append((inner, f"{prefix}{name}/", listing(inner, sweep)))
    finally:
        for folder, _, _ in levels[1:]:
            os.close(folder)


def _enter(name: str, folder: int, sweep: Sweep) -> int | None:
    try:
        return open_folder(name, folder=folder)
    except OSError:
        sweep.skip("folder", "not readable")
        return None

"""The surface as it is at this turn: read again when a file changed, with a revision of every slot's code.

In: the project, the configured folder, what is allowed. Out: `Seen`. Called by `pipeline` at the start of a turn. A
look costs a `stat` per file; only what changed is read, and only code whose content changed is loaded again.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from slate_lab.slots.surface import Slot, Surface, load_surface

__all__ = ["Seen", "Watch"]

_FRESH_NS = 50_000_000
"""A file changed so shortly before a look may change again within the same tick of its clock: it is read again."""
_SKIP = ("__pycache__",)

_Stamps = dict[str, tuple[int, int, int, int]]


class Seen(Struct, frozen=True):
    """A surface with the revision of each slot's code, and of what they share."""

    surface: Surface
    revisions: dict[str, str]
    shared: str


class Watch:
    """Looks at a surface, again and again.

    Args:
        project, name: the project's root and the surface's folder in it.
        allowed: capabilities that the project allows at most.
        permit: refuses a surface whose code must not run; asked whenever anything changed.
    """

    def __init__(
        self, project: Path, name: str, *, allowed: Sequence[str], permit: Callable[[Surface], None] | None = None
    ) -> None:
        self._project, self._name, self._allowed, self._permit = project, name, tuple(allowed), permit
        self._stamps: _Stamps | None = None
        self._seen: Seen | None = None
        self._extra: tuple[Path, ...] = ()

    def look(self) -> Seen:
        """The surface now.

        Raises:
            ConfigError: it has problems; all of them are listed, and the next look begins anew.
            LabError: it is not permitted.
        """
        stamps = self._stamp()
        if self._seen is not None and stamps == self._stamps and not _is_fresh(stamps):
            return self._seen
        self._stamps = self._seen = None
        surface = load_surface(self._project, self._name, allowed=self._allowed)
        if self._permit is not None:
            self._permit(surface)
        shared = _hash(surface.folder / "lib") if surface.folder else ""
        revisions = {slot.id: _revision(slot, shared) for slot in surface.active}
        self._extra = tuple(slot.entrypoint.file for slot in surface.active if slot.entrypoint.module is None)
        self._stamps, self._seen = self._stamp(), Seen(surface, revisions, shared)
        return self._seen

    def _stamp(self) -> _Stamps:
        found: _Stamps = {}
        _stamps(os.path.join(self._project, self._name), found)
        for file in self._extra:
            _note(str(file), found)
        return found


def _stamps(folder: str, found: _Stamps) -> None:
    """Every file below `folder`; what is added or taken away changes the keys, so folders need no stamp."""
    try:
        entries = os.scandir(folder)
    except OSError:
        return
    with entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name in _SKIP:
                continue
            if entry.is_dir(follow_symlinks=False):
                found[entry.path] = (0, 0, 0, 0)
                _stamps(entry.path, found)
            else:
                _note(entry.path, found)


def _note(path: str, found: _Stamps) -> None:
    try:
        s = os.stat(path)
    except OSError:
        return
    found[path] = s.st_mtime_ns, s.st_ctime_ns, s.st_size, s.st_ino


def _is_fresh(stamps: _Stamps) -> bool:
    newest = max((max(s[0], s[1]) for s in stamps.values()), default=0)
    return abs(time.time_ns() - newest) < _FRESH_NS


def _revision(slot: Slot, shared: str) -> str:
    digest = hashlib.sha256(f"{shared} {_hash(slot.folder)} {slot.manifest.entrypoint}".encode())
    if slot.entrypoint.module is None:
        digest.update(slot.entrypoint.file.read_bytes())
    return digest.hexdigest()


def _hash(folder: Path) -> str:
    """The Python files below `folder`, by name and content."""
    digest = hashlib.sha256()
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in _SKIP and not f.startswith("."))
        for name in sorted(f for f in files if f.endswith(".py")):
            path = Path(base) / name
            digest.update(f"{path.relative_to(folder)}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()

"""The surface as it is at this turn: read again when a file changed, with a revision of every slot's code.

In: the project, the configured folder, what is allowed. Out: `Seen`. Called by `pipeline` at the start of a turn. A
look costs a `stat` per file and folder; only what changed is read, and only code whose content changed is loaded again.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from slate_lab.errors import LabError
from slate_lab.slots.surface import Slot, Surface, load_surface

__all__ = ["Seen", "Watch"]

_FRESH_NS = 50_000_000
"""A file changed so shortly before a look may change again within the same tick of its clock: it is read again."""
_TRIES = 5
_SKIP = ("__pycache__",)

_Stamps = dict[str, tuple[int, int, int, int]]


class Seen(Struct, frozen=True):
    """A surface with the revision of each slot's code, and of what they share.

    Attributes:
        files: the SHA-256 of every Python file that may be loaded: what is loaded later must still be that.
    """

    surface: Surface
    revisions: dict[str, str]
    shared: str
    files: dict[str, str]


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
        self._stamps: _Stamps = {}
        self._settled = False
        self._seen: Seen | None = None
        self._extra: tuple[Path, ...] = ()

    def look(self) -> Seen:
        """The surface now.

        Raises:
            ConfigError: it has problems; all of them are listed, and the next look begins anew.
            LabError: it is not permitted, or it does not hold still.
        """
        if self._seen is not None and self._settled and _stands(self._stamps):
            return self._seen
        for _ in range(_TRIES):
            before, now = self._stamp(), time.time_ns()
            seen = self._read()
            self._stamps = self._stamp()
            if before == self._stamps:
                self._settled, self._seen = not _is_fresh(before, now), seen
                return seen
        raise LabError("the slots change while they are read: save them, then ask again", code="slots_change")

    def _read(self) -> Seen:
        """Everything anew."""
        self._seen = None
        surface = load_surface(self._project, self._name, allowed=self._allowed)
        if self._permit is not None:
            self._permit(surface)
        self._extra = tuple(slot.entrypoint.file for slot in surface.active if slot.entrypoint.module is None)
        files: dict[str, str] = {str(file): _sha(file) for file in self._extra}
        shared = _hash(surface.folder / "lib", files) if surface.folder else ""
        revisions = {slot.id: _revision(slot, shared, files) for slot in surface.active}
        return Seen(surface, revisions, shared, files)

    def _stamp(self) -> _Stamps:
        found: _Stamps = {}
        _stamps(os.path.join(self._project, self._name), found)
        for file in self._extra:
            _note(str(file), found)
        return found


def _stamps(folder: str, found: _Stamps) -> None:
    """Every file and folder below `folder`; what is added or taken away changes the stamp of its folder."""
    _note(folder, found)
    try:
        entries = os.scandir(folder)
    except OSError:
        return
    with entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name in _SKIP:
                continue
            if entry.is_dir(follow_symlinks=False):
                _stamps(entry.path, found)
            else:
                _note(entry.path, found)


def _note(path: str, found: _Stamps) -> None:
    try:
        s = os.stat(path)
    except OSError:
        return
    found[path] = s.st_mtime_ns, s.st_ctime_ns, s.st_size, s.st_ino


def _stands(stamps: _Stamps) -> bool:
    """Whether nothing changed; nothing is listed for it."""
    stat = os.stat
    try:
        for path, stamp in stamps.items():
            s = stat(path)
            if (s.st_mtime_ns, s.st_ctime_ns, s.st_size, s.st_ino) != stamp:
                return False
    except OSError:
        return False
    return bool(stamps)


def _is_fresh(stamps: _Stamps, now: int) -> bool:
    newest = max((max(s[0], s[1]) for s in stamps.values()), default=now)
    return abs(now - newest) < _FRESH_NS


def _revision(slot: Slot, shared: str, files: dict[str, str]) -> str:
    text = f"{shared} {_hash(slot.folder, files)} {slot.manifest.entrypoint}"
    if slot.entrypoint.module is None:
        text += files[str(slot.entrypoint.file)]
    return hashlib.sha256(text.encode()).hexdigest()


def _hash(folder: Path, files: dict[str, str]) -> str:
    """The Python files below `folder`, by name and content; each is noted in `files`."""
    digest = hashlib.sha256()
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in _SKIP and not f.startswith("."))
        for name in sorted(f for f in names if f.endswith(".py")):
            path = Path(base) / name
            if path.is_file():
                files[str(path)] = _sha(path)
                digest.update(f"{path.relative_to(folder)}\0{files[str(path)]}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _sha(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()

"""The workspace: the one folder a worker may touch, and the only way its tools open a path.

A path is resolved first and must lie inside the root; then it is opened component by component from the root's own
file descriptor, refusing links, so that a link planted between the check and the use is refused too. Only regular
files and folders are opened: no device, pipe or socket.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import threading
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from io import BufferedReader
from pathlib import Path, PurePosixPath

from slate_lab.errors import ConfigError, LabError, Place, Problem
from slate_lab.weave.tools.opening import FLAGS, NotRegular, is_odd, open_file, open_folder
from slate_lab.weave.tools.sweep import Sweep
from slate_lab.weave.tools.walk import MAX_PATH, Found, listing, walk

__all__ = ["ToolFailed", "Version", "Workspace"]

_CHUNK = 1_000_000
COMPARED = 4_000_000
"""Files up to this size are compared by content before they are replaced; larger ones by their times and size."""

Version = tuple[int, int, int, int]
"""Inode, size, and the times of the last change: another one is another version of a file."""


class ToolFailed(LabError):
    """A tool could not do what it was asked; the message goes back to the model and says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="tool_failed")


class Workspace:
    """The folder `root` and everything below it.

    Args:
        root: an existing folder; links in the root's own path are resolved once.
        hidden: names at the top of the root that tools neither list nor open (the lab's own store).
    """

    def __init__(self, root: Path, *, hidden: tuple[str, ...] = (".slate",)) -> None:
        self.root = Path(os.path.realpath(root))
        self.hidden = frozenset(name.casefold() for name in hidden)
        self._holding = threading.Lock()
        self._held: dict[str, tuple[threading.Lock, int]] = {}

    @classmethod
    def of_project(cls, root: Path, folder: str, *, store: Path | None = None) -> Workspace:
        """The workspace that a project names in its configuration; a `store` that stands in it is hidden.

        Raises:
            ConfigError: it is no folder, or it is the lab's own, or the store stands in one of its folders.
        """
        path = Path(os.path.realpath(root / folder))
        if not path.is_dir() or ".slate" in path.parts:
            message = f"{folder!r} is no folder that workers may use: name one that exists, outside .slate"
            raise ConfigError([Problem("bad_workspace", message, Place(path="workspace"))])
        place = None if store is None else Path(os.path.realpath(store))
        if place is None or not place.is_relative_to(path):
            return cls(path)
        inner = place.relative_to(path)
        if inner.parts[0] == ".slate":
            return cls(path)
        if len(inner.parts) > 1:
            message = f"the store {inner} stands where workers read and write: put it in .slate or out of the workspace"
            raise ConfigError([Problem("store_in_workspace", message, Place(path="workspace"))])
        return cls(path, hidden=(".slate", *(f"{inner}{end}" for end in ("", "-wal", "-shm", "-journal"))))

    def inside(self, path: str) -> PurePosixPath:
        """`path` as a clean path relative to the root, links resolved.

        Raises:
            ToolFailed: the path is odd or too long, leads outside, or names the lab's own store.
        """
        if len(path) > MAX_PATH:
            raise ToolFailed(f"the path has {len(path)} characters: give one of at most {MAX_PATH}")
        if is_odd(path):
            raise ToolFailed(f"the path {path!r} has control or broken characters: give a plain path")
        given = Path(path or ".")
        try:
            real = Path(os.path.realpath(given if given.is_absolute() else self.root / given))
        except (OSError, ValueError) as e:
            raise ToolFailed(f"the path {path!r} cannot be resolved: {e}") from e
        if not real.is_relative_to(self.root):
            raise ToolFailed(f"{path!r} leads outside the workspace: give a path below it, without '..' or links out")
        relative = PurePosixPath(real.relative_to(self.root).as_posix())
        if is_odd(str(relative)):
            raise ToolFailed(f"{path!r} leads to a name with control or broken characters: work with the other files")
        if relative.parts and self._hides(relative.parts[0]):
            raise ToolFailed(f"{path!r} is the lab's own store: work with the other files")
        return relative

    @contextmanager
    def open(self, path: str) -> Iterator[BufferedReader]:
        """The bytes of the regular file `path`.

        Raises:
            ToolFailed: outside, not there, not a regular file, or not readable, also while it is read.
        """
        relative = self.inside(path)
        with _told(relative), self._folder(relative.parent) as fd, open_file(relative.name or ".", folder=fd) as file:
            yield file

    def sha256(self, path: str, check: Callable[[], None]) -> str | None:
        """The hash of the whole file `path`, None if there is none; `check` is called for each piece read."""
        relative = self.inside(path)
        if self._stat(relative) is None:
            return None
        digest = hashlib.sha256()
        with self.open(path) as file:
            while chunk := file.read(_CHUNK):
                check()
                digest.update(chunk)
        return digest.hexdigest()

    @contextmanager
    def held(self, path: str) -> Iterator[None]:
        """Only one of all that change the file `path` through this workspace at a time."""
        name = str(self.inside(path))
        with self._holding:
            lock, users = self._held.get(name, (threading.Lock(), 0))
            self._held[name] = (lock, users + 1)
        try:
            with lock:
                yield
        finally:
            with self._holding:
                lock, users = self._held[name]
                if users == 1:
                    del self._held[name]
                else:
                    self._held[name] = (lock, users - 1)

    def version(self, path: str) -> Version | None:
        """The version of the file `path`, None if nothing is there."""
        found = self._stat(self.inside(path))
        return None if found is None else (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def changed_since(self, path: str, seen: Mapping[str, Version | None]) -> bool:
        """Whether `path` is among what was `seen`, in another version."""
        name = str(self.inside(path))
        return name in seen and seen[name] != self.version(path)

    def write_bytes(self, path: str, data: bytes, *, before: str | None = None) -> None:
        """Replace the file `path` with `data`, making its folders; written beside it and renamed, so never half.

        Args:
            path: file in the workspace.
            data: the new content.
            before: the hash of what it is to replace, None if nothing was there.

        Raises:
            ToolFailed: outside, a folder or special file stands there, it is not what it was, or the disk refuses.
        """
        relative = self.inside(path)
        if not relative.parts:
            raise ToolFailed("the path names the workspace itself: name a file in it")
        with _told(relative, "write"), self._folder(relative.parent, make=True) as fd:
            mode = _mode(relative, fd)
            part = f".{secrets.token_hex(8)}.part"
            out = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | FLAGS, 0o644, dir_fd=fd)
            try:
                with os.fdopen(out, "wb") as file:
                    if mode is not None:
                        os.fchmod(out, mode)
                    file.write(data)
                if not _is_still(relative, fd, before):
                    raise ToolFailed(f"{relative} was changed in this very moment: read it again, then go on")
                os.replace(part, relative.name, src_dir_fd=fd, dst_dir_fd=fd)
            except (OSError, ToolFailed):
                os.unlink(part, dir_fd=fd)
                raise

    def entries(self, path: str, sweep: Sweep) -> list[tuple[str, bool, int]]:
        """The folder `path` as `(name, is a folder, bytes)`, sorted by name; a file shows itself, by its path."""
        relative = self.inside(path)
        found = self._stat(relative)
        if found is not None and stat.S_ISREG(found.st_mode):
            return [(str(relative), False, found.st_size)]
        rows: list[tuple[str, bool, int]] = []
        with _told(relative), self._folder(relative) as fd:
            for name, folder in listing(fd, sweep, hide=None if relative.parts else self._hides):
                try:
                    size = 0 if folder else os.stat(name, dir_fd=fd, follow_symlinks=False).st_size
                except OSError:
                    sweep.skip("file", "not readable")
                else:
                    rows.append((name, folder, size))
        return rows

    @contextmanager
    def walk(self, path: str, sweep: Sweep) -> Iterator[Iterator[Found]]:
        """All regular files below `path` in sorted order; a file gives itself.

        Raises:
            ToolFailed: `path` is outside, not there, or neither a folder nor a regular file.
        """
        relative = self.inside(path)
        found = self._stat(relative)
        if found is not None and stat.S_ISREG(found.st_mode):
            with _told(relative), self._folder(relative.parent) as fd:
                yield iter((Found(str(relative), relative.name, fd),))
            return
        top = str(relative) if relative.parts else ""
        hide = None if top else self._hides
        with _told(relative), self._folder(relative) as fd, closing(walk(fd, top, sweep, hide=hide)) as files:
            yield files

    def hidden_names(self) -> tuple[str, ...]:
        """The hidden names that are there, as they are spelled."""
        try:
            return tuple(sorted(name for name in os.listdir(self.root) if self._hides(name)))
        except OSError:
            return ()

    def _hides(self, name: str) -> bool:
        return unicodedata.normalize("NFKC", name).casefold() in self.hidden

    def _stat(self, relative: PurePosixPath) -> os.stat_result | None:
        """What stands at `relative`, None if nothing does."""
        with _told(relative):
            try:
                with self._folder(relative.parent) as fd:
                    return os.stat(relative.name or ".", dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                return None

    @contextmanager
    def _folder(self, relative: PurePosixPath, *, make: bool = False) -> Iterator[int]:
        fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in relative.parts:
                inner = open_folder(part, folder=fd, make=make)
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)


def _is_still(relative: PurePosixPath, fd: int, before: str | None) -> bool:
    """Whether the file still has the hash `before`; a very large one is not read again."""
    try:
        with open_file(relative.name, folder=fd) as file:
            if before is None or os.fstat(file.fileno()).st_size > COMPARED:
                return before is not None
            return hashlib.file_digest(file, "sha256").hexdigest() == before
    except FileNotFoundError:
        return before is None


def _mode(relative: PurePosixPath, fd: int) -> int | None:
    """Permission bits of the file that is replaced, which must be a regular one; None if there is none."""
    try:
        mode = os.stat(relative.name, dir_fd=fd, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise ToolFailed(f"{relative} is not a regular file and is left as it is: choose another name")
    return stat.S_IMODE(mode)


@contextmanager
def _told(relative: PurePosixPath, doing: str = "open") -> Iterator[None]:
    """What the disk says, in words for the model."""
    try:
        yield
    except NotRegular as e:
        raise ToolFailed(f"{relative} is not a regular file: use ls for a folder") from e
    except FileNotFoundError as e:
        raise ToolFailed(f"there is no {relative} in the workspace: use ls or find to see what there is") from e
    except NotADirectoryError as e:
        raise ToolFailed(f"a part of {relative} is not a folder") from e
    except OSError as e:
        raise ToolFailed(f"cannot {doing} {relative}: {e.strerror or e}") from e

"""The workspace: the one folder a worker may touch, and the only way its tools open a path.

A path is resolved first and must lie inside the root; then it is opened component by component from the root's own
file descriptor, refusing links, so that a link planted between the check and the use is refused too. Only regular
files and folders are opened: no device, pipe or socket.
"""

from __future__ import annotations

import os
import stat
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from slate_lab.errors import LabError

__all__ = ["ToolFailed", "Workspace"]

_FLAGS = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


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

    def inside(self, path: str) -> PurePosixPath:
        """`path` as a clean path relative to the root, links resolved.

        Raises:
            ToolFailed: the path is empty, has control characters, leads outside, or names the lab's own store.
        """
        if any(unicodedata.category(c) == "Cc" for c in path):
            raise ToolFailed(f"the path {path!r} has control characters: give a plain path")
        given = Path(path or ".")
        joined = given if given.is_absolute() else self.root / given
        try:
            real = Path(os.path.realpath(joined))
        except (OSError, ValueError) as e:
            raise ToolFailed(f"the path {path!r} cannot be resolved: {e}") from e
        if real != self.root and self.root not in real.parents:
            raise ToolFailed(f"{path!r} leads outside the workspace: give a path below it, without '..' or links out")
        relative = PurePosixPath(real.relative_to(self.root).as_posix())
        if relative.parts and unicodedata.normalize("NFKC", relative.parts[0]).casefold() in self.hidden:
            raise ToolFailed(f"{path!r} is the lab's own store: work with the other files")
        return relative

    def read_bytes(self, path: str, *, limit: int) -> bytes:
        """At most `limit` bytes of the regular file `path`.

        Raises:
            ToolFailed: outside, not there, not a regular file, or not readable.
        """
        with self._open(self.inside(path), os.O_RDONLY) as fd, os.fdopen(os.dup(fd), "rb") as file:
            return file.read(limit)

    def write_bytes(self, path: str, data: bytes) -> None:
        """Replace the file `path` with `data`, making its folders; written beside it and renamed, so never half.

        Raises:
            ToolFailed: outside, a folder or special file stands there, or the disk refuses.
        """
        relative = self.inside(path)
        if not relative.parts:
            raise ToolFailed("the path names the workspace itself: name a file in it")
        with self._folder(relative.parent, make=True) as fd:
            mode = self._mode(relative, fd)
            part = f".{relative.name[:100]}.{os.getpid()}.{threading.get_ident()}.part"
            try:
                out = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FLAGS, mode, dir_fd=fd)
                with os.fdopen(out, "wb") as file:
                    file.write(data)
                os.replace(part, relative.name, src_dir_fd=fd, dst_dir_fd=fd)
            except OSError as e:
                raise ToolFailed(f"cannot write {relative}: {e.strerror}") from e

    def entries(self, path: str) -> list[tuple[str, bool, int]]:
        """The folder `path` as `(name, is a folder, bytes)`, sorted by name; links are left out."""
        relative = self.inside(path)
        with self._folder(relative, make=False) as fd, os.scandir(fd) as scan:
            found = [(e.name, e.is_dir(follow_symlinks=False), e) for e in scan if not e.is_symlink()]
            return sorted(
                (name, folder, 0 if folder else e.stat(follow_symlinks=False).st_size)
                for name, folder, e in found
                if relative.parts or name.casefold() not in self.hidden
            )

    def walk(self, path: str) -> Iterator[PurePosixPath]:
        """All regular files below `path`, relative to the root, in sorted order; a file yields itself."""
        relative = self.inside(path)
        if (self.root / relative).is_file():
            yield relative
            return
        for name, folder, _ in self.entries(str(relative)):
            child = relative / name
            if folder:
                yield from self.walk(str(child))
            elif (self.root / child).is_file():
                yield child

    @contextmanager
    def _open(self, relative: PurePosixPath, flags: int) -> Iterator[int]:
        with self._folder(relative.parent, make=False) as fd:
            try:
                file = os.open(relative.name or ".", flags | _FLAGS, dir_fd=fd)
            except OSError as e:
                raise ToolFailed(self._missing(relative, e)) from e
            try:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise ToolFailed(f"{relative} is not a regular file: use ls for a folder")
                yield file
            finally:
                os.close(file)

    @contextmanager
    def _folder(self, relative: PurePosixPath, *, make: bool) -> Iterator[int]:
        fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in relative.parts:
                fd = self._step(fd, part, relative, make=make)
            yield fd
        finally:
            os.close(fd)

    def _step(self, fd: int, part: str, relative: PurePosixPath, *, make: bool) -> int:
        try:
            if make:
                try:
                    os.mkdir(part, 0o755, dir_fd=fd)
                except FileExistsError:
                    pass
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | _FLAGS, dir_fd=fd)
        except OSError as e:
            raise ToolFailed(self._missing(relative, e)) from e
        os.close(fd)
        return inner

    def _mode(self, relative: PurePosixPath, fd: int) -> int:
        """Permission bits for the new content: those of the file it replaces, which must be a regular one."""
        try:
            mode = os.stat(relative.name, dir_fd=fd, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return 0o644
        if not stat.S_ISREG(mode):
            raise ToolFailed(f"{relative} is not a regular file and is left as it is: choose another name")
        return stat.S_IMODE(mode)

    def _missing(self, relative: PurePosixPath, e: OSError) -> str:
        if isinstance(e, FileNotFoundError):
            return f"there is no {relative} in the workspace: use ls or find to see what there is"
        if isinstance(e, NotADirectoryError):
            return f"a part of {relative} is not a folder"
        return f"cannot open {relative}: {e.strerror}"

"""Opening one name in an open folder, and which names are too odd to be shown or asked for.

Called by `walk` and `workspace`. In: a name and the descriptor of the folder it stands in. Out: a stream or a
descriptor, or `OSError`. No link is followed and no device, pipe or socket is opened, whatever stood there before.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from io import BufferedReader, FileIO

__all__ = ["FLAGS", "NotRegular", "is_odd", "open_file", "open_folder"]

FLAGS = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
BUFFER = 65_536
_ODD = frozenset(("Cc", "Cs", "Zl", "Zp"))


class NotRegular(OSError):
    """A folder or special file stands where a file was wanted."""


def is_odd(name: str) -> bool:
    """Whether `name` has control characters, line breaks, or bytes that are not UTF-8 (lone surrogates)."""
    if name.isascii() and name.isprintable():
        return False
    return any(unicodedata.category(c) in _ODD for c in name)


def open_file(name: str, *, folder: int) -> BufferedReader:
    """The regular file `name` of the open `folder`, for reading bytes.

    Raises:
        OSError: not there, a link, not readable; `NotRegular` for anything but a file.
    """
    fd = os.open(name, os.O_RDONLY | FLAGS, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotRegular(name)
    return BufferedReader(FileIO(fd), BUFFER)


def open_folder(name: str, *, folder: int, make: bool = False) -> int:
    """A descriptor of the folder `name` in the open `folder`, for the caller to close.

    With `make`, the folder is made if there is none.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | FLAGS
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    try:
        os.mkdir(name, 0o755, dir_fd=folder)
    except FileExistsError:
        pass  # somebody else made it in between; what it is shows when it is opened
    return os.open(name, flags, dir_fd=folder)

"""A store that cannot be written, opened to look: read-only folders and full disks.

In: the path of a store and the error that writing it raised. Out: a `Database` that only reads, over the file itself
where SQLite can do so in place, else over a private copy of the file and its log. Called by `Store.open`.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from pathlib import Path

from slate_lab.errors import StoreError
from slate_lab.store.database import Database

__all__ = ["LOOKABLE", "open_to_look"]

LOOKABLE = frozenset({"read_only", "disk_full", "io"})
"""Codes of errors after which a store that is there may still be read."""


def open_to_look(path: Path, error: StoreError) -> Database:
    """A database over the store at `path` that only reads; a warning says so.

    Raises:
        StoreError: `error` itself, if the store cannot be read either.
    """
    for how in _ways(path):
        try:
            database = Database(path, look=how)
        except StoreError:
            continue
        warnings.warn(
            f"the store {path} is open to look at only ({error.message}): what is stored can be listed and shown, "
            "nothing can be dispatched; threads that a dead kernel left behind are still shown as running",
            stacklevel=4,
        )
        return database
    try:
        return _copied(path)
    except (StoreError, OSError):
        raise error from None


def _ways(path: Path) -> tuple[str, ...]:
    """How SQLite may open the file in place: without a log nobody can be writing it."""
    log = path.with_name(path.name + "-wal")
    empty = not log.exists() or log.stat().st_size == 0
    return ("mode=ro", "immutable=1") if empty else ("mode=ro",)


def _copied(path: Path) -> Database:
    """A database over a copy in a folder of its own, which goes with the database."""
    folder = tempfile.TemporaryDirectory(prefix="slate-lab-look-", ignore_cleanup_errors=True)
    copy = Path(folder.name) / path.name
    for name in (path.name, path.name + "-wal"):
        shutil.copyfile(path.with_name(name), copy.with_name(name))
    database = Database(copy, look="mode=rw")
    database.keep(folder)
    warnings.warn(f"the store {path} cannot be read where it lies: a private copy of it is shown", stacklevel=5)
    return database

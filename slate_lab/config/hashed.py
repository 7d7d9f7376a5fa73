"""The files of a project that can run code or change prompts, each with its hash.

In: a project's root and the values of its configuration. Out: `files` (name and SHA-256) and `odd`, what cannot be
hashed with a meaning. Called by `trust`. Byte-code caches are left out because loaders of project code never read them.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["CODE_FOLDERS", "Hashed", "digest"]

CODE_FOLDERS = {"units": ("*.py", "*/__init__.py"), "agent": ("pipelines.yaml",)}
"""Folders that count as soon as they hold such a file; `tools` counts when `tools.functions` is set."""
_PASSED_OVER = frozenset({"__pycache__", ".ipynb_checkpoints", ".DS_Store"})
MAX_FILES, MAX_BYTES = 2_000, 64 * 1024 * 1024
MAX_TEXT = 1_024


def digest(raw: bytes) -> str:
    """The SHA-256 of `raw`, in hex."""
    return hashlib.sha256(raw).hexdigest()


class Hashed:
    """Collects files below `root`.

    Attributes:
        files: SHA-256 by path relative to the root.
        odd: what makes the project impossible to trust, in words.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[str, str] = {}
        self.odd: list[str] = []
        self._bytes = 0

    def folders(self, values: Mapping[str, Any]) -> None:
        """Take the folders of code that the project has."""
        for name, forms in CODE_FOLDERS.items():
            folder = self.root / name
            if folder.is_dir() and any(next(folder.glob(form), None) for form in forms):
                self._take(folder)
        tools = values.get("tools")
        if isinstance(tools, Mapping) and tools.get("functions") and (self.root / "tools").exists():
            self._take(self.root / "tools")

    def named(self, value: Any) -> None:
        """Take every file or folder of the project that a text in `value` names."""
        for text in _texts(value):
            if not text.strip() or len(text) > MAX_TEXT or "\0" in text:
                continue
            path = Path(os.path.normpath(self.root / text))
            if path != self.root and path.is_relative_to(self.root) and os.path.lexists(path):
                self._take(path)

    def _take(self, path: Path) -> None:
        name = path.relative_to(self.root).as_posix()
        if path.is_symlink() and path.is_dir():
            self.odd.append(f"{name} is a link to a folder")
        elif path.is_dir():
            for entry in sorted(path.iterdir()):
                if entry.name not in _PASSED_OVER and entry.suffix != ".pyc":
                    self._take(entry)
        elif name not in self.files:
            self._take_file(path, name)

    def _take_file(self, path: Path, name: str) -> None:
        try:
            about = path.stat()
            self._bytes += about.st_size
            if not stat.S_ISREG(about.st_mode):
                self.odd.append(f"{name} is no regular file")
            elif len(self.files) >= MAX_FILES or self._bytes > MAX_BYTES:
                self._too_much()
            else:
                self.files[name] = digest(path.read_bytes())
        except OSError as e:
            self.odd.append(f"{name} cannot be read: {e.strerror or e}")

    def _too_much(self) -> None:
        text = f"more than {MAX_FILES:,} files or {MAX_BYTES // 2**20} MiB of code and texts"
        if text not in self.odd:
            self.odd.append(text)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        yield value.partition(":")[0]  # `file.py:function`
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)

"""The person's own record of trusted projects: one small file, written whole, readable by nobody else.

In: a project's root and hashes. Out: `trust.json` in the person's configuration folder, mode 0600, changed under a
lock. Called by `trust`. A record that others could have written, or that cannot be read, trusts nothing.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from platformdirs import user_config_path

from slate_lab.errors import ConfigError, Place, Problem

__all__ = ["Ledger"]

LOCK_S = 10.0
_FILE = "trust.json"


@dataclass(frozen=True)
class Ledger:
    """The record in `folder`; `fault` says why it cannot be used, empty if it can."""

    folder: Path = Path()
    projects: Mapping[str, Mapping[str, str]] | None = None
    fault: str = ""

    @classmethod
    def at(cls, home: Path | None = None) -> Ledger:
        """The record as it stands in the person's configuration folder (`home` may be the file in it)."""
        folder = user_config_path("slate_lab") if home is None else home
        folder = folder.parent if folder.suffix in (".yaml", ".json") else folder
        try:
            return cls(folder, _projects(folder / _FILE))
        except (OSError, ValueError) as e:
            return cls(folder, None, f"{folder / _FILE} cannot be used: {e}; remove it and trust your projects again")

    def recorded(self, root: Path) -> dict[str, str] | None:
        """The hashes under which `root` was trusted; None if it was not."""
        found = (self.projects or {}).get(str(root))
        return None if found is None else dict(found)

    def write(self, root: Path, entries: Mapping[str, str] | None) -> None:
        """Record `entries` for `root`, or take its record out.

        Raises:
            ConfigError: the record cannot be read or written.
        """
        file = self.folder / _FILE
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(self.folder / f"{_FILE}.lock", timeout=LOCK_S, mode=0o600):
                projects: dict[str, Any] = dict(_read(file))
                if entries is None:
                    projects.pop(str(root), None)
                else:
                    at = datetime.now(UTC).isoformat(timespec="seconds")
                    projects[str(root)] = {"at": at, "files": dict(entries)}
                _replace(file, json.dumps({"version": 1, "projects": projects}, indent=1, ensure_ascii=True))
        except Timeout as e:
            raise _unwritable(file, "another program holds it") from e
        except (OSError, ValueError) as e:
            raise _unwritable(file, str(e)) from e


def _unwritable(file: Path, why: str) -> ConfigError:
    message = f"the record of trusted projects cannot be changed: {why}"
    return ConfigError([Problem("trust_record", message, Place(str(file)))])


def _projects(file: Path) -> dict[str, dict[str, str]]:
    return {root: dict(entry["files"]) for root, entry in _read(file).items()}


def _read(file: Path) -> dict[str, Any]:
    """The projects in the record; ValueError if others could have written it or it is damaged."""
    try:
        with file.open("rb") as stream:
            about = os.fstat(stream.fileno())
            raw = stream.read()
    except FileNotFoundError:
        return {}
    if about.st_uid != os.geteuid() or about.st_mode & 0o022:
        raise ValueError("others may write it")
    try:
        found = json.loads(raw)
        projects = found["projects"]
        whole = found["version"] == 1 and all(
            isinstance(sha, str) for entry in projects.values() for sha in entry["files"].values()
        )
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise ValueError("it is damaged") from e
    if not whole:
        raise ValueError("it is of another version")
    return dict(projects)


def _replace(file: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise

"""Targets: where in memory a read or write goes, as text, as a mapping, or as a `Target`.

In: what a person, a file or a tool wrote. Out: the folder, the file's name if one is named, and the tags to filter by;
or a `SlateError` with the near names. Called by every read and write of this room.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from slate_lab.config import TargetSpec
from slate_lab.config.memory import check_file_name
from slate_lab.errors import SlateError
from slate_lab.records import near
from slate_lab.slates.spec import Folder

__all__ = ["Folders", "Target", "TargetLike", "find", "read_target"]

Folders = Mapping[tuple[str, str], Folder]
_KEYS = ("slate", "folder", "file", "where")


class Target(Struct, frozen=True):
    """A folder of a slate, perhaps one file of it, perhaps only blocks with these tags."""

    slate: str
    folder: str
    file: str | None = None
    where: Mapping[str, Any] = {}

    def __str__(self) -> str:
        return "/".join(part for part in (self.slate, self.folder, self.file) if part is not None)

    @classmethod
    def of(cls, spec: TargetSpec) -> Target:
        """The target that a configuration names."""
        return cls(spec.slate, spec.folder, spec.file, dict(spec.where))


TargetLike = str | Target | Mapping[str, Any]


def read_target(value: TargetLike, folders: Folders) -> Target:
    """The target that `value` names; `Title/folder/file.md` may hold titles with a slash of their own.

    Raises:
        SlateError: it has no folder (`bad_target`), or names no folder that is declared (`unknown_slate`,
            `unknown_folder`), or its file has a name that cannot be (`bad_name`).
    """
    if isinstance(value, str):
        target = _from_text(_normal(value), folders)
    elif isinstance(value, Mapping):
        target = _from_mapping(value)
    else:
        target = value
    return Target(_normal(target.slate), _normal(target.folder), _file(target.file), target.where)


def find(target: Target, folders: Folders) -> Folder:
    """The folder of a target.

    Raises:
        SlateError: `unknown_slate` or `unknown_folder`, with the near names.
    """
    found = folders.get((target.slate, target.folder))
    if found is not None:
        return found
    titles = dict.fromkeys(slate for slate, _ in folders)
    if target.slate not in titles:
        raise SlateError(_unknown("slate", target.slate, titles), code="unknown_slate")
    names = [name for slate, name in folders if slate == target.slate]
    raise SlateError(_unknown("folder", target.folder, names, f" in {target.slate}"), code="unknown_folder")


def _from_text(text: str, folders: Folders) -> Target:
    slate = _longest(text, (slate for slate, _ in folders)) or text.partition("/")[0]
    rest = text[len(slate) + 1 :]
    folder = _longest(rest, (name for title, name in folders if title == slate)) or rest.partition("/")[0]
    if not folder:
        if not any(title == slate for title, _ in folders):
            raise SlateError(_unknown("slate", slate, dict.fromkeys(t for t, _ in folders)), code="unknown_slate")
        names = ", ".join(name for title, name in folders if title == slate)
        raise SlateError(
            f"{text!r} names no folder: write Title/folder or Title/folder/file; its folders are {names}",
            code="bad_target",
        )
    return Target(slate, folder, rest[len(folder) + 1 :] or None)


def _from_mapping(value: Mapping[str, Any]) -> Target:
    unknown = [key for key in value if key not in _KEYS]
    slate, folder, file, where = (value.get(key) for key in _KEYS)
    if unknown or not isinstance(slate, str) or not isinstance(folder, str):
        hint = f"it has no {unknown[0]!r}" if unknown else "slate and folder must be texts"
        raise SlateError(f"a target is {{slate, folder, file, where}}: {hint}", code="bad_target")
    if not (file is None or isinstance(file, str)) or not (where is None or isinstance(where, Mapping)):
        raise SlateError("a target's file is a text and its where a mapping of tags", code="bad_target")
    return Target(slate, folder, file, where or {})


def _longest(text: str, names: Iterable[str]) -> str:
    """The longest of `names` that `text` begins with, whole."""
    return max((name for name in names if text == name or text.startswith(f"{name}/")), key=len, default="")


def _file(name: str | None) -> str | None:
    if name is None:
        return None
    try:
        return check_file_name(name)
    except (ValueError, UnicodeError) as error:
        raise SlateError(str(error), code="bad_name") from error


def _unknown(what: str, name: str, known: Iterable[str], where: str = "") -> str:
    known = list(known)
    close = near(name, known)
    hint = f"did you mean {', '.join(close)}?" if close else f"declared are {', '.join(known) or 'none'}"
    return f"there is no {what} {name!r}{where}: {hint}"


def _normal(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)

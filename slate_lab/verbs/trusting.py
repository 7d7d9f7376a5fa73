"""The verb `trust`: say what a project brings that needs trust, record that it has it, or take it back.

In: the words asked and the project's folder. Out: a plain dict. Called by the program and the magic.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slate_lab.errors import LabError
from slate_lab.verbs.parser import Asked

__all__ = ["trust"]


def trust(asked: Asked, *, root: Path) -> dict[str, Any]:
    """`{project, trusted, changes, covers}`: `changes` is what was new to the record, `covers` all that it holds.

    Raises:
        ConfigError: something in the project cannot be trusted, or the record cannot be written.
        LabError: the folder is not there.
    """
    from slate_lab.config import Trust

    root = Path(asked["path"] or root).expanduser()
    if not root.is_dir():
        raise LabError(f"{root} is no folder", code="no_folder")
    now = Trust.of(root)
    after = now if asked["show"] else now.forget() if asked["forget"] else now.record()
    told = {"project": str(now.root), "trusted": after.trusted, "changes": list(now.changes), "covers": [*now.entries]}
    return {**told, "why": after.reason} if after.reason else told

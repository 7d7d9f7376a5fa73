"""Review perspectives: the focus areas a review thread may be given, and the project's texts for them.

In: names of an action, a project's folder. Out: problems, and the text that joins the brief. Called by admission.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from slate_lab.errors import Problem
from slate_lab.records import near

__all__ = ["PERSPECTIVES", "REVIEW_FOLDER", "perspective_problems", "read_perspective", "review_file_problems"]

REVIEW_FOLDER = "review"
"""Where a project keeps the text of each perspective it uses, as `NAME.md`."""
MOST_CHARS = 20_000

PERSPECTIVES: tuple[str, ...] = (
    "data-loss",
    "concurrency",
    "security",
    "performance",
    "non-local-logic",
    "test-quality",
    "prose",
    "licensing",
    "contract-break",
    "governing-rule",
    "unreported-failure",
)
"""The names that exist: the first five also ask for a design, the others only for a reviewer."""

Read = Callable[[str], str | None]
"""The text of a perspective; None if there is none."""


def perspective_problems(names: Iterable[str]) -> list[Problem]:
    """What is wrong with the names: unknown ones (near ones are listed), and those that stand twice."""
    found: list[Problem] = []
    seen: set[str] = set()
    for name in names:
        if name not in PERSPECTIVES:
            close = near(name, PERSPECTIVES)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(PERSPECTIVES)}"
            found.append(Problem("unknown_perspective", f"there is no review perspective {name!r}: {hint}"))
        elif name in seen:
            found.append(Problem("duplicate_perspective", f"the review perspective {name} stands twice"))
        seen.add(name)
    return found


def review_file_problems(names: Iterable[str], read: Read) -> list[Problem]:
    """What is wrong with the files of known names: not there, or empty."""
    found: list[Problem] = []
    for name in dict.fromkeys(names):
        if name in PERSPECTIVES:
            place, text = f"{REVIEW_FOLDER}/{name}.md", read(name)
            if text is None:
                found.append(Problem("missing_review_file", f"{place} is not there: write what the reviewer must ask"))
            elif not text.strip():
                found.append(Problem("empty_review_file", f"{place} is empty: write what the reviewer must ask"))
    return found


def read_perspective(root: Path, name: str) -> str | None:
    """The project's text of a perspective, at most `MOST_CHARS` characters; None if there is no readable file."""
    path = root / REVIEW_FOLDER / f"{name}.md"
    try:
        if not path.resolve().is_relative_to(root.resolve()):
            return None
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(MOST_CHARS)
    except OSError:
        return None

"""Input of `%slate` and `%%slate` taken as it was typed.

IPython cleans a cell before it looks for magics: it strips `>>>` and `In [1]:` prompts, empties lines of blanks, and
reads a line that ends in `?` as a request for help. All of that would change the task of a thread.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Callable
from typing import Any

from IPython.core.inputtransformer2 import (
    TokenTransformBase,
    assemble_continued_line,
    find_end_of_continued_line,
)
from IPython.core.interactiveshell import InteractiveShell

__all__ = ["install", "verbatim_cell"]

_CELL = re.compile(r"%%slate(?:[ \t]+(?P<line>.*))?\s*", re.DOTALL)


def install(ip: InteractiveShell) -> Callable[[], None]:
    """Put both transformers in front of IPython's own; returns what takes them out."""
    manager = ip.input_transformer_manager
    manager.cleanup_transforms.insert(0, verbatim_cell)
    manager.token_transformers.insert(0, VerbatimLine)

    def remove() -> None:
        manager.cleanup_transforms.remove(verbatim_cell)
        manager.token_transformers.remove(VerbatimLine)

    return remove


def verbatim_cell(lines: list[str]) -> list[str]:
    """A cell that begins with `%%slate`, turned into the call of the magic before anything cleans its body."""
    start = next((i for i, line in enumerate(lines) if line.strip()), None)
    if start is None:
        return lines
    match = _CELL.fullmatch(lines[start])
    if match is None:
        return lines
    line, body = (match["line"] or "").strip(), "".join(lines[start + 1 :])
    return [f"get_ipython().run_cell_magic('slate', {line!r}, {body!r})\n"]


# a terminal asks line by line whether a cell is complete; IPython's own rule for cell magics is the right one there
verbatim_cell.has_side_effects = True  # type: ignore[attr-defined]


class VerbatimLine(TokenTransformBase):
    """`%slate ...` and `x = %slate ...`, before a `?` at the end makes a help request of it. `%slate?` stays one."""

    priority = 1

    def __init__(self, start: tuple[int, int], percent: tuple[int, int]) -> None:
        super().__init__(start)  # type: ignore[no-untyped-call]
        self.percent_line, self.percent_col = percent[0] - 1, percent[1]

    @classmethod
    def find(cls, tokens_by_line: list[list[tokenize.TokenInfo]]) -> VerbatimLine | None:
        """The first line of the cell that is such a line."""
        for line in tokens_by_line:
            first = next((i for i, t in enumerate(line) if t.type not in (tokenize.INDENT, tokenize.DEDENT)), None)
            if first is None:
                continue
            for at in (first, _after_assignment(line)):
                if at is not None and _is_slate(line[at:]):
                    return cls(line[first].start, line[at].start)
        return None

    def transform(self, lines: list[str]) -> list[str]:
        """Replace the line by the call of the magic."""
        end = find_end_of_continued_line(lines, self.percent_line)
        text = assemble_continued_line(lines, (self.percent_line, self.percent_col), end)
        rest = text.removeprefix("%slate").strip()
        before = lines[self.percent_line][: self.percent_col]
        call = f"{before}get_ipython().run_line_magic('slate', {rest!r})\n"
        return [*lines[: self.percent_line], call, *lines[end + 1 :]]


def _is_slate(tokens: list[Any]) -> bool:
    if len(tokens) < 2 or tokens[0].string != "%" or tokens[1].string != "slate" or tokens[0].end != tokens[1].start:
        return False
    return len(tokens) < 3 or tokens[2].string not in ("?", "??") or tokens[2].start != tokens[1].end


def _after_assignment(tokens: list[Any]) -> int | None:
    """The place after the first `=` outside brackets."""
    depth = 0
    for i, token in enumerate(tokens[:-1]):
        if token.string == "=" and depth == 0:
            return i + 1
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token.string, 0)
    return None

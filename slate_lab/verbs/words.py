"""A line split into words as a shell would, except that backslashes stay; pasted typography is reported."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slate_lab.errors import LabError

__all__ = ["WrongUsage", "check_typography", "split"]

_OPENERS = "“”„‟«»‘‚‛″"
_DASHES = "‐‑‒–—―−"
_BACKSLASHED = re.compile(r'(\\*)"')


class WrongUsage(LabError):
    """A command was written wrongly; the message says what to type. The program exits with 2."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="usage")


def split(line: str) -> list[str]:
    r"""The words of `line`.

    Single quotes keep everything; double quotes keep everything but `\"`, which is a quote. Backslashes outside of
    that are ordinary characters, so that `C:\new\table` survives.

    Raises:
        WrongUsage: a quote is not closed, or a word begins with a typographic quote or dash.
    """
    words, i = [], 0
    while i < len(line):
        if line[i].isspace():
            i += 1
            continue
        word, i = _word(line, i)
        words.append(word)
    return words


def _word(line: str, i: int) -> tuple[str, int]:
    parts: list[str] = []
    _refuse_typography(line[i:])
    while i < len(line) and not line[i].isspace():
        if line[i] == "'":
            end = line.find("'", i + 1)
            if end < 0:
                raise _unclosed(line, i)
            parts.append(line[i + 1 : end])
            i = end + 1
        elif line[i] == '"':
            inner, i = _double(line, i)
            parts.append(inner)
        else:
            parts.append(line[i])
            i += 1
    return "".join(parts), i


def _double(line: str, i: int) -> tuple[str, int]:
    """The text of the double quotes that open at `i`, and the place after them."""
    parts, at = [], i + 1
    for match in _BACKSLASHED.finditer(line, i + 1):
        slashes = match.group(1)
        escaped = len(slashes) % 2 == 1
        if escaped and '"' in line[match.end() :]:
            parts.append(line[at : match.end() - 2] + '"')
            at = match.end()
            continue
        parts.append(line[at : match.end() - 1])
        return "".join(parts), match.end()
    raise _unclosed(line, i)


def _unclosed(line: str, i: int) -> WrongUsage:
    return WrongUsage(
        f"the quote {line[i]} at {_near(line, i)} is not closed: close it, or put the text into a cell body"
    )


def _near(line: str, i: int) -> str:
    piece = line[i : i + 20]
    return f"`{piece}{'...' if len(line) > i + 20 else ''}`"


def _refuse_typography(rest: str) -> None:
    if rest[0] in _OPENERS:
        raise WrongUsage(f"{rest[0]} is a typographic quote: type a straight one, \" or ', at {_near(rest, 0)}")
    dashes = len(rest) - len(rest.lstrip(_DASHES + "-"))
    pasted = next((c for c in rest[:dashes] if c in _DASHES), None)
    if pasted and rest[dashes : dashes + 1].isalpha():
        name = re.match(r"\w+", rest[dashes:])
        assert name is not None
        raise WrongUsage(f"{pasted} is a typographic dash: type two hyphens, --{name.group()}")


def check_typography(words: Sequence[str]) -> None:
    """Refuse words, already split by a shell, that begin with a typographic quote or dash.

    Raises:
        WrongUsage: with what to type. A word with a blank in it was quoted and is taken as it is.
    """
    for word in words:
        if word and not re.search(r"\s", word):
            _refuse_typography(word)

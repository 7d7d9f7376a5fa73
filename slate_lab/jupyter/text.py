"""Text of the views: made safe, measured without a font, shortened by rule, and escaped.

Whatever a model, a file or a person wrote comes through here before it is drawn: ANSI sequences, control characters
and direction overrides are taken out, characters that XML cannot hold are replaced.
"""

from __future__ import annotations

import html
import re
import unicodedata
from decimal import Decimal
from functools import lru_cache

__all__ = ["clean_block", "clean_line", "duration", "escape", "fit", "measure", "money", "tokens"]

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_]|.)?", re.DOTALL)
_CONTROL = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\ufff9-\ufffb]"
)
_NO_XML = re.compile(r"[\ud800-\udfff\ufffe\uffff]")
_SPACE = re.compile(r"\s+")
_LONGEST = 600
"""Characters of a label that are looked at: no label shows more."""


def clean_block(text: str) -> str:
    """`text` without ANSI sequences, control characters and direction overrides; lines and tabs stay."""
    text = _CONTROL.sub("", _ANSI.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
    return _NO_XML.sub("\ufffd", text)


def clean_line(text: str, limit: int = _LONGEST) -> str:
    """The same as one line of at most `limit` characters; a cut is marked by an ellipsis."""
    if len(text) <= limit and text.isascii() and text.isprintable():
        return " ".join(text.split())
    line = _SPACE.sub(" ", clean_block(text[: 4 * limit])).strip()
    return line if len(line) <= limit and len(text) <= 4 * limit else line[: limit - 1].rstrip() + "…"


def escape(text: str) -> str:
    """Cleaned and escaped for HTML and XML, quotes too."""
    return html.escape(clean_block(text), quote=True)


class _Widths(dict[str, float]):
    """Width of a character in em, on the wide side of the usual sans-serif fonts."""

    def __missing__(self, char: str) -> float:
        if unicodedata.combining(char) or char in "\u200d\ufe0e\ufe0f":
            width = 0.0
        elif unicodedata.east_asian_width(char) in "WF" or ord(char) > 0xFFFF:
            width = 1.3
        elif char.isupper():
            width = 0.78
        else:
            width = 0.66 if ord(char) < 0x250 else 1.0
        self[char] = width
        return width


_WIDTHS = _Widths(
    dict.fromkeys(" .,:;'|!iljI`", 0.34)
    | dict.fromkeys('()[]{}ftr/\\-"', 0.42)
    | dict.fromkeys("mMWw@%—…", 1.0)
    | dict.fromkeys("0123456789", 0.64)
)
_BOLD = 1.1


@lru_cache(maxsize=8192)
def measure(text: str, size: float, *, bold: bool = False) -> float:
    """Width of one line in pixels at `size` pixels, estimated so that the real one is not wider."""
    return sum(map(_WIDTHS.__getitem__, text)) * size * (_BOLD if bold else 1.0)


def fit(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """`text` if it fits `width` pixels, else its beginning and an ellipsis; empty if not even that fits."""
    if measure(text, size, bold=bold) <= width:
        return text
    left = width - measure("…", size, bold=bold)
    for i, char in enumerate(text):
        left -= measure(char, size, bold=bold)
        if left < 0:
            return text[:i].rstrip() + "…" if i else ""
    return text


def duration(seconds: float | None) -> str:
    """`12 ms`, `0.4 s`, `42 s`, `3 min 05 s`, `2 h 05 min`, `3 d 4 h`; a dash if unknown."""
    if seconds is None:
        return "–"
    if 0 < seconds < 0.0995:
        return f"{max(1, round(seconds * 1000))} ms"
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def tokens(count: int | None) -> str:
    """`3,120`, or `unknown`."""
    return "unknown" if count is None else f"{count:,}"


def money(nusd: int | None) -> str:
    """Nano-dollars as dollars to three significant digits: `$1.24`, `$0.000310`, `$0`, or `unknown`, never 0 for it."""
    if nusd is None:
        return "unknown"
    if nusd == 0:
        return "$0"
    sign, amount = ("-" if nusd < 0 else ""), Decimal(abs(nusd)).scaleb(-9)
    places = 2 if amount >= 1 else 2 - amount.adjusted()
    return f"{sign}${amount:,.{places}f}"

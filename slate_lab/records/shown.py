"""A stranger's text on its way into Markdown: it may look like anything and must not change what is around it.

In: a section's body as it was written by a model or a file. Out: the same without characters that drive a terminal or
turn the direction of text, and with what would be a heading, an open fence, HTML or an image made plain. Pure.
"""

from __future__ import annotations

import re

__all__ = ["plain_block", "quiet_markdown", "safe_block", "safe_markdown"]

_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])?|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
    r"|[\ud800-\udfff\U000e0000-\U000e007f]"
)
_LEAD = r"^(?:[ \t]*(?:[-*+>]|\d{1,9}[.)])(?=[ \t]))*[ \t]*"
_HEADING = re.compile(rf"({_LEAD})(?=#{{1,6}}(?:\s|$))", re.MULTILINE)
_UNDERLINE = re.compile(r"^([ \t>]*)(?=(?:=+|-{2,}|(?:[-_*][ \t]*){3,})[ \t]*$)", re.MULTILINE)
_FENCE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})(.*)")
_CODE = re.compile(r"(?<![`\\])(`+)(?!`)[^\n]*?(?<!`)\1(?!`)")
_TAG = re.compile(r"<(?=[A-Za-z/!?])|!(?=\[)")


def plain_block(text: str) -> str:
    """`text` with its line breaks, without ANSI sequences, control, direction and invisible characters."""
    lines = text.splitlines()
    return "\n".join(line if line.isascii() and line.isprintable() else _plain(line) for line in lines)


def _plain(text: str) -> str:
    return _CONTROL.sub("", _ESCAPE.sub("", text))


def safe_block(text: str) -> str:
    """The body of a section in which nothing is a heading, a rule or a fence that stays open."""
    text = _UNDERLINE.sub(r"\1\\", _HEADING.sub(r"\1\\", plain_block(text)))
    mark = _open_fence(text)
    return f"{text}\n{mark}" if mark else text


def safe_markdown(text: str) -> str:
    """The same, in which HTML is shown as text and no image is loaded; code marks keep what they hold."""
    return _tame(safe_block(text))


def quiet_markdown(text: str) -> str:
    """A whole answer: it keeps its own headings and fences, but HTML is shown as text and no image is loaded."""
    text = plain_block(text)
    mark = _open_fence(text)
    return _tame(f"{text}\n{mark}" if mark else text)


def _tame(text: str) -> str:
    parts: list[str] = []
    at = 0
    for code in _CODE.finditer(text):
        parts += [_TAG.sub(r"\\\g<0>", text[at : code.start()]), code[0]]
        at = code.end()
    return "".join([*parts, _TAG.sub(r"\\\g<0>", text[at:])])


def _open_fence(text: str) -> str:
    """The mark that closes what is still open at the end."""
    mark = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        if not found:
            continue
        if not mark:
            mark = found[1] if found[1][0] == "~" or "`" not in found[2] else ""
        elif found[1].startswith(mark) and not found[2].strip():
            mark = ""
    return mark

"""Text of a stranger on its way into a prompt: one clean line, or a fenced block that nothing inside can leave.

In: values and episodes as they are stored. Out: text. Called by briefs, by compression and by every tool that shows an
episode to a model. Pure.
"""

from __future__ import annotations

import re

from slate_lab.records import Episode

__all__ = ["clean_block", "clip", "grown_fence", "render_for_model", "run_fence", "sanitize_line"]

_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])?|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROL = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u061c\u200b\u200e\u200f\u2060-\u206f\ufeff\ud800-\udfff]|[\u202a-\u202e]"
)
_HEADING = re.compile(r"^(\s{0,3})(?=#{1,6}(?:\s|$))", re.MULTILINE)
NAME_CHARS = 120
DETAIL_CHARS = 300


def sanitize_line(text: str, limit: int) -> str:
    """`text` as one line of at most `limit` characters: no ANSI sequences, no control or direction characters.

    Runs of blanks become one space; what is cut ends in `…`.
    """
    if not (text.isascii() and text.isprintable()):
        text = _plain(text)
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: max(0, limit - 1)].rstrip() + "…"


def clean_block(text: str) -> str:
    """`text` with its line breaks, without ANSI sequences, control or direction characters."""
    lines = text.splitlines()
    return "\n".join((line if line.isascii() and line.isprintable() else _plain(line)).rstrip() for line in lines)


def clip(text: str, limit: int) -> str:
    """The first `limit` characters of `text`, marked where it was cut."""
    if len(text) <= limit:
        return text
    return f"{text[:limit].rstrip()} … (cut)"


def run_fence(*texts: str, char: str = "~", least: int = 5) -> str:
    """A run of `char` longer than any in `texts`: the same texts give the same fence, and none of them holds it."""
    longest = max((len(run) for text in texts for run in re.findall(re.escape(char) + "+", text)), default=0)
    return char * max(least, longest + 1)


def grown_fence(nonce: str, inner: str) -> str:
    """The fence word `nonce`, grown by a number until it is nowhere in `inner`."""
    fence, n = nonce, 1
    while fence in inner:
        n += 1
        fence = f"{nonce}-{n}"
    return fence


def render_for_model(episode: Episode, *, nonce: str) -> str:
    """The episode as a block of data: where it comes from, then the six sections in order.

    The block opens with `<<<nonce` and ends with `nonce>>>`; should the text hold the nonce, the fence grows until it
    is nowhere inside. Values of the header are single lines, headings inside a section are escaped.
    """
    body = "\n\n".join(f"## {title}\n{_section(text)}" for title, text in episode.sections.items())
    inner = "\n".join([*_header(episode), "", body])
    fence = grown_fence(nonce, inner)
    return f"<<<{fence} episode\n{inner}\n{fence}>>>"


def _header(episode: Episode) -> list[str]:
    rows = [("id", episode.id), ("type", episode.type), ("name", episode.name), ("status", episode.status)]
    if episode.code:
        rows.append(("code", f"{episode.code}: {episode.detail}" if episode.detail else episode.code))
    if episode.truncated:
        rows.append(("truncated", "the last answer was cut by the length limit"))
    if episode.compression != "compressed":
        rows.append(("compression", f"{episode.compression} {episode.notice or ''}"))
    return [
        f"{key}: {sanitize_line(value, DETAIL_CHARS if key != 'name' else NAME_CHARS)}" for key, value in rows if value
    ]


def _section(text: str) -> str:
    return _HEADING.sub(r"\1\\", clean_block(text)) if text else "None."


def _plain(text: str) -> str:
    return _CONTROL.sub("", _ESCAPE.sub("", text))

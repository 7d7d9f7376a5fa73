"""Colours, shapes and fonts of every view, in one place, and the arithmetic that checks their contrast.

Each accent is dark enough to carry white text and light enough to stand on JupyterLab's dark background, so one
palette serves both themes. Text and surfaces take JupyterLab's own variables, with fallbacks for a page without them.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from slate_lab.records import ThreadState

__all__ = [
    "DARK",
    "LIGHT",
    "MARKS",
    "PAPER",
    "SOURCES",
    "STATES",
    "Mark",
    "contrast",
    "luminance",
    "var",
]


class Mark(Struct, frozen=True, kw_only=True):
    """How a state looks: an accent, a glyph for text, and a knot around (0, 0), 12 units wide.

    Attributes:
        accent: `#rrggbb`.
        glyph: one character for plain text.
        knot: SVG path data of the outline.
        inner: SVG path data drawn over it, empty for none.
        hollow: whether the knot is an outline on the background rather than filled.
    """

    accent: str
    glyph: str
    knot: str
    inner: str = ""
    hollow: bool = False


_CIRCLE = "M-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0 -11 0Z"
_DIAMOND = "M0 -6.5L6.5 0L0 6.5L-6.5 0Z"

MARKS: Final[dict[ThreadState, Mark]] = {
    "queued": Mark(accent="#6b7380", glyph="○", knot=_CIRCLE, hollow=True),
    "running": Mark(accent="#2b6cd4", glyph="▶", knot="M-4.5 -6L6.5 0L-4.5 6Z"),
    "successful": Mark(accent="#0d7f74", glyph="●", knot=_CIRCLE),
    "failed": Mark(accent="#cf3a2f", glyph="◆", knot=_DIAMOND, inner="M-2.2 -2.2L2.2 2.2M2.2 -2.2L-2.2 2.2"),
    "cancelled": Mark(accent="#96690a", glyph="⊘", knot=_CIRCLE, inner="M-3.8 3.8L3.8 -3.8", hollow=True),
}
"""State by shape and pattern as well as colour."""

STATES: Final[tuple[ThreadState, ...]] = tuple(MARKS)

SOURCES: Final[tuple[str, ...]] = ("#2b6cd4", "#0d7f74", "#7a5bc7", "#96690a", "#b0457f", "#4b7a1f", "#6b7380")
"""Accents of the parts of a brief, in the order they are given out."""

PAPER: Final[dict[str, str]] = {
    "ground": "#ffffff",
    "ink": "#1f2328",
    "soft": "#59636e",
    "rule": "#d9dee4",
    "stripe": "#f6f8fa",
    "edge": "#6e7781",
}
"""A static picture has its own opaque ground, so it reads the same on every page."""

LIGHT: Final[dict[str, str]] = {"ground": "#ffffff", "ink": "#212121", "soft": "#595959"}
DARK: Final[dict[str, str]] = {"ground": "#212121", "ink": "#ffffff", "soft": "#bdbdbd"}
"""The grounds and inks of JupyterLab's two themes that the palette is checked against."""

_VARS: Final[dict[str, str]] = {
    "ground": "var(--jp-layout-color1,#ffffff)",
    "raised": "var(--jp-layout-color2,#eef1f4)",
    "ink": "var(--jp-content-font-color1,#1f2328)",
    "rule": "var(--jp-border-color2,#d9dee4)",
    "sans": "var(--jp-ui-font-family,system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif)",
    "mono": "var(--jp-code-font-family,ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace)",
}


def var(name: str) -> str:
    """A CSS value that follows the page's theme: `ground`, `raised`, `ink`, `rule`, `sans`, `mono`."""
    return _VARS[name]


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb`, 0 to 1 (WCAG 2.2)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, 1 to 21 (WCAG 2.2): text needs 4.5, shapes need 3."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)

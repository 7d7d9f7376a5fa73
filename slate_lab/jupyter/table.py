"""Plain HTML tables with bars, and their text form: what the budget bar and the cost board are made of."""

from __future__ import annotations

from collections.abc import Sequence

from slate_lab.jupyter.text import clean_line, escape
from slate_lab.jupyter.theme import var

__all__ = ["bar_html", "frame_html", "meter_text", "table_html", "table_text"]

_CELL = "padding:3px 14px 3px 0;text-align:{};vertical-align:middle;border:0;white-space:nowrap"


def frame_html(title: str, figure: str, blocks: Sequence[str]) -> str:
    """A quiet box: a title, the figure that matters, and what is below them."""
    outer = (
        f"max-width:860px;box-sizing:border-box;margin:4px 0;padding:12px 16px 14px;border:1px solid {var('rule')};"
        f"border-radius:6px;background:{var('ground')};color:{var('ink')};font:13px/1.5 {var('sans')};"
        "font-variant-numeric:tabular-nums"
    )
    head = (
        '<div style="display:flex;flex-wrap:wrap;gap:2px 16px;justify-content:space-between;align-items:baseline">'
        f'<b style="font-size:14px;overflow-wrap:anywhere"><bdi>{escape(title)}</bdi></b>'
        f"<span>{escape(figure)}</span></div>"
    )
    return f'<div style="{outer}">{head}{"".join(blocks)}</div>'


def bar_html(share: float | None, accent: str, *, width: int = 180) -> str:
    """A bar of `share` (0 to 1) of `width` pixels; None, where the amount is unknown, is an empty dashed one."""
    if share is None:
        style = f"width:{width}px;height:8px;border:1px dashed currentColor;border-radius:2px;opacity:.5"
        return f'<div style="{style};box-sizing:border-box"></div>'
    long = max(2.0 if share > 0 else 0.0, min(1.0, share) * width)
    return (
        f'<div style="width:{width}px;height:8px;border-radius:2px;background:{var("raised")}">'
        f'<div style="width:{long:.1f}px;height:8px;border-radius:2px;background:{accent}"></div></div>'
    )


def table_html(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    figures: Sequence[int] = (),
    keys: Sequence[str] = (),
    bars: Sequence[str] = (),
    wraps: Sequence[int] = (),
) -> str:
    """A table of escaped texts.

    Columns of `figures` are right-aligned; `keys` is a first and `bars` a last column of ready HTML. Long texts
    of the columns `wraps` go over lines.
    """

    def cell(tag: str, i: int, body: str) -> str:
        wide = 86 if i in figures else 150 if i == 0 else 40
        style = _CELL.format("right" if i in figures else "left") + f";min-width:{wide}px;box-sizing:border-box"
        if tag == "th":
            return f'<th scope="col" style="{style};font-weight:600;font-size:12px;opacity:.78">{body}</th>'
        if i == 0 or i in wraps:
            style = style.replace("nowrap", "normal;overflow-wrap:anywhere")
        return f'<td style="{style}">{body}</td>'

    blank = f'<td style="{_CELL.format("left")}"></td>'
    head = "".join(cell("th", i, escape(text)) for i, text in enumerate(heads))
    head = (blank if keys else "") + head + (blank if bars else "")
    body = ""
    for n, row in enumerate(rows):
        cells = "".join(cell("td", i, escape(clean_line(text, 120))) for i, text in enumerate(row))
        first = f'<td style="{_CELL.format("left")}">{keys[n]}</td>' if keys else ""
        last = f'<td style="{_CELL.format("left")}">{bars[n]}</td>' if bars else ""
        body += f'<tr style="background:transparent">{first}{cells}{last}</tr>'
    return (
        f'<table style="border-collapse:collapse;margin:6px 0 0;color:inherit;font-size:13px">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def meter_text(share: float | None, width: int = 20) -> str:
    """A bar of characters: `█████···`; all question marks where the amount is unknown."""
    if share is None:
        return "?" * width
    full = round(min(1.0, max(0.0, share)) * width)
    return "█" * (max(full, 1) if share > 0 else 0) + "·" * (width - (max(full, 1) if share > 0 else 0))


def table_text(heads: Sequence[str], rows: Sequence[Sequence[str]], *, figures: Sequence[int] = ()) -> str:
    """The same table in columns of characters."""
    grid = [list(heads), *([clean_line(text, 60) for text in row] for row in rows)]
    widths = [max(len(row[i]) for row in grid) for i in range(len(heads))]
    lines = [
        "  ".join(
            text.rjust(width) if i in figures else text.ljust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in grid
    ]
    return "\n".join(lines)

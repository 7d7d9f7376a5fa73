"""A `Layout` as a static SVG, and as what a notebook shows of it: an image, a table that says the same, a tree of text.

The picture has its own opaque ground, so it reads the same on light and dark pages, in an exported file and in an
untrusted notebook. States differ in shape and pattern too, so it reads without colour.
"""

from __future__ import annotations

import base64

from slate_lab.jupyter.layout import FONT, LEGEND_WIDTH, ROW, Bar, Edge, Layout
from slate_lab.jupyter.text import escape, measure
from slate_lab.jupyter.theme import MARKS, PAPER, STATES, var
from slate_lab.records import ThreadState

__all__ = ["image_html", "knot", "svg", "table_html"]

_SANS = "system-ui,-apple-system,'Segoe UI',Helvetica,Arial,'DejaVu Sans',sans-serif"


def svg(picture: Layout) -> str:
    """The picture as a standalone SVG document with a title, a description and a legend."""
    width, height = _n(picture.width), _n(picture.height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        f' role="img" aria-labelledby="title desc" font-family="{_SANS}" font-size="{_n(FONT)}"'
        f' fill="{PAPER["ink"]}">',
        f'<title id="title">Weave graph: {escape(picture.title)}</title>',
        f'<desc id="desc">{escape(describe(picture))}</desc>',
        _defs(),
        f'<rect width="{width}" height="{height}" fill="{PAPER["ground"]}"/>',
        _text(16, 22, picture.title, weight=600, size=14),
        _text(picture.width - 16, 22, picture.subtitle, anchor="end", fill="soft", size=11),
        _axis(picture),
        '<g aria-label="threads">',
        *(_row(bar, picture) for bar in picture.bars),
        "</g>",
        f'<g fill="none" stroke="{PAPER["edge"]}" stroke-width="1.3" aria-label="references">',
        *(_edge(edge) for edge in picture.edges),
        "</g>",
        '<g aria-label="states">',
        *(_bar(bar) for bar in picture.bars),
        "</g>",
        _foot(picture),
        "</svg>",
    ]
    return "".join(parts)


def describe(picture: Layout) -> str:
    """The picture in a sentence, for those who do not see it."""
    states = ", ".join(f"{picture.states[s]:,} {s}" for s in STATES if s in picture.states) or "none"
    count = len(picture.edges)
    drawn = f"{count:,} reference{'' if count == 1 else 's'} between drawn threads"
    hops = sum(len(bar.hops) for bar in picture.bars)
    moved = f" Work went on to another route {hops:,} time{'' if hops == 1 else 's'}." if hops else ""
    return f"Threads as lanes over time. {picture.title}: {states}. {drawn}.{moved}"


def image_html(picture: Layout) -> str:
    """The picture as an image in HTML, and the same as a table one can open."""
    data = base64.b64encode(svg(picture).encode()).decode()
    alt = escape(describe(picture))
    image = (
        f'<img src="data:image/svg+xml;base64,{data}" alt="{alt}" width="{_n(picture.width)}"'
        ' style="max-width:100%;height:auto;border-radius:6px">'
    )
    return f'<div style="font-family:{var("sans")};font-size:13px">{image}{table_html(picture)}</div>'


def table_html(picture: Layout) -> str:
    """All drawn threads as a table inside a `details` element."""
    heads = ("thread", "name", "state", "model", "time", "tokens", "episode", "context", "routes")
    cell, long = "padding:3px 12px 3px 0;text-align:left;vertical-align:top", "overflow-wrap:anywhere"
    head = "".join(f'<th scope="col" style="{cell}">{h}</th>' for h in heads)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{cell};{long if i in (1, 7, 8) else "white-space:nowrap"}">{escape(value)}</td>'
            for i, value in enumerate(
                (
                    bar.id,
                    bar.full,
                    f"{MARKS[bar.state].glyph} {bar.state}",
                    bar.model,
                    bar.time,
                    bar.tokens,
                    bar.episode or "–",
                    ", ".join(bar.cites) or "–",
                    bar.went or "–",
                )
            )
        )
        + "</tr>"
        for bar in picture.bars
    )
    notes = "".join(f"<p>{escape(note)}</p>" for note in picture.notes)
    return (
        f'<details style="margin-top:6px"><summary style="cursor:pointer">The same as a table</summary>{notes}'
        f'<table style="border-collapse:collapse;font-variant-numeric:tabular-nums"><caption style="text-align:left">'
        f"{escape(describe(picture))}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></details>"
    )


def knot(state: ThreadState, x: float, y: float, *, hollow: bool = False) -> str:
    """The knot of a state as an SVG group around (x, y); `hollow` for one that left no episode."""
    mark = MARKS[state]
    empty = mark.hollow or hollow
    fill = PAPER["ground"] if empty else mark.accent
    dash = ' stroke-dasharray="3 2"' if state == "queued" else ""
    body = f'<path d="{mark.knot}" fill="{fill}" stroke="{mark.accent}" stroke-width="1.8"{dash}/>'
    if mark.inner:
        line = mark.accent if empty else PAPER["ground"]
        body += f'<path d="{mark.inner}" fill="none" stroke="{line}" stroke-width="1.8"/>'
    return f'<g transform="translate({_n(x)} {_n(y)})">{body}</g>'


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", fill: str = "ink", weight: int = 400, size: float = FONT
) -> str:
    return (
        f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}" fill="{PAPER[fill]}" font-weight="{weight}"'
        f' font-size="{_n(size)}" direction="ltr" unicode-bidi="isolate">{escape(text)}</text>'
    )


def _defs() -> str:
    def pattern(name: str, accent: str, lines: str) -> str:
        return (
            f'<pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse">'
            f'<rect width="6" height="6" fill="{PAPER["ground"]}"/>'
            f'<path d="{lines}" stroke="{accent}" stroke-width="2.2"/></pattern>'
        )

    return (
        "<defs>"
        + pattern("running", MARKS["running"].accent, "M-1 7L7 -1M-4 4L4 -4M2 10L10 2")
        + pattern("failed", MARKS["failed"].accent, "M1.5 0V6M4.5 0V6")
        + pattern("cancelled", MARKS["cancelled"].accent, "M0 3H2.5")
        + f'<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        f'<path d="M0 0.5L7.5 4L0 7.5Z" fill="{PAPER["edge"]}"/></marker></defs>'
    )


def _axis(picture: Layout) -> str:
    _, top, _, bottom = picture.plot
    rule = PAPER["rule"]
    parts = [_text(c.x, top - 10, c.title, anchor="end" if c.right else "start", fill="soft") for c in picture.columns]
    for bar in picture.bars[1::2]:
        stripe = f'x="8" y="{_n(bar.y - ROW / 2)}" width="{_n(picture.width - 16)}" height="{_n(ROW)}"'
        parts.append(f'<rect {stripe} fill="{PAPER["stripe"]}"/>')
    for cut in picture.cuts:
        middle = (cut.x0 + cut.x1) / 2
        parts.append(
            f'<path d="M{_n(middle)} {_n(top - 4)}V{_n(bottom)}" stroke="{PAPER["edge"]}" stroke-dasharray="1 4"'
            f' fill="none"/>'
        )
        if cut.label_x is not None:
            parts.append(_text(cut.label_x, bottom + 14, cut.label, fill="soft", size=FONT - 2))
    for tick in picture.ticks:
        parts.append(f'<path d="M{_n(tick.x)} {_n(top - 4)}V{_n(bottom)}" stroke="{rule}" fill="none"/>')
        parts.append(_text(tick.label_x, top - 10, tick.label, fill="soft", size=FONT - 1))
    parts.append(f'<path d="M8 {_n(top)}H{_n(picture.width - 8)}" stroke="{PAPER["edge"]}" stroke-width="0.8"/>')
    parts.append(f'<path d="M8 {_n(bottom)}H{_n(picture.width - 8)}" stroke="{PAPER["edge"]}" stroke-width="0.8"/>')
    return "".join(parts)


def _row(bar: Bar, picture: Layout) -> str:
    """The texts of one row."""
    y = bar.y + FONT * 0.36
    fill = {"id": "ink", "thread": "ink", "model": "soft", "time": "soft", "tokens": "soft"}
    value = {"id": bar.id, "thread": bar.name, "model": bar.model, "time": bar.time, "tokens": bar.tokens}
    return "".join(
        _text(
            column.x,
            y,
            value[column.title],
            anchor="end" if column.right else "start",
            fill=fill[column.title],
            weight=600 if column.title == "id" else 400,
        )
        for column in picture.columns
    )


def _bar(bar: Bar) -> str:
    mark = MARKS[bar.state]
    parts = [f"<title>{escape(f'{bar.id} {bar.full}: {bar.state}, {bar.time}')}</title>"]
    if bar.x1 - bar.x0 > 2:
        line = f"M{_n(bar.x0)} {_n(bar.y)}H{_n(bar.x1)}"
        parts.append(f'<path d="{line}" stroke="{MARKS["queued"].accent}" stroke-dasharray="2 3" stroke-width="1.6"/>')
    if bar.state != "queued":
        fill = mark.accent if bar.state == "successful" else f"url(#{bar.state})"
        box = f'x="{_n(bar.x1)}" y="{_n(bar.y - 4)}" width="{_n(bar.x2 - bar.x1)}" height="8" rx="2"'
        parts.append(f'<rect {box} fill="{fill}" stroke="{mark.accent}" stroke-width="1"/>')
    parts += [_hop(x, bar) for x in bar.hops]
    parts.append(knot(bar.state, bar.x2, bar.y, hollow=bar.state != "running" and bar.episode is None))
    return f"<g>{''.join(parts)}</g>"


def _hop(x: float, bar: Bar) -> str:
    """Where a thread went on to another route: a double stroke across its bar."""
    line = f"M{_n(x - 2)} {_n(bar.y - 7)}v14m4 -14v14"
    title = f"<title>{escape(f'{bar.id}: {bar.went}')}</title>"
    return f'<path d="{line}" stroke="{PAPER["ink"]}" stroke-width="1.6" fill="none">{title}</path>'


def _edge(edge: Edge) -> str:
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = edge.points
    line = f"M{_n(x0)} {_n(y0)}C{_n(x1)} {_n(y1)} {_n(x2)} {_n(y2)} {_n(x3)} {_n(y3)}"
    label = escape(f"{edge.target} was given the episode of {edge.source}")
    return f'<path d="{line}" marker-end="url(#tip)"><title>{label}</title></path>'


def _foot(picture: Layout) -> str:
    """The notes, and below them the legend."""
    y = picture.plot[3] + (30 if picture.cuts else 14)
    parts = []
    for note in picture.notes:
        parts.append(_text(16, y + 6, note, fill="soft"))
        y += 16
    return "".join(parts) + _legend(y + 12, picture)


def _legend(y: float, picture: Layout) -> str:
    """What each shape means, with how many there are; on two lines where one is too short."""
    x, parts = 16.0, []
    for state in STATES:
        label = f"{state} {picture.states[state]:,}" if state in picture.states else state
        parts.append(knot(state, x + 6, y) + _text(x + 18, y + 4, label, fill="soft"))
        x += 18 + measure(label, FONT) + 18
    if picture.width < LEGEND_WIDTH:
        x, y = 16.0, y + 20
    parts.append(knot("successful", x + 6, y, hollow=True) + _text(x + 18, y + 4, "left no episode", fill="soft"))
    x += 18 + measure("left no episode", FONT) + 18
    line = f'<path d="M{_n(x)} {_n(y)}h26" stroke="{PAPER["edge"]}" stroke-width="1.3" marker-end="url(#tip)"/>'
    parts += [line, _text(x + 34, y + 4, "episode given to", fill="soft")]
    x += 34 + measure("episode given to", FONT) + 18
    if any(bar.hops for bar in picture.bars):
        strokes = f'<path d="M{_n(x)} {_n(y - 6)}v12m4 -12v12" stroke="{PAPER["ink"]}" stroke-width="1.6"/>'
        parts += [strokes, _text(x + 12, y + 4, "went on to another route", fill="soft")]
    return "".join(parts)

"""The weave as a picture of a given width: every place in pixels, every text already measured and shortened.

`svg` draws it; nothing is decided there. The gutter on the left holds id, name and model of each row, the columns on
the right its duration and tokens, so no label meets a bar; all lies inside `width` × `height`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import Struct

from slate_lab.jupyter.axis import clock, elapsed, tick_times
from slate_lab.jupyter.lanes import Hidden, Lane, Weave, arrange
from slate_lab.jupyter.text import clean_line, duration, fit, measure, tokens
from slate_lab.records import Episode, Thread, ThreadState

__all__ = [
    "FONT",
    "LEGEND_WIDTH",
    "ROW",
    "Bar",
    "Column",
    "Cut",
    "Edge",
    "Layout",
    "Tick",
    "hidden_text",
    "layout",
    "used_tokens",
    "went",
]

FONT = 12.0
ROW = 26.0
_TOP = 64.0
_BOTTOM = 44.0
_MARGIN = 16.0
_GAP = 14.0
_LEFT, _RIGHT = 24.0, 30.0
"""Room inside the plot before the first and behind the last moment: for knots, and for edges that turn round."""
_NARROWEST = 640
LEGEND_WIDTH = 940
"""A narrower picture has its legend on two lines."""
_KNOT = 6.5
_LEAST = 8.0
"""A bar is never shorter, so that a thread which took no time is seen."""


class Column(Struct, frozen=True):
    """A column of texts: its heading, where it starts or (for figures) ends, and whether it ends there."""

    title: str
    x: float
    right: bool = False


class Bar(Struct, frozen=True):
    """One thread: `y` is the middle of its row; waiting from `x0`, working from `x1`, its knot at `x2`.

    At each of `hops` it went on to another route; `went` says to which.
    """

    id: str
    row: int
    y: float
    state: ThreadState
    x0: float
    x1: float
    x2: float
    name: str
    model: str
    time: str
    tokens: str
    full: str
    episode: str | None
    cites: tuple[str, ...]
    hops: tuple[float, ...] = ()
    went: str = ""


class Edge(Struct, frozen=True):
    """A reference, as a cubic curve of four points from the cited knot to the start of the citing thread."""

    source: str
    target: str
    points: tuple[tuple[float, float], ...]


class Tick(Struct, frozen=True):
    """A mark on the time axis and the left edge of its label."""

    x: float
    label: str
    label_x: float


class Cut(Struct, frozen=True):
    """Where idle time was cut out of the axis; `label_x` is the left edge of its label, None if there is no room."""

    x0: float
    x1: float
    label: str
    label_x: float | None


class Layout(Struct, frozen=True):
    """The picture; `plot` is (left, top, right, bottom) of the part with the bars."""

    width: float
    height: float
    plot: tuple[float, float, float, float]
    title: str
    subtitle: str
    columns: tuple[Column, ...]
    bars: tuple[Bar, ...]
    edges: tuple[Edge, ...]
    ticks: tuple[Tick, ...]
    cuts: tuple[Cut, ...]
    notes: tuple[str, ...]
    states: dict[ThreadState, int]


def layout(
    threads: Iterable[Thread], episodes: Iterable[Episode], *, now_ns: int, width: float = 960, cap: int = 2000
) -> Layout:
    """Place everything.

    Args:
        threads, episodes: what to draw.
        now_ns: where live threads end.
        width: of the picture in pixels, at least 640.
        cap: most rows drawn; above it the oldest are left out and a note says so.
    """
    records = {t.id: t for t in threads}
    settled = {e.thread: e for e in episodes}
    weave = arrange(records.values(), settled.values(), now_ns=now_ns, cap=cap)
    width = max(float(width), _NARROWEST)
    texts = [_texts(lane, records[lane.id], settled.get(lane.id), weave.now_s) for lane in weave.lanes]
    columns, limits, plot = _columns(texts, width, len(weave.lanes))
    bars = tuple(
        _bar(lane, records[lane.id], text, limits, weave, plot) for lane, text in zip(weave.lanes, texts, strict=True)
    )
    notes = _notes(weave)
    cuts = _cuts(weave, plot)
    title = _title(weave)
    return Layout(
        width=width,
        height=plot[3] + _BOTTOM + 16 * (len(notes) + bool(cuts)) + 20 * (width < LEGEND_WIDTH),
        plot=plot,
        title=title,
        subtitle=fit(_subtitle(weave), width - 3 * _MARGIN - measure(title, 14, bold=True), FONT - 1),
        columns=columns,
        bars=bars,
        edges=_edges(weave, bars, plot),
        ticks=_ticks(weave, plot),
        cuts=cuts,
        notes=notes,
        states=weave.states,
    )


class _Texts(Struct, frozen=True):
    id: str
    name: str
    full: str
    model: str
    time: str
    tokens: str


def used_tokens(episode: Episode | None) -> int | None:
    """Tokens of all calls of an episode; None if none is known."""
    total = None
    for use in episode.usage.values() if episode else ():
        for part in (
            use.input_fresh, use.cache_read, use.cache_write_5m, use.cache_write_1h, use.output, use.reasoning,
        ):  # fmt: skip
            if part is not None:
                total = (total or 0) + part
    return total


def _texts(lane: Lane, thread: Thread, episode: Episode | None, now_s: float) -> _Texts:
    spent = None if lane.start_s is None else (now_s if lane.end_s is None else lane.end_s) - lane.start_s
    used = used_tokens(episode)
    full = clean_line(thread.label, 200)
    return _Texts(
        id=clean_line(thread.id, 24),
        name=full if len(full) <= 80 else clean_line(full, 80),
        full=full,
        model=clean_line(thread.logical or thread.model, 60),
        time=duration(None if spent is None else max(0.0, spent)),
        tokens="–" if used is None else tokens(used),
    )


def _columns(
    texts: list[_Texts], width: float, rows: int
) -> tuple[tuple[Column, ...], tuple[float, float, float], tuple[float, float, float, float]]:
    """Columns as wide as what they hold, the names at most a fifth of the picture."""

    def widest(heading: str, column: list[str], most: float, *, bold: bool = False) -> float:
        return min(most, max([measure(heading, FONT), *(measure(t, FONT, bold=bold) for t in column)]))

    ids = widest("id", [t.id for t in texts], 90, bold=True)
    names = widest("thread", [t.name for t in texts], 0.21 * width)
    models = widest("model", [t.model for t in texts], 0.14 * width)
    times = widest("time", [t.time for t in texts], 100)
    used = widest("tokens", [t.tokens for t in texts], 90)
    name_x = _MARGIN + ids + _GAP
    model_x = name_x + names + _GAP
    left = model_x + models + _GAP
    used_x = width - _MARGIN
    time_x = used_x - used - _GAP
    right = time_x - times - _GAP
    columns = (
        Column("id", _MARGIN),
        Column("thread", name_x),
        Column("model", model_x),
        Column("time", time_x, right=True),
        Column("tokens", used_x, right=True),
    )
    return columns, (ids, names, models), (left, _TOP, right, _TOP + ROW * max(rows, 1))


def _x(place: float, plot: tuple[float, float, float, float]) -> float:
    left, _, right, _ = plot
    return round(left + _LEFT + place * (right - left - _LEFT - _RIGHT), 2)


def _bar(
    lane: Lane,
    thread: Thread,
    text: _Texts,
    limits: tuple[float, float, float],
    weave: Weave,
    plot: tuple[float, float, float, float],
) -> Bar:
    place = weave.scale.place
    end_s = weave.now_s if lane.end_s is None else lane.end_s
    x0 = _x(place(lane.queued_s), plot)
    x1 = _x(place(end_s if lane.start_s is None else lane.start_s), plot)
    x2 = min(max(_x(place(end_s), plot), x1 + _LEAST), plot[2] - _RIGHT + _LEAST)
    return Bar(
        id=fit(text.id, limits[0], FONT, bold=True),
        row=lane.row,
        y=plot[1] + ROW * (lane.row + 0.5),
        state=lane.state,
        x0=x0,
        x1=min(x1, x2),
        x2=x2,
        name=fit(text.name, limits[1], FONT),
        model=fit(text.model, limits[2], FONT),
        time=text.time,
        tokens=text.tokens,
        full=text.full,
        episode=lane.episode,
        cites=thread.action.context,
        hops=tuple(min(x2, max(x1, _x(place(moment), plot))) for moment in lane.hops_s),
        went=went(thread),
    )


def went(thread: Thread) -> str:
    """The routes a thread was taken to, with their causes, as one line; empty if it stayed where it was granted."""
    return "; ".join(clean_line(f"{h.from_route} → {h.to_route} ({h.cause})", 160) for h in thread.hops)


def _edges(weave: Weave, bars: tuple[Bar, ...], plot: tuple[float, float, float, float]) -> tuple[Edge, ...]:
    at = {lane.id: bar for lane, bar in zip(weave.lanes, bars, strict=True)}
    return tuple(Edge(k.source, k.target, _curve(at[k.source], at[k.target], plot)) for k in weave.links)


def _curve(source: Bar, target: Bar, plot: tuple[float, float, float, float]) -> tuple[tuple[float, float], ...]:
    start, end = source.x2 + _KNOT, target.x0 - 3
    bend = min(70.0, max(16.0, abs(end - start) / 2))
    return (
        (start, source.y),
        (min(start + bend, plot[2]), source.y),
        (max(end - bend, plot[0]), target.y),
        (end, target.y),
    )


def _ticks(weave: Weave, plot: tuple[float, float, float, float]) -> tuple[Tick, ...]:
    knots = weave.scale.knots
    ticks: list[Tick] = []
    free = plot[0]
    for (t0, u0), (t1, u1) in zip(knots[::2], knots[1::2], strict=True):
        room = (u1 - u0) * (plot[2] - plot[0] - _LEFT - _RIGHT)
        shift = weave.origin_ns / 1e9 % 86_400 if weave.scale.breaks else 0.0
        step, times = tick_times(t0 + shift, t1 + shift, int(room / 80))
        if weave.scale.breaks:
            step, times = 1.0, times or (t0 + shift,)
        for time in times:
            label = clock(time, step) if weave.scale.breaks else elapsed(time, step, knots[-1][0])
            tick = _tick(_x(weave.scale.place(time - shift), plot), label, plot)
            if tick.label_x >= free:
                ticks.append(tick)
                free = tick.label_x + measure(label, FONT - 1) + 10
    return tuple(ticks)


def _cuts(weave: Weave, plot: tuple[float, float, float, float]) -> tuple[Cut, ...]:
    cuts: list[Cut] = []
    free = plot[0]
    for gap in weave.scale.breaks:
        x0, x1, label = _x(gap.left, plot), _x(gap.right, plot), f"+{duration(gap.idle_s)}"
        start = (x0 + x1 - measure(label, FONT - 2)) / 2
        fits = start >= free and start + measure(label, FONT - 2) <= plot[2]
        cuts.append(Cut(x0, x1, label, round(start, 2) if fits else None))
        free = start + measure(label, FONT - 2) + 8 if fits else free
    return tuple(cuts)


def _tick(x: float, label: str, plot: tuple[float, float, float, float]) -> Tick:
    width = measure(label, FONT - 1)
    return Tick(x, label, min(max(x - width / 2, plot[0]), plot[2] - width))


def _title(weave: Weave) -> str:
    return f"{_many(weave.threads, 'thread')}, {_many(weave.episodes, 'episode')}"


def _subtitle(weave: Weave) -> str:
    if not weave.threads:
        return "no thread has run yet"
    begun = datetime.fromtimestamp(weave.origin_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    ended = [weave.now_s if lane.end_s is None else lane.end_s for lane in weave.lanes]
    what = "clock times, pauses cut out" if weave.scale.breaks else "time since then"
    return f"from {begun}, over {duration(max(ended))}; axis: {what}"


def _notes(weave: Weave) -> tuple[str, ...]:
    notes = []
    if weave.hidden:
        notes.append(hidden_text(weave.hidden))
    if weave.unlinked:
        notes.append(f"{_many(weave.unlinked, 'reference')} to threads that are not drawn.")
    return tuple(notes)


def hidden_text(hidden: Hidden) -> str:
    """What is not drawn, as a sentence."""
    states = ", ".join(f"{n:,} {state}" for state, n in sorted(hidden.states.items()))
    return f"{_many(hidden.count, 'earlier thread')} not drawn ({hidden.first} to {hidden.last}): {states}."


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"

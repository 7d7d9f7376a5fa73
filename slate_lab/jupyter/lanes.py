"""The weave as lanes over time, without pixels: which thread has which row, and how time becomes a place from 0 to 1.

In go the threads and episodes of a lab and the time now; out comes a `Weave` of plain values. `layout` turns it into
a picture of a given width, the interactive view into one that can be zoomed. Pure: the same input, the same result.

Each thread has a row of its own, in the order of the ids, so a row never moves when new threads come. Time runs
linearly; long stretches in which nothing happened are cut out and marked. While threads run, the right end of the time
axis grows in steps, so places change seldom.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from slate_lab.records import Episode, Thread, ThreadState, thread_of

__all__ = ["Break", "Hidden", "Lane", "Link", "Scale", "Weave", "arrange"]

_STEPS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
_GAP_SHARE = 0.15
_GAP_S = 2.0
_GAPS = 8
_BREAK = 0.035
"""Width of a cut in the time axis, as a share of all."""


class Lane(Struct, frozen=True):
    """One thread: its row, its state, and when it was created, started and ended (seconds since the origin).

    `end_s` of a live thread is None; `episode` is the id of its episode if it has one; `hops_s` are the moments when
    recovery took it to another route.
    """

    id: str
    row: int
    state: ThreadState
    queued_s: float
    start_s: float | None
    end_s: float | None
    episode: str | None
    hops_s: tuple[float, ...] = ()


class Link(Struct, frozen=True):
    """A reference: `target` was given the episode of `source`. Both are drawn threads."""

    source: str
    target: str


class Break(Struct, frozen=True):
    """A stretch of `idle_s` seconds cut out of the axis, between the places `left` and `right`."""

    left: float
    right: float
    idle_s: float


class Hidden(Struct, frozen=True):
    """Threads that are not drawn, by state; they are the oldest ones, `first` to `last`."""

    count: int
    first: str
    last: str
    states: dict[ThreadState, int]


class Scale(Struct, frozen=True):
    """Time to place: straight lines between `knots` of (seconds since the origin, place 0 to 1)."""

    knots: tuple[tuple[float, float], ...]
    breaks: tuple[Break, ...] = ()

    def place(self, seconds: float) -> float:
        """The place of a moment, from 0 to 1."""
        knots = self.knots
        if seconds <= knots[0][0]:
            return knots[0][1]
        if seconds >= knots[-1][0]:
            return knots[-1][1]
        i = bisect_right(knots, (seconds, 2.0))
        (t0, u0), (t1, u1) = knots[i - 1], knots[i]
        return u0 + (u1 - u0) * (seconds - t0) / (t1 - t0) if t1 > t0 else u1


class Weave(Struct, frozen=True):
    """All of it.

    Attributes:
        lanes: the drawn threads, by row.
        links: context references between drawn threads.
        scale: time to place.
        origin_ns: the moment that is 0 s.
        now_s: the moment of the picture.
        hidden: what is not drawn, None if all is.
        unlinked: references to episodes of threads that are not drawn.
        states: all threads by state, hidden ones too.
        episodes: how many threads have an episode.
    """

    lanes: tuple[Lane, ...]
    links: tuple[Link, ...]
    scale: Scale
    origin_ns: int
    now_s: float
    hidden: Hidden | None
    unlinked: int
    states: dict[ThreadState, int]
    episodes: int

    @property
    def threads(self) -> int:
        """All threads, hidden ones too."""
        return sum(self.states.values())


def arrange(threads: Iterable[Thread], episodes: Iterable[Episode], *, now_ns: int, cap: int = 2000) -> Weave:
    """Rows, links and the scale of time.

    Args:
        threads: in any order; the last record of an id counts.
        episodes: those that exist; their threads get a filled knot.
        now_ns: the present, where live threads end.
        cap: most rows drawn. Above it the oldest are hidden, a quarter of the cap at a time, so that rows move seldom.
    """
    known = sorted({t.id: t for t in threads}.values(), key=_order)
    ended_with = {e.thread: e.id for e in episodes}
    drawn, hidden = _split(known, cap)
    origin = min((_created(t) for t in known), default=now_ns)
    now_s = max(0.0, (now_ns - origin) / 1e9)
    lanes = tuple(_lane(t, row, origin, ended_with.get(t.id)) for row, t in enumerate(drawn))
    links, unlinked = _links(drawn)
    return Weave(
        lanes=lanes,
        links=links,
        scale=_scale(lanes, now_s),
        origin_ns=origin,
        now_s=now_s,
        hidden=hidden,
        unlinked=unlinked,
        states=dict(Counter(t.state for t in known)),
        episodes=sum(t.id in ended_with for t in known),
    )


def _order(thread: Thread) -> tuple[int, str]:
    number = thread.id[1:]
    return (int(number), thread.id) if number.isascii() and number.isdigit() else (2**63, thread.id)


def _split(known: Sequence[Thread], cap: int) -> tuple[Sequence[Thread], Hidden | None]:
    if len(known) <= cap:
        return known, None
    step = max(1, cap // 4)
    count = min(len(known) - 1, -(-(len(known) - cap) // step) * step)
    away = known[:count]
    states = dict(Counter(t.state for t in away))
    return known[count:], Hidden(count=count, first=away[0].id, last=away[-1].id, states=states)


def _created(thread: Thread) -> int:
    return thread.created_ns or thread.started_ns or thread.ended_ns or 0


def _lane(thread: Thread, row: int, origin: int, episode: str | None) -> Lane:
    """Times in order even if a clock went back."""
    queued = (_created(thread) - origin) / 1e9
    start = None if thread.started_ns is None else max(queued, (thread.started_ns - origin) / 1e9)
    end = None
    if thread.ended:
        floor = queued if start is None else start
        end = floor if thread.ended_ns is None else max(floor, (thread.ended_ns - origin) / 1e9)
    hops = tuple(max(queued, (hop.at_ns - origin) / 1e9) for hop in thread.hops)
    return Lane(thread.id, row, thread.state, queued, start, end, episode, hops)


def _links(drawn: Sequence[Thread]) -> tuple[tuple[Link, ...], int]:
    here = {t.id for t in drawn}
    links, unlinked = [], 0
    for thread in drawn:
        for cited in dict.fromkeys(map(thread_of, thread.action.context)):
            if cited in here and cited != thread.id:
                links.append(Link(cited, thread.id))
            else:
                unlinked += 1
    return tuple(links), unlinked


def _scale(lanes: Sequence[Lane], now_s: float) -> Scale:
    spans = _busy([(lane.queued_s, now_s if lane.end_s is None else lane.end_s) for lane in lanes])
    live = any(lane.end_s is None for lane in lanes)
    if live:
        start, end = spans[-1]
        spans[-1] = (start, start + _stepped(max(now_s, end) - start))
    total = sum(end - start for start, end in spans)
    floor = total / 20 or 1.0  # a moment in which all was over at once still gets a place
    weights = [max(end - start, floor) for start, end in spans]
    cut = min(_BREAK, 0.3 / max(1, len(spans) - 1))
    share = (1 - cut * (len(spans) - 1)) / sum(weights)
    knots: list[tuple[float, float]] = []
    breaks: list[Break] = []
    place = 0.0
    for (start, end), weight in zip(spans, weights, strict=True):
        if knots:
            breaks.append(Break(place, place + cut, start - knots[-1][0]))
            place += cut
        knots += [(start, place), (end if end > start else start + 1e-9, place + weight * share)]
        place += weight * share
    knots[-1] = (knots[-1][0], 1.0)
    return Scale(tuple(knots), tuple(breaks))


def _busy(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Stretches in which anything happened; only the longest pauses between them are worth a cut."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted((a, max(a, b)) for a, b in intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    if not merged:
        return [(0.0, 1.0)]
    least = max(_GAP_S, _GAP_SHARE * sum(end - start for start, end in merged))
    gaps = sorted(b[0] - a[1] for a, b in itertools.pairwise(merged))
    if len(gaps) > _GAPS:
        least = max(least, gaps[-_GAPS - 1])
    spans = [merged[0]]
    for start, end in merged[1:]:
        if start - spans[-1][1] > least:
            spans.append((start, end))
        else:
            spans[-1] = (spans[-1][0], end)
    return spans


def _stepped(seconds: float) -> float:
    """The next of a few round numbers, at least 5 s."""
    power = 1.0
    while power * 10 <= max(seconds, 5.0):
        power *= 10
    while True:
        for step in _STEPS:
            if step * power >= max(seconds, 5.0):
                return step * power
        power *= 10

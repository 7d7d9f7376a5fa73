"""Where things stand in the picture of the weave: nothing overlaps, nothing leaves it, rows never move."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slate_lab.jupyter.axis import tick_times
from slate_lab.jupyter.lanes import arrange
from slate_lab.jupyter.layout import FONT, ROW, Layout, layout
from slate_lab.jupyter.text import measure
from slate_lab.records import Thread

from .weaves import BASE_NS, NOW_NS, episode, thread, weaves

widths = st.sampled_from([100, 640, 960, 1600])


def row_spans(picture: Layout) -> list[list[tuple[float, float]]]:
    """What stands in each row, from left to right: texts and the bar with its knot."""
    rows = []
    for bar in picture.bars:
        texts = {"id": bar.id, "thread": bar.name, "model": bar.model, "time": bar.time, "tokens": bar.tokens}
        spans = []
        for column in picture.columns:
            text = texts[column.title]
            wide = measure(text, FONT, bold=column.title == "id")
            spans.append((column.x - wide, column.x) if column.right else (column.x, column.x + wide))
        rows.append(sorted([*spans, (bar.x0 - 6.5, bar.x2 + 6.5)]))
    return rows


@settings(max_examples=25, deadline=None)
@given(weaves(), widths)
def test_nothing_in_a_row_overlaps(weave: tuple[list[Thread], list], width: int) -> None:
    """Labels, bars with their knots and figures of one lane never overlap, and all lie inside the picture."""
    picture = layout(*weave, now_ns=NOW_NS, width=width)
    for spans in row_spans(picture):
        assert spans[0][0] >= 0
        assert spans[-1][1] <= picture.width
        for (_, end), (start, _) in itertools.pairwise(spans):
            assert end <= start + 0.01


@settings(max_examples=25, deadline=None)
@given(weaves(), widths)
def test_edges_stay_inside_and_join_the_right_rows(weave: tuple[list[Thread], list], width: int) -> None:
    """Each reference runs from the cited knot to the start of the citing lane, all of it inside the plot."""
    picture = layout(*weave, now_ns=NOW_NS, width=width)
    left, top, right, bottom = picture.plot
    at = {bar.id: bar for bar in picture.bars}
    for edge in picture.edges:
        assert all(left <= x <= right and top <= y <= bottom for x, y in edge.points)
        assert edge.points[0][1] == at[edge.source].y
        assert edge.points[0][0] > at[edge.source].x2
        assert edge.points[-1][1] == at[edge.target].y
        assert edge.points[-1][0] < at[edge.target].x0


@settings(max_examples=25, deadline=None)
@given(weaves(), st.integers(0, 12))
def test_rows_never_move_when_threads_come(weave: tuple[list[Thread], list], first: int) -> None:
    """A thread keeps its row whatever comes after it."""
    threads, episodes = weave
    before = arrange(threads[:first], episodes, now_ns=NOW_NS)
    after = arrange(threads, episodes, now_ns=NOW_NS)
    assert [lane.id for lane in after.lanes[: len(before.lanes)]] == [lane.id for lane in before.lanes]
    assert [lane.row for lane in after.lanes] == list(range(len(threads)))


def test_places_hold_still_while_time_passes() -> None:
    """While threads run the axis grows in steps: between two steps no place changes, and appending changes none."""
    old = [thread(1), thread(2, queued_s=6, state="running")]
    new = [*old, thread(3, queued_s=11, state="running")]
    now_ns = BASE_NS + 13_000_000_000
    later = layout(new, [], now_ns=now_ns + 1_000_000_000)
    for one, other in zip(layout(old, [], now_ns=now_ns).bars, later.bars, strict=False):
        assert (one.x0, one.x1, one.y) == (other.x0, other.x1, other.y)


@settings(max_examples=25, deadline=None)
@given(weaves(), widths)
def test_tick_labels_are_apart(weave: tuple[list[Thread], list], width: int) -> None:
    """Labels of the time axis, and of the pauses cut out of it, do not overlap and stay over the plot."""
    picture = layout(*weave, now_ns=NOW_NS, width=width)
    left, _, right, _ = picture.plot
    ticks = [(t.label_x, t.label_x + measure(t.label, FONT - 1)) for t in picture.ticks]
    cuts = [(c.label_x, c.label_x + measure(c.label, FONT - 2)) for c in picture.cuts if c.label_x is not None]
    for spans in (ticks, cuts):
        assert all(left - 0.01 <= a and b <= right + 0.01 for a, b in spans)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


@settings(max_examples=25, deadline=None)
@given(weaves())
def test_time_runs_to_the_right(weave: tuple[list[Thread], list]) -> None:
    """A later moment is never further left, and every place is between 0 and 1."""
    scale = arrange(*weave, now_ns=NOW_NS).scale
    knots = scale.knots
    assert knots[0][1] == 0
    assert knots[-1][1] == 1
    moments = sorted({t for t, _ in knots} | {t + 0.3 for t, _ in knots} | {-5.0, 1e9})
    places = [scale.place(m) for m in moments]
    assert places == sorted(places)
    assert all(0 <= p <= 1 for p in places)


def test_a_thread_that_took_no_time_is_seen() -> None:
    """A bar has a least length even when the thread began and ended in the same nanosecond."""
    threads = [thread(1, ran_s=0, waited_s=0), thread(2, queued_s=9000, ran_s=90)]
    bar = layout(threads, [episode(threads[0])], now_ns=NOW_NS).bars[0]
    assert bar.x2 - bar.x1 >= 6


def test_a_long_pause_is_cut_out() -> None:
    """Three seconds of work on two days take most of the axis; the night between them is a marked cut."""
    picture = layout([thread(1), thread(2, queued_s=80_000)], [], now_ns=BASE_NS + 90_000 * 10**9)
    assert [c.label for c in picture.cuts] == ["+22 h 13 min"]
    assert picture.bars[0].x2 - picture.bars[0].x1 > 100


def test_above_the_cap_the_oldest_are_counted() -> None:
    """Nothing is hidden silently: how many, which and in which states is said, and references to them are counted."""
    threads = [
        thread(n, queued_s=n, state="failed" if n == 3 else "successful", context=["t1.e1"]) for n in range(1, 31)
    ]
    picture = layout(threads, [episode(t) for t in threads], now_ns=NOW_NS, cap=20)
    assert len(picture.bars) <= 20
    assert picture.bars[-1].id == "t30"
    assert picture.notes[0] == "10 earlier threads not drawn (t1 to t10): 1 failed, 9 successful."
    assert picture.notes[1] == "20 references to threads that are not drawn."
    assert picture.title == "30 threads, 30 episodes"


def test_no_thread_at_all() -> None:
    """An empty lab has a picture too, and it says so."""
    picture = layout([], [], now_ns=NOW_NS)
    assert picture.subtitle == "no thread has run yet"
    assert picture.height > ROW


def test_records_may_come_in_any_order() -> None:
    """Rows follow the numbers of the ids, not the order of the list; the last record of an id counts."""
    threads = [thread(10), thread(2), thread(1, state="running"), thread(1)]
    picture = layout(threads, [], now_ns=NOW_NS)
    assert [(b.id, b.state) for b in picture.bars] == [
        ("t1", "successful"),
        ("t2", "successful"),
        ("t10", "successful"),
    ]


@pytest.mark.parametrize(
    ("first", "last", "most", "step"),
    [(0, 0.05, 5, 0.01), (0, 1, 5, 0.2), (0, 9, 5, 2), (0, 61, 5, 15), (30, 4000, 6, 900), (0, 400_000, 5, 86_400)],
    ids=["50 ms", "1 s", "9 s", "a minute", "an hour", "five days"],
)
def test_ticks_are_round(first: float, last: float, most: int, step: float) -> None:
    """Steps are those of a clock; every tick is a multiple of the step inside the span."""
    got, times = tick_times(first, last, most)
    assert got == step
    assert all(first <= t <= last for t in times)


def test_two_thousand_threads_are_quick() -> None:
    """2,000 threads are laid out in well under a quarter of a second of processor time (about 40 ms when idle)."""
    threads = [thread(n, queued_s=n * 0.7, context=[f"t{n // 2}.e1"] if n > 1 else []) for n in range(1, 2001)]
    episodes = [episode(t) for t in threads]
    spent = []
    for _ in range(3):
        begun = time.thread_time()
        picture = layout(threads, episodes, now_ns=NOW_NS)
        spent.append(time.thread_time() - begun)
    assert len(picture.bars) == 2000
    assert min(spent) < 0.25

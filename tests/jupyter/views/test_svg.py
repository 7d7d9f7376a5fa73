"""The static picture, the tree and the palette: readable everywhere, whatever a name holds."""

from __future__ import annotations

import base64
import re
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slate_lab.jupyter.layout import layout
from slate_lab.jupyter.svg import image_html, svg
from slate_lab.jupyter.text import clean_block, clean_line, duration, fit, measure, money
from slate_lab.jupyter.theme import DARK, LIGHT, MARKS, PAPER, SOURCES, STATES, contrast
from slate_lab.jupyter.tree import tree
from slate_lab.records import Thread

from .weaves import HOSTILE, NOW_NS, episode, thread, weaves

SVG = "{http://www.w3.org/2000/svg}"


def drawn(threads: list[Thread], **options: int) -> ElementTree.Element:
    """The picture, parsed."""
    picture = layout(threads, [episode(t) for t in threads if t.ended], now_ns=NOW_NS, **options)
    return ElementTree.fromstring(svg(picture))


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_any_name_gives_well_formed_xml(name: str) -> None:
    """Markup, quotes, ANSI, direction overrides, control characters and 10,000 characters are text, never structure."""
    hostile = thread(1, name=name, task=name, model=name or "m", context=["t2.e1"])
    root = drawn([hostile, thread(2, state="failed")])
    assert {e.tag.removeprefix(SVG) for e in root.iter()} <= {
        "svg", "title", "desc", "defs", "pattern", "rect", "path", "marker", "g", "text",
    }  # fmt: skip
    assert not re.search("[\x00-\x08\x0e-\x1f\u202a-\u202e\u2066-\u2069]", "".join(root.itertext()))


@settings(max_examples=15, deadline=None)
@given(weaves())
def test_every_weave_can_be_drawn(weave: tuple[list[Thread], list]) -> None:
    """Any weave gives well-formed XML, HTML with a table of its rows, and a tree with one line a thread."""
    threads, episodes = weave
    picture = layout(threads, episodes, now_ns=NOW_NS)
    ElementTree.fromstring(svg(picture))
    assert image_html(picture).count("<tr>") == len(threads) + 1
    lines = tree(threads, episodes, now_ns=NOW_NS).splitlines()
    assert len(lines) == 1 + len(threads)


def test_the_picture_explains_itself() -> None:
    """Title, description, role and label for those who do not see it; a legend for every state; its own ground."""
    root = drawn([thread(1), thread(2, state="failed", context=["t1.e1"])])
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "title desc"
    assert root.find(f"{SVG}title").text == "Weave graph: 2 threads, 2 episodes"
    assert "1 successful, 1 failed. 1 reference between" in root.find(f"{SVG}desc").text
    texts = " ".join(root.itertext())
    assert all(state in texts for state in STATES)
    assert "episode given to" in texts
    ground = root.find(f"{SVG}rect")
    assert (ground.get("fill"), ground.get("width")) == (PAPER["ground"], root.get("width"))


@settings(max_examples=15, deadline=None)
@given(weaves(), st.sampled_from([100, 640, 960]), st.integers(3, 12))
def test_all_text_is_inside(weave: tuple[list[Thread], list], width: int, cap: int) -> None:
    """Titles, labels, ticks, notes and the legend end before the picture does, at any width."""
    root = ElementTree.fromstring(svg(layout(*weave, now_ns=NOW_NS, width=width, cap=cap)))
    wide, high = float(root.get("width")), float(root.get("height"))
    for text in root.iter(f"{SVG}text"):
        long = measure(text.text or "", float(text.get("font-size")), bold=text.get("font-weight") == "600")
        start = float(text.get("x")) - (long if text.get("text-anchor") == "end" else 0)
        assert start >= 0
        assert start + long <= wide
        assert float(text.get("y")) < high


def test_the_image_holds_the_picture_and_the_table_says_the_same() -> None:
    """HTML carries the SVG as an image (an untrusted notebook shows it) and an equivalent table."""
    picture = layout([thread(1, name="look"), thread(2, context=["t1.e1"])], [episode(thread(1))], now_ns=NOW_NS)
    html = image_html(picture)
    data = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    assert base64.b64decode(data.group(1)).decode() == svg(picture)
    for word in ("look", "● successful", "t1.e1", "local", "<details"):
        assert word in html
    assert "<script" not in html


@pytest.mark.parametrize("state", STATES)
def test_states_differ_without_colour(state: str) -> None:
    """Shape, inner line or filling tells every state from every other one; so does its character."""
    looks = {s: (m.knot, m.inner, m.hollow) for s, m in MARKS.items()}
    assert [s for s, look in looks.items() if look == looks[state]] == [state]
    assert len({m.glyph for m in MARKS.values()}) == len(MARKS)


@pytest.mark.parametrize("accent", [*(m.accent for m in MARKS.values()), *SOURCES])
def test_accents_reach_aa_in_both_themes(accent: str) -> None:
    """White text on an accent reaches 4.5 : 1; the accent as a shape reaches 3 : 1 on the light and the dark ground."""
    assert contrast(accent, "#ffffff") >= 4.5
    assert contrast(accent, LIGHT["ground"]) >= 3
    assert contrast(accent, DARK["ground"]) >= 3


@pytest.mark.parametrize(
    ("ink", "ground", "least"),
    [
        (PAPER["ink"], PAPER["ground"], 4.5),
        (PAPER["soft"], PAPER["ground"], 4.5),
        (PAPER["soft"], PAPER["stripe"], 4.5),
        (PAPER["edge"], PAPER["stripe"], 3),
        (LIGHT["ink"], LIGHT["ground"], 4.5),
        (LIGHT["soft"], LIGHT["ground"], 4.5),
        (DARK["ink"], DARK["ground"], 4.5),
        (DARK["soft"], DARK["ground"], 4.5),
    ],
)
def test_inks_reach_aa(ink: str, ground: str, least: float) -> None:
    """Texts reach 4.5 : 1 and lines 3 : 1 on what they stand on."""
    assert contrast(ink, ground) >= least


def test_contrast_is_that_of_the_standard() -> None:
    """Black on white is 21 : 1, a colour on itself 1 : 1, and the order does not matter."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    for one, other in combinations(["#000000", "#777777", "#ffffff"], 2):
        assert contrast(one, other) == contrast(other, one)
    assert contrast("#123456", "#123456") == 1


def test_the_tree_shows_who_was_given_what() -> None:
    """A thread stands under the newest thread it cites; all it cites is named after the arrow."""
    threads = [
        thread(1, name="read"),
        thread(2, name="look", state="failed"),
        thread(3, name="join", context=["t1.e1", "t2.e1"]),
        thread(4, name="wait", state="queued", context=["t3.e1"]),
    ]
    text = tree(threads, [episode(t) for t in threads[:3]], now_ns=NOW_NS)
    assert text.splitlines() == [
        "weave: 4 threads: 1 queued, 2 successful, 1 failed",
        "● t1 read  successful · 5.0 s · local · 2,500 tokens · t1.e1",
        "◆ t2 look  failed (limit_turns) · 5.0 s · local · 2,500 tokens · t2.e1",
        "└─ ● t3 join  successful · 5.0 s · local · 2,500 tokens · t3.e1  ← t1.e1, t2.e1",
        "   └─ ○ t4 wait  queued · local  ← t3.e1",
    ]


def test_a_deep_chain_stays_on_the_page() -> None:
    """150 threads that each cite the one before give 150 lines of ordinary length."""
    threads = [thread(n, context=[f"t{n - 1}.e1"] if n > 1 else []) for n in range(1, 151)]
    lines = tree(threads, [], now_ns=NOW_NS).splitlines()
    assert len(lines) == 151
    assert max(map(len, lines)) < 140


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0, "0.0 s"), (0.012, "12 ms"), (9.94, "9.9 s"), (42.4, "42 s"), (59.6, "1 min 00 s"),
     (3600, "1 h 00 min"),     (7261, "2 h 01 min"), (90_000, "1 d 1 h")],
)  # fmt: skip
def test_durations(seconds: float | None, text: str) -> None:
    """Durations read well at every size."""
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("nusd", "text"),
    [(None, "unknown"), (0, "$0"), (1, "$0.00000000100"), (123_456, "$0.000123"), (2_500_000_000, "$2.50"),
     (-5_000_000, "-$0.00500")],
)  # fmt: skip
def test_money(nusd: int | None, text: str) -> None:
    """Unknown is not 0, and no known amount is rounded to 0."""
    assert money(nusd) == text


def test_fit_and_measure() -> None:
    """A shortened text fits, ends in an ellipsis and begins as the whole one; what fits is not touched."""
    for text in ("a perfectly ordinary name", "WWWWWWWWWWWWWWW", "日本語日本語日本語"):
        short = fit(text, 60, 12)
        assert measure(short, 12) <= 60
        assert short.endswith("…")
        assert text.startswith(short[:-1].rstrip())
        assert fit(text, 1000, 12) == text
    assert fit("word", 2, 12) == ""


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_cleaning_is_stable(text: str) -> None:
    """Cleaning twice is cleaning once, a line is one line within its limit, and all of it can be sent as UTF-8."""
    line, block = clean_line(text, 50), clean_block(text)
    assert clean_line(line, 50) == line
    assert clean_block(block) == block
    assert len(line) <= 50
    assert "\n" not in line
    (line + block).encode()

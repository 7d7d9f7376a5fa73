"""Cards, the budget bar and the cost board: everything said, everything escaped, nothing unknown called 0."""

from __future__ import annotations

import re
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from slate_lab.errors import ConfigError, DispatchError, Place, Problem
from slate_lab.jupyter.board import CostBoard
from slate_lab.jupyter.budget import BudgetBar
from slate_lab.jupyter.cards import (
    Card,
    episode_card,
    episode_text,
    error_card,
    error_text,
    thread_card,
    thread_text,
)
from slate_lab.records import Call, Cost, Episode, Evidence, Fact, Finding, Progress, Usage, usd

from .weaves import HOSTILE, episode, thread

PARTS = [
    {"source": "preamble", "tokens": 120, "exact": False},
    {"source": "t1.e1", "tokens": 640, "exact": False},
    {"source": "t2.e1", "tokens": 300, "exact": True},
    {"source": "task", "tokens": 40, "exact": False},
]


class Page(HTMLParser):
    """What a browser would make of the HTML: its tags, its text; tags must nest."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        """Keep it, and check that no attribute runs code or loads anything."""
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on")
            assert name not in ("src", "href") or str(value).startswith("data:")
            assert "url(" not in (value or "")
        if tag not in ("img", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close it."""
        if tag != "path":
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep it."""
        self.text += data


def progress(**changes: Any) -> Progress:
    """A running thread."""
    base = Progress(id="t7", label="compare", state="running", doing="reading notes/a.md", elapsed_s=73, turns=4)
    return msgspec.structs.replace(base, **changes)


def call(n: int, *, kind: Any = "worker", nusd: int | None = 1_000_000, logical: str = "local") -> Call:
    """One call."""
    return Call(
        thread=f"t{n}", kind=kind, logical=logical, provider="p", model="m", started_ns=n, ended_ns=n * 10**9,
        outcome="ok", usage=Usage(input_fresh=100, output=10), cost=Cost(nusd=nusd),
    )  # fmt: skip


def htmls(text: str) -> list[str]:
    """Every HTML view with `text` wherever a text goes."""
    made = thread(1, name=text, task=text, model=text)
    base = episode(made, text=text)
    hostile = msgspec.structs.replace(
        base, notice=text, detail=text, code="x", lost=(text,), invented=(text,), artifacts=({"path": text},), type=text
    )
    return [
        episode_card(hostile),
        thread_card(progress(label=text, doing=text, text=text)),
        error_card(DispatchError.of("code", text)),
        error_card(ConfigError([Problem("a", text, Place(text, 1, text)), Problem("b", text)])),
        error_card(ValueError(text)),
        BudgetBar([{"source": text, "tokens": 5, "exact": True}], 10, 2, label=text, marks={text: 4}).html,
        CostBoard([{"thread": text, "kind": text, "model": text, "tokens": 3, "nusd": None}], label=text).html,
    ]


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_any_text_stays_text(text: str) -> None:
    """No text becomes a tag, an attribute or a control character, and the HTML stays well nested."""
    plain = [Page(html).tags for html in htmls("plain " * (2500 if len(text) > 2000 else 1))]
    for html, tags in zip(htmls(text), plain, strict=True):
        page = Page(html)
        assert "script" not in page.tags
        assert set(page.tags) <= set(tags) | {"code", "details", "summary", "li", "ul", "span"}
        assert not re.search("[\x00-\x08\x0e-\x1f\u202a-\u202e\u2066-\u2069]", html)
        html.encode()


def test_an_episode_card_says_everything() -> None:
    """Sections, evidence, what was lost and invented, sizes, tokens, cost, route, context."""
    made = msgspec.structs.replace(
        episode(thread(3, name="look", context=["t1.e1"])), ran_route="openai/gpt-5", truncated=True, omitted=12
    )
    text = Page(episode_card(made)).text
    for words in (
        "successful", "t3.e1", "look", "Intent", "Actions Taken", "Key Findings", "Artifacts Changed", "Open Issues",
        "Handoff Notes", "rests on fact 2, line 12", "In no fact:", "15:00", "2 identifiers", "api-gateway, and 1 more",
        "1,200 → 300 tokens (4.0 : 1)", "2,500 tokens", "cost $0.00123", "openai/gpt-5 instead of local/small",
        "given t1.e1", "report.md", "created", "last answer cut", "12 characters omitted", "worker 1,000",
    ):  # fmt: skip
        assert words in text, words


def test_an_unknown_cost_is_called_so() -> None:
    """A missing price is `unknown` on every view, never 0."""
    made = msgspec.structs.replace(episode(thread(1)), cost_nusd=None)
    assert "cost unknown" in episode_card(made)
    assert "cost unknown" in episode_text(made)
    assert "cost unknown" in thread_card(progress(cost_nusd=None))
    assert "$0" not in CostBoard([call(1, nusd=None)]).text


def test_an_empty_section_is_left_out() -> None:
    """A failed episode in fixed form shows why it failed and no empty headings."""
    made = msgspec.structs.replace(
        episode(thread(1, state="failed")), intent="", actions=(), findings=(), issues=(), handoff="", detail="8 used"
    )
    page = Page(episode_card(made))
    assert "limit_turns: 8 used" in page.text
    assert "Intent" not in page.text
    assert "Handoff" not in page.text


def test_the_live_card_keeps_its_height() -> None:
    """The box of streamed text has a fixed height and shows the last lines only."""
    short, long = thread_card(progress(text="a")), thread_card(progress(text="line\n" * 500 + "the end"))
    height = re.compile(r"height:[\d.]+em")
    assert height.findall(short) == height.findall(long) != []
    assert "the end" in long
    assert Page(long).text.count("line") == 5
    assert "reading notes/a.md" in long


def test_a_queued_thread_says_its_place() -> None:
    """While it waits the card says how far in line it is."""
    queued = progress(state="queued", position=3, doing="")
    assert "queued, 3 in line" in thread_card(queued)
    assert "queued, 3 in line" in thread_text(queued)


def test_every_problem_of_an_error_is_listed() -> None:
    """An error of several problems shows each with its place; one of a single problem shows its message once."""
    error = ConfigError([Problem("a", "first", Place("slate.yaml", 3, "x")), Problem("b", "second")])
    page = Page(error_card(error))
    assert "2 problems" in page.text
    assert "slate.yaml:3, x: first" in page.text
    assert "second" in page.text
    assert error_text(DispatchError.of("missing_key", "set it")) == "DispatchError: set it"


def test_every_view_has_text() -> None:
    """Each object that a notebook displays has a text form too."""
    views = [Card("<b>x</b>", "x"), BudgetBar(PARTS, 8192), CostBoard([call(1)]), CostBoard([]), BudgetBar([])]
    for view in views:
        bundle = view._repr_mimebundle_()
        assert sorted(bundle) == ["text/html", "text/plain"]
        assert bundle["text/plain"].strip()
        assert repr(view) == bundle["text/plain"]


def test_a_budget_adds_up() -> None:
    """Parts, reserve and what is free make the window; the bar's pieces make its whole length."""
    bar = BudgetBar(PARTS, 4000, 1000, label="t7")
    assert (bar.used, bar.free, bar.exact) == (1100, 1900, False)
    assert bar.summary == "1,100 of 4,000 tokens (estimated), 28 %, 1,900 free"
    pieces = [Decimal(w) for w in re.findall(r"flex:0 0 ([\d.]+)%", bar.html)]
    assert abs(sum(pieces) - 100) < Decimal("0.01")
    for words in ("reserved for the answer", "estimated", "exact", "t1.e1", "1,900"):
        assert words in bar.text


def test_an_unknown_window_is_said() -> None:
    """Without a window there is no share of it and nothing free."""
    bar = BudgetBar(PARTS, None, 500)
    assert bar.free is None
    assert bar.summary == "1,100 tokens (estimated), window unknown"
    assert "free" not in bar.text
    assert "dashed" in bar.html


def test_a_brief_that_is_too_large_says_by_how_much() -> None:
    """Over the window the bar shows where the window ends and the summary how much is too much."""
    bar = BudgetBar(PARTS, 1000, 200)
    assert bar.summary.endswith("110 %, 300 too many")
    assert "window 1,000" in Page(bar.html).text


def test_episodes_share_a_colour_and_exact_is_said() -> None:
    """All episodes of the context look alike; a brief of exact parts is called exact."""
    html = BudgetBar(PARTS, 4000).html
    colours = re.findall(r"border-radius:3px;color:#ffffff;[^>]*background:(#\w+)", html)
    assert colours[1] == colours[2] != colours[0]
    assert (
        BudgetBar([{"source": "task", "tokens": 4, "exact": True}], 10).summary
        == "4 of 10 tokens (exact), 40 %, 6 free"
    )


def test_a_cost_board_adds_exactly() -> None:
    """The groups of each kind add to the total; what is unknown is counted beside it, never in it as 0."""
    rows = [call(1), call(1, kind="compressor", nusd=None), call(2, nusd=5_000_000, logical="big"), call(2, nusd=None)]
    board = CostBoard(rows, cap_nusd=10_000_000)
    assert usd(board.total.nusd) == Decimal("0.006")
    assert board.summary == "$0.00600, and 2 calls of unknown cost of $0.0100, 4 calls, 440 tokens"
    for key in ("thread", "model", "kind"):
        assert sum(s.nusd for s in board.by(key)) == 6_000_000
        assert sum(s.unknown for s in board.by(key)) == 2
    assert [s.name for s in board.by("model")] == ["big", "local"]
    assert [s.cost for s in board.by("kind")] == ["$0.00600", "unknown"]
    assert "compressor" in board.text


def test_a_local_board_compares_tokens() -> None:
    """Where nothing costs anything the bars show tokens, and the cost is a known $0."""
    board = CostBoard([call(1, nusd=0), call(2, nusd=0), call(2, nusd=0)])
    assert "$0, 3 calls, 330 tokens" in board.text
    assert "unknown" not in board.text
    assert "running total of tokens, 330 at the end" in board.html


def test_many_threads_are_summed_up() -> None:
    """After fifteen groups the rest is one line with its sum."""
    board = CostBoard([call(n) for n in range(1, 31)])
    assert "and 15 more: $0.0150, 1,650 tokens" in board.text
    assert "and 15 more: $0.0150, 1,650 tokens" in board.html


def test_a_finding_without_proof_says_so() -> None:
    """Evidence that is the worker's own sentence, or none at all, is not shown like a line of a file."""
    facts = (Fact(n=1, kind="tool", text="09:14 deployed"), Fact(n=2, kind="text", text="It was the deploy."))
    findings = (
        Finding(text="Deployed at 09:14.", evidence=(Evidence(1, 1, "09:14 deployed"),)),
        Finding(text="It was the deploy.", evidence=(Evidence(2, 1, "It was the deploy."),)),
        Finding(text="Nobody knows."),
    )
    html = episode_card(Episode(id="t1.e1", thread="t1", facts=facts, fact_count=2, findings=findings))
    assert html.count("its own words") == 1
    assert html.index("fact 2, line 1 (its own words)") > html.index("fact 1, line 1<")
    assert html.count("rests on no line") == 1

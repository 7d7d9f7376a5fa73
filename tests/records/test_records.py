"""Records: exact money, disjoint tokens where absent is not zero, ids and their near matches."""

from __future__ import annotations

from decimal import Decimal

import pytest

from slate_lab.records import Episode, Evidence, Finding, Limits, Turn, Usage, is_episode_id, is_thread_id, near, usd


def test_absent_is_not_zero_and_sums_keep_it():
    """A bucket nobody reported stays None; a reported one adds up."""
    total = Usage(input_fresh=3, output=1) + Usage(input_fresh=2, reasoning=4)
    assert (total.input_fresh, total.cache_read, total.output, total.reasoning) == (5, None, 1, 4)
    assert (total.input_tokens, total.output_tokens, total.tokens) == (5, 5, 10)
    assert Usage().tokens is None


@pytest.mark.parametrize(("nano", "dollars"), [(4_168_400, "0.0041684"), (1, "0.000000001"), (0, "0"), (None, None)])
def test_money_is_exact(nano, dollars):
    """Nano-dollars as Decimal dollars; unknown stays unknown."""
    assert usd(nano) == (None if dollars is None else Decimal(dollars))


IDS = {
    "t1": (True, False),
    "t12.e1": (False, True),
    "t0": (False, False),
    "t1.e2": (False, False),
    "t１": (False, False),
}


@pytest.mark.parametrize(("id", "kinds"), IDS.items(), ids=IDS)
def test_ids_are_read_strictly(id, kinds):
    """ASCII digits, no leading zero, one episode a thread."""
    assert (is_thread_id(id), is_episode_id(id)) == kinds


def test_near_words_are_listed_best_first():
    """A typo is mended by reading."""
    assert near("resercher", ["researcher", "reviewer", "query"])[0] == "researcher"
    assert near("zzz", ["researcher"]) == []


def test_limits_fill_from_the_ones_behind_them():
    """An action's own limit wins, also when it is larger."""
    got = Limits(turns=9).over(Limits(turns=3, usd=Decimal("0.5")))
    assert (got.turns, got.usd, got.seconds) == (9, Decimal("0.5"), None)


def test_an_episode_renders_six_sections_in_order_with_its_evidence():
    """Empty sections say so; a finding carries the lines it rests on."""
    finding = Finding(text="The rate rose.", evidence=(Evidence(1, 2, "error rate 7.5 %"),))
    episode = Episode(
        id="t1.e1",
        thread="t1",
        intent="Find it.",
        findings=(finding,),
        artifacts=({"path": "a.md", "before": None, "after": "x"},),
        facts_tokens=300,
        episode_tokens=100,
    )
    text = episode.to_markdown()
    order = ["Intent", "Actions Taken", "Key Findings", "Artifacts Changed", "Open Issues", "Handoff Notes"]
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == order
    assert 'fact 1, line 2: "error rate 7.5 %"' in text
    assert "`a.md` (created)" in text
    assert "## Open Issues\nNone." in text
    assert episode.ratio == 3


def test_an_answer_in_a_cell_loads_nothing():
    """A turn is shown as Markdown with its own headings, but an image of an answer is not fetched, and HTML is text."""
    text = "# Done\n![x](http://evil.example/k.png) <img src=x onerror=alert(1)> `<b>` \x1b[31mred"
    shown = Turn(session="c1", n=1, thread="t1", prompt="?", text=text)._repr_markdown_()
    assert shown == "# Done\n\\![x](http://evil.example/k.png) \\<img src=x onerror=alert(1)> `<b>` red"

"""Plain text and JSON of what the verbs return."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slate_lab.records import Action, Episode, Fact, Thread
from slate_lab.verbs.text import episode_text, facts_text, json_text, money, one_line, table, text_of, weave_text

MONEY = {None: "cost unknown", 0: "$0", 1: "$0.000000001", 1_200: "$0.000001", 1_234_000: "$0.001234",
         50_000_000: "$0.05", 2_500_000_000: "$2.50"}  # fmt: skip


@pytest.mark.parametrize(("nusd", "shown"), MONEY.items(), ids=str)
def test_money(nusd: int | None, shown: str) -> None:
    """Small sums keep their digits; unknown is not 0."""
    assert money(nusd) == shown


def test_tables_line_up_and_hide_nothing_but_length() -> None:
    """Numbers to the right, long cells cut with dots, control characters gone."""
    rows = [{"id": "t1", "n": 5, "text": "a\nb\x1b[31m"}, {"id": "t10", "n": 1000, "text": "x" * 100}]
    lines = table(rows).splitlines()
    assert lines[0] == "id      n  text"
    assert lines[1] == "t1      5  a b"
    assert lines[2] == "t10  1000  " + "x" * 57 + "..."


def test_what_a_model_wrote_cannot_drive_a_terminal() -> None:
    """Escape sequences in episodes and facts are not passed on."""
    nasty = "\x1b]0;title\x07\x1b[2Jtext\r\b"
    episode = Episode(id="t1.e1", thread="t1", intent=nasty, notice=nasty)
    facts = [Fact(n=1, kind="tool", tool="read", text=nasty, arguments={"path": "a\x1b[1m"}, ok=False, omitted=1200)]
    for text in (episode_text(episode), facts_text(facts), one_line(nasty)):
        assert not set(text) & set("\x1b\x07\r\b")
        assert "text" in text
    assert "failed, 1,200 characters omitted" in facts_text(facts)


def test_json_is_plain_and_exact() -> None:
    """Money is exact text, an episode carries its sections and not its facts, paths are texts."""
    episode = Episode(id="t1.e1", thread="t1", intent="why", cost_nusd=1_500, facts=(Fact(n=1, kind="text", text="x"),))
    found = json.loads(json_text([episode]))[0]
    assert (found["cost_usd"], found["sections"]["Intent"]) == ("0.000001500", "why")
    assert "facts" not in found
    assert json.loads(json_text({"p": Path("a/b"), "none": None})) == {"p": "a/b", "none": None}


def test_the_weave_as_lines() -> None:
    """Each thread with its state, and what it cites."""
    one = Thread(id="t1", action=Action(task="first\nline two"), state="successful")
    two = Thread(id="t2", action=Action(task="then", context=("t1.e1",), after=("t1",)), state="running")
    assert weave_text([one, two]) == "t1 successful: first\nt2 running: then  <- t1.e1  after t1"


def test_empty_results_are_empty_text() -> None:
    """No rows, no head."""
    assert text_of([]) == ""
    assert text_of(None) == ""

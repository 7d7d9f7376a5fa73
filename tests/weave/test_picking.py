"""A small model chooses sentences of the answer and the lines that prove them; code does the rest."""

from __future__ import annotations

import pytest

from slate_lab.models.example import instance_of
from slate_lab.weave.evidence import Seen
from slate_lab.weave.picking import pick_schema, picks_of
from tests.weave.corpus_actions import LOG, facts_of


def seen(final: str) -> list[Seen]:
    """The log and the answer."""
    return [Seen(fact) for fact in facts_of(LOG, final=final)]


def picked(final: str) -> dict[str, dict[str, object]]:
    """The findings of the first choice everywhere."""
    return dict(instance_of(pick_schema(picks_of(seen(final), final)))["key_findings"])


@pytest.mark.parametrize(
    ("sentence", "lines"),
    [
        ("It was rolled back to 4.2.0.", {6, 1}),
        ("The queue had a depth of 18,000.", {5}),
        ("Orders met a PoolTimeout with max_connections=20.", {4}),
    ],
)
def test_the_evidence_offered_for_a_sentence_shares_its_words(sentence: str, lines: set[int]):
    """At most two lines, those with the rarest words in common."""
    (pick,) = picks_of(seen(sentence), sentence)
    assert {e.line for e in pick.lines} <= lines | {1, 2}
    assert {e.line for e in pick.lines} & lines
    assert len(pick.lines) <= 2


def test_a_sentence_that_no_line_supports_has_no_evidence():
    """Nothing is pointed at rather than anything."""
    said = picked("Perhaps rewriting everything helps.")
    assert said == {"1": {"text": "Perhaps rewriting everything helps."}}


def test_findings_are_different_sentences_dealt_over_the_answer():
    """Each finding has its own share of the answer, so none is told twice."""
    final = "One is 1. Two is 2. Three is 3. Four is 4. Five is 5."
    assert [f["text"] for f in picked(final).values()] == ["One is 1.", "Three is 3.", "Four is 4."]
    assert [f["text"] for f in picked("Only one.").values()] == ["Only one."]


def test_open_sentences_are_issues_and_no_findings():
    """What is unknown is not stated as found; the first sentence is the answer whatever it says."""
    final = "Two callers remain: a.py and b.py. It is still unknown who changed it."
    said = instance_of(pick_schema(picks_of(seen(final), final)))
    assert [f["text"] for f in said["key_findings"].values()] == ["Two callers remain: a.py and b.py."]
    assert said["open_issues"] == ["It is still unknown who changed it."]
    assert [f["text"] for f in picked("I cannot read it.").values()] == ["I cannot read it."]


def test_lists_and_long_answers_are_cut_into_sentences():
    """Marks of lists go, sentences keep their words, and there is a cap."""
    final = (
        "- rate 7.5 %\n* depth 18,000\n\n"
        + "More text. And more still.\n" * 30
        + "\n".join(f"n {i}" for i in range(30))
    )
    texts = [pick.text for pick in picks_of(seen(final), final)]
    assert texts[:3] == ["rate 7.5 %", "depth 18,000", "More text."]
    assert len(texts) == 8

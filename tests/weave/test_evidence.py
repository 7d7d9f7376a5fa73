"""Which lines may be evidence, and how what a model wrote leads back to a line."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slate_lab.records import Evidence, Fact
from slate_lab.weave.evidence import LINE_CHARS, Seen, choose, resolve, shown
from tests.weave.corpus_actions import ANSWER, LOG, facts_of


def seen(facts: list[Fact]) -> list[Seen]:
    """All facts, whole."""
    return [Seen(fact) for fact in facts]


def lines_of(facts: list[Fact], *, final: str = ANSWER, task: str = "", limit: int = 60) -> list[str]:
    """The quotes that are chosen."""
    return [e.quote for e in choose(seen(facts), final=final, task=task, limit=limit)]


def test_the_lines_that_the_answer_rests_on_are_chosen_first():
    """Shared numbers and names decide; the order of reading is kept."""
    assert lines_of(facts_of(LOG), limit=2) == LOG.splitlines()[2:4]


def test_every_fact_keeps_its_best_line():
    """Evidence is spread over the facts, up to half of the places."""
    rich = "\n".join(f"error rate 7.5 % at 09:16 because orders ran out, case {i}" for i in range(30))
    chosen = choose(seen(facts_of("depth rose to 12", rich, "depth fell to 3")), final=ANSWER, task="depth", limit=6)
    assert [e.fact for e in chosen] == [1, 2, 2, 2, 2, 3]


def test_the_last_answer_is_evidence_only_where_no_tool_ran():
    """An answer does not prove itself when there is something it rests on."""
    assert ANSWER not in lines_of(facts_of(LOG))
    assert lines_of([Fact(n=1, kind="text", text=ANSWER)]) == [ANSWER]


def test_the_workers_own_words_stand_behind_tool_results():
    """A remark comes after the lines it repeats."""
    remark = Fact(n=1, kind="text", text="I see an error rate of 7.5 % here.")
    result = Fact(n=2, kind="tool", tool="read", text="error rate 7.5 %")
    assert lines_of([remark, result], limit=1) == ["error rate 7.5 %"]


def test_a_line_of_two_facts_belongs_to_the_tool_result():
    """The same text said and read is evidence as it was read."""
    said = Fact(n=1, kind="text", text="error rate 7.5 %")
    read = Fact(n=2, kind="tool", tool="read", text="x\nerror rate 7.5 %")
    chosen = choose(seen([said, read]), final="", task="", limit=9)
    assert Evidence(2, 2, "error rate 7.5 %") in chosen
    assert not [e for e in chosen if e.fact == 1]


def test_brackets_rules_and_blank_lines_are_no_evidence():
    """A line says something or it is not offered."""
    assert lines_of([Fact(n=1, kind="tool", tool="read", text="{\n}\n-----\n\n  \n| |\nok 200\n")]) == ["ok 200"]


def test_a_long_line_is_offered_in_pieces_that_are_verbatim():
    """A paragraph or one line of JSON can be pointed at."""
    line = "Sentence number one says much. " * 40
    chosen = choose([Seen(Fact(n=1, kind="tool", tool="read", text=line))], final="", task="", limit=60)
    assert all(e.quote in line and len(e.quote) <= LINE_CHARS and e.line == 1 for e in chosen)
    assert all(e.quote.rstrip().endswith(".") for e in chosen)


def test_only_visible_lines_are_offered_and_their_numbers_are_those_of_the_fact():
    """What the model cannot see it cannot choose."""
    fact = Fact(n=3, kind="tool", tool="read", text="one 1111\ntwo 2222\nthree 3333")
    chosen = choose([Seen(fact, start=3)], final="two 2222", task="", limit=9)
    assert chosen == (Evidence(3, 3, "three 3333"),)


@pytest.mark.parametrize(
    "said",
    ["  error   rate 7.5 %  (high)", '"error rate 7.5 % (high)"', "error rate 7.5 % (high)", "E2", "E2: error rate"],
)
def test_blanks_quotes_and_labels_make_no_difference(said: str):
    """A model that tidies a line still means it."""
    choices = (Evidence(1, 1, "first line"), Evidence(1, 2, "  error rate 7.5 %\t(high)"))
    assert resolve(said, choices) == choices[1]


@pytest.mark.parametrize("said", ["error rate 7.6 % (high)", "", "E0", "E3", "line", "E2e"])
def test_anything_else_means_no_line(said: str):
    """There is no nearest match: evidence is the line or it is none."""
    assert resolve(said, (Evidence(1, 1, "first line"), Evidence(1, 2, "error rate 7.5 % (high)"))) is None


def test_control_characters_are_not_shown_and_the_quote_keeps_them():
    """A coloured log line reaches the model plain and the reader as it stood."""
    raw = "\x1b[31mERROR\x1b[0m pool 20\x00"
    (chosen,) = choose([Seen(Fact(n=1, kind="tool", tool="bash", text=raw))], final="", task="", limit=5)
    assert chosen.quote == raw
    assert shown(chosen) == "ERROR pool 20"
    assert resolve("ERROR pool 20", (chosen,)) == chosen


@settings(max_examples=100, deadline=None)
@given(texts=st.lists(st.text(max_size=400), max_size=6), final=st.text(max_size=60), limit=st.integers(1, 20))
def test_choices_are_verbatim_distinct_capped_and_stable(texts: list[str], final: str, limit: int):
    """Whatever the facts hold, a choice is a piece of the line it points at, and resolves to itself."""
    facts = [Fact(n=i, kind="tool", tool="read", text=text) for i, text in enumerate(texts, 1)]
    chosen = choose(seen(facts), final=final, task="", limit=limit)
    assert len(chosen) <= limit
    assert len({shown(e) for e in chosen}) == len(chosen)
    assert chosen == choose(seen(facts), final=final, task="", limit=limit)
    assert list(chosen) == sorted(chosen, key=lambda e: (e.fact, e.line))
    for evidence in chosen:
        assert evidence.quote in facts[evidence.fact - 1].text.splitlines()[evidence.line - 1]


def test_a_full_thread_is_quick():
    """300,000 characters of facts take well under a second."""
    text = "\n".join(f"2025-11-02T09:{i % 60:02} id={i:06x} path=/api/{i} took {i} ms" for i in range(5_000))
    facts = [Fact(n=i, kind="tool", tool="read", text=text[i * 8_000 : i * 8_000 + 8_000]) for i in range(37)]
    started = time.process_time()
    choose(seen(facts), final=ANSWER, task="", limit=60)
    assert time.process_time() - started < 1.0

"""What a compression lost or made up is found by code, tolerant of formatting and strict about values."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slate_lab.records import Episode, Evidence, Fact, Finding
from slate_lab.weave.forms import fixed, uncompressed
from slate_lab.weave.loss import LISTED, check, measure
from tests.weave.corpus_actions import ANSWER, LOG, facts_of


def tool(text: str, **arguments: object) -> list[Fact]:
    """One tool result."""
    return [Fact(n=1, kind="tool", tool="read", arguments=arguments, text=text)]


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        ("depth 18,000", "The depth was 18000."),
        ("depth 18000", "The depth was 18,000, too deep."),
        ("rate 7.5 %", "It rose to 7.5%."),
        ("took 30S", "after 30 s"),
        ("took 261 s", "took 261s"),
        ("size 12MB", "size 12 mb"),
        ('"path": "a/b.py",', "see `a/b.py`."),
        ("path=./notes/a.md:12: hello", "in notes/a.md"),
        ("at 2025-11-02T09:16:05Z", "at 09:16 on 2025-11-02"),
        ("release v4.2.1", "release 4.2.1"),
        ("run with --dry-run=yes", "use `--dry-run`"),
        ("`orders` failed", "`orders` failed"),
        ("see https://x.io/a?b=1.", "(https://x.io/a?b=1)"),
        ("max_connections=20", "max_connections is 20"),
        ("web-03", "host 03"),
        ("commit 9f3ac21b", "9F3AC21B"),
    ],
)
def test_another_spelling_of_the_same_value_is_not_invented(fact: str, said: str):
    """Separators, punctuation, quotes, the case of units and code marks make no difference."""
    assert check(said, tool(fact), "").invented == ()


@pytest.mark.parametrize(
    ("fact", "said", "invented"),
    [
        ("error rate 7.5 %", "It rose to 8.5 %.", ("8.5",)),
        ("restarts: 3", "There were 4 restarts.", ("4",)),
        ("2025 files", "5 files", ("5",)),
        ("release 4.2.1", "release 4.2.2", ("4.2.2",)),
        ("at 09:16", "at 09:17", ("09:17",)),
        ("logs/deploy.log", "logs/release.log", ("logs/release.log",)),
        ("PoolTimeout", "raises PoolTimeoutError", ("PoolTimeoutError",)),
        ("max_connections", "set pool_size", ("pool_size",)),
        ("orders failed", "`payments` failed", ("payments",)),
        ("depth 18,000", "depth 1,800", ("1,800",)),
        ("use --force", "use --no-verify", ("--no-verify",)),
    ],
)
def test_a_value_that_no_fact_has_is_invented(fact: str, said: str, invented: tuple[str, ...]):
    """Numbers are compared as whole values, names as whole names."""
    assert check(said, tool(fact), "").invented == invented


def test_the_task_and_the_arguments_of_calls_are_known():
    """An episode may repeat what was asked and what was called."""
    assert check("Read notes/a.md for ticket 4711.", tool("x", path="notes/a.md"), "ticket 4711").invented == ()


def test_lost_identifiers_are_counted_listed_to_a_cap_and_the_workers_own_come_first():
    """What the worker itself said matters more than a number in a log."""
    facts = [
        *tool("\n".join(f"id-{i} ok" for i in range(100))),
        Fact(n=2, kind="text", text="It is `web_03`, see id-7."),
    ]
    loss = check("web hosts", facts, "")
    assert loss.lost[:2] == ("web_03", "id-7")
    assert (len(loss.lost), loss.lost_count) == (LISTED, 101)


def test_words_lists_and_evidence_pointers_are_no_identifiers():
    """Prose, ordinals of lists and the numbers of facts and lines are not compared."""
    said = '1. Read the log.\n2) Done and/or so.\n- It failed.\n  - fact 12, line 345: "rate 7.5 %"'
    assert check(said, tool("rate 7.5 %"), "").invented == ()
    assert check(said, tool("rate 7.5 %"), "").lost == ()


def test_forms_made_by_code_invent_nothing():
    """What code writes about an action is no invention of a model."""
    base = Episode(
        id="t4.e1",
        thread="t4",
        task="Why?",
        status="failed",
        code="limit_turns",
        detail="the limit turns=9 was reached (9 used)",
        artifacts=({"path": "out/x.md", "before": None, "after": "ab"},),
        context=(("t2.e1", "h"),),
    )
    facts = facts_of(LOG, LOG)
    for episode in (fixed(base, facts), uncompressed(base, facts, final=ANSWER * 60, notice="the answer was empty")):
        assert measure(episode, facts, count=len).invented == ()


def test_measuring_keeps_the_sizes_before_and_after():
    """The ratio of facts to episode is known for every episode."""
    finding = Finding(text="It rose to 7.6 %.", evidence=(Evidence(1, 3, LOG.splitlines()[2]),))
    episode = measure(Episode(id="t1.e1", thread="t1", findings=(finding,)), facts_of(LOG), count=len)
    assert episode.facts_tokens == len(LOG) + len(ANSWER)
    assert episode.episode_tokens == len(episode.to_markdown())
    assert episode.invented == ("7.6",)
    assert episode.lost_count > len(episode.lost) - 1 > 0


_word = st.text(alphabet=st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
_texts = st.lists(_word, min_size=1, max_size=30).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(text=_texts, data=st.data())
def test_words_quoted_from_a_fact_are_never_invented(text: str, data: st.DataObject):
    """Whatever the fact holds, a run of its words is known."""
    words = text.split()
    if not words:
        return
    start = data.draw(st.integers(0, len(words) - 1))
    stop = data.draw(st.integers(start + 1, len(words)))
    assert check(" ".join(words[start:stop]), tool(text), "").invented == ()


@pytest.mark.parametrize("unit", ["a.", "1,", "a_", "/a", "`", "-", "a:", "9", "~", "é", "\x1b[", "1.", "https://"])
def test_time_is_linear_in_hostile_text(unit: str):
    """No pattern backtracks: 100 KB of one repeated unit take well under a second."""
    text = (unit * 100_000)[:100_000]
    started = time.process_time()
    check(text[:4_000], tool(text), text[:4_000])
    assert time.process_time() - started < 0.5

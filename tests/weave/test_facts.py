"""Facts are kept as they happen, within caps, until the thread settles."""

from __future__ import annotations

from slate_lab.records import Fact
from slate_lab.weave.facts import FACT_CHARS, TOTAL_CHARS, FactLog


class Sink:
    """Keeps what it is given, in memory."""

    def __init__(self) -> None:
        self.kept: list[Fact] = []

    def add(self, thread: str, fact: Fact) -> None:
        self.kept.append(fact)

    def drop(self, thread: str, up_to_n: int) -> None:
        self.kept = [f for f in self.kept if f.n > up_to_n]


def test_blank_text_is_no_fact_and_every_tool_result_is():
    """Finalized non-blank text and completed tool results, in order."""
    sink = Sink()
    log = FactLog("t1", sink, lambda: 7)
    log.text("  \n ")
    log.text("found it")
    log.tool("ls", {"path": "."}, "", ok=True)
    assert [(f.n, f.kind, f.text, f.tool, f.at_ns) for f in sink.kept] == [
        (1, "text", "found it", None, 7),
        (2, "tool", "", "ls", 7),
    ]


def test_a_long_fact_keeps_its_newest_part():
    """What is cut is counted."""
    log = FactLog("t1", Sink(), lambda: 0)
    log.text("a" * 10 + "b" * FACT_CHARS)
    assert log.facts[0].text == "b" * FACT_CHARS
    assert (log.facts[0].omitted, log.omitted) == (10, 10)


def test_beyond_the_total_the_oldest_are_dropped_in_memory_and_in_the_store():
    """The newest facts stay; the numbers of facts never change."""
    sink = Sink()
    log = FactLog("t1", sink, lambda: 0)
    for _ in range(TOTAL_CHARS // FACT_CHARS + 2):
        log.text("x" * FACT_CHARS)
    assert sum(len(f.text) for f in log.facts) <= TOTAL_CHARS
    assert log.facts == sink.kept
    assert log.facts[-1].n == TOTAL_CHARS // FACT_CHARS + 2
    assert log.omitted == (log.facts[0].n - 1) * FACT_CHARS


def test_nothing_is_kept_after_the_freeze():
    """A worker that was left behind cannot change a settled record."""
    log = FactLog("t1", Sink(), lambda: 0)
    log.freeze()
    log.text("late")
    assert log.facts == []


def test_lone_surrogates_are_replaced_once_at_capture():
    """What is stored is always UTF-8."""
    log = FactLog("t1", Sink(), lambda: 0)
    log.text("a\ud83cb")
    assert log.facts[0].text == "a\ufffdb"

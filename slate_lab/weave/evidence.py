"""Evidence by reference: which lines of the facts a compression may point at, and what it pointed at.

In: the facts (the part a model gets to see). Out: a capped list of `Evidence`, in reading order, and the way back from
what a model wrote to the pointer it meant. A small model quotes wrongly but chooses well, so it is only ever asked to
choose. Pure; called by `compress`.

How lines are scored. Words are weighed by how few candidate lines hold them, without regard to case; a word that the
final answer repeats counts in full, one of the task by half, and numbers and identifiers (anything with a digit, a
slash, an underscore or inner capitals) twice. Each fact keeps its best line first (the newest facts when there are
many), then the best lines of all fill the rest. Equal scores: the earlier line. The worker's own words stand behind
tool results, and its final answer is evidence only where no tool ran.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from slate_lab.records import Evidence, Fact
from slate_lab.weave.render import sanitize_line

__all__ = ["LINE_CHARS", "Seen", "choose", "resolve", "shown"]

LINE_CHARS = 200
"""A longer line is offered in pieces of at most this many characters, cut between words."""
MIN_CHARS = 4
"""A shorter line (a bracket, a rule) is no evidence."""
WORD_CHARS = 3
"""A shorter word says nothing, unless it is a number or an identifier."""
PIECES = 40
"""The most pieces of one line."""

_WORD = re.compile(r"\w[\w./:%-]*\w|\w")
_MARKED = re.compile(r"[\d/_]|[a-z][A-Z]")


class Seen(Struct, frozen=True):
    """The part of a fact that a model gets to see: its lines from number `start` on (counted from 1)."""

    fact: Fact
    start: int = 1

    @property
    def lines(self) -> list[str]:
        """The visible lines."""
        return self.fact.text.splitlines()[self.start - 1 :]


class _Line(Struct, frozen=True):
    evidence: Evidence
    words: dict[str, bool]
    own: bool


def shown(evidence: Evidence) -> str:
    """The line as a model sees it: blanks and control characters tidied."""
    return sanitize_line(evidence.quote, LINE_CHARS)


def choose(
    seen: Sequence[Seen], *, final: str, task: str, limit: int, about: str | None = None
) -> tuple[Evidence, ...]:
    """At most `limit` distinct lines worth pointing at, in reading order.

    Args:
        seen: the visible parts of the facts, oldest first.
        final: the worker's last message.
        task: what was asked.
        limit: the most lines.
        about: one sentence of the last message to find lines for, instead of all of it; lines that share no word
            with it, or much less than the best one does, are then left out.
    """
    lines = _candidates(seen, final)
    held = Counter(word for line in lines for word in line.words)
    answer, asked = _words(final if about is None else about), _words(task)
    scores = [_score(line, held, answer, asked) for line in lines]
    ranked = sorted(range(len(lines)), key=lambda i: (-scores[i], i))
    first: dict[int, int] = {}
    for i in ranked:
        if scores[i] > 0:
            first.setdefault(lines[i].evidence.fact, i)
    spread = sorted(first.values(), reverse=True)[: limit // 2]
    if about is not None:
        best = scores[ranked[0]] if ranked else 0.0
        near = [i for i in ranked if lines[i].words.keys() & answer.keys() and scores[i] > best / 2]
        spread, ranked = [], near
    kept = sorted(list(dict.fromkeys([*spread, *ranked]))[:limit])
    return tuple(lines[i].evidence for i in kept)


def resolve(text: str, choices: Sequence[Evidence]) -> Evidence | None:
    """The choice that `text` names: the line itself, give or take blanks and quotes, or its label `E3`."""
    wanted = sanitize_line(text, LINE_CHARS).strip("\"'`")
    label = re.fullmatch(r"[Ee](\d{1,3})(?:[:.)].*)?", wanted)
    if label and 1 <= int(label[1]) <= len(choices):
        return choices[int(label[1]) - 1]
    for choice in choices:
        if shown(choice).strip("\"'`") == wanted:
            return choice
    return None


def _candidates(seen: Sequence[Seen], final: str) -> list[_Line]:
    """Distinct lines; one that stands in a tool result and in the worker's words belongs to the tool result."""
    tools = [part for part in seen if part.fact.kind == "tool"]
    said = [part for part in seen if part.fact.kind == "text"]
    if tools:
        said = [part for part in said if part.fact.text.strip() != final.strip()]
    found: dict[str, _Line] = {}
    for part in [*tools, *said]:
        for evidence in _pieces(part):
            text = shown(evidence)
            if len(text) >= MIN_CHARS and text not in found and any(c.isalnum() for c in text):
                found[text] = _Line(evidence, _words(text), part.fact.kind == "text" and bool(tools))
    order = {part.fact.n: i for i, part in enumerate(seen)}
    return sorted(found.values(), key=lambda line: (order[line.evidence.fact], line.evidence.line))


def _pieces(part: Seen) -> Iterable[Evidence]:
    for number, line in enumerate(part.lines, part.start):
        if len(line) <= LINE_CHARS:
            yield Evidence(part.fact.n, number, line)
            continue
        rest = line
        for _ in range(PIECES):
            cut = _cut(rest)
            yield Evidence(part.fact.n, number, rest[:cut])
            rest = rest[cut:].lstrip()
            if not rest:
                break


def _cut(text: str) -> int:
    """Where to end a piece of `text`: after a sentence, else after a comma, else between words, else anywhere."""
    if len(text) <= LINE_CHARS:
        return len(text)
    head = text[:LINE_CHARS]
    for mark in (". ", "; ", ", ", ",", " "):
        at = head.rfind(mark, LINE_CHARS // 3)
        if at > 0:
            return at + len(mark.rstrip() or mark)
    return LINE_CHARS


def _words(text: str) -> dict[str, bool]:
    """The words of a text without regard to case, and whether each is a number or an identifier."""
    found = ((word, _MARKED.search(word) is not None) for word in _WORD.findall(text))
    return {word.casefold(): marked for word, marked in found if marked or len(word) >= WORD_CHARS}


def _score(line: _Line, held: Counter[str], answer: dict[str, bool], asked: dict[str, bool]) -> float:
    total = 0.0
    for word, marked in line.words.items():
        weight = (2.0 if marked else 1.0) / held[word] ** 0.5
        if word in answer:
            total += weight
        elif word in asked:
            total += weight / 2
        elif marked and len(line.words) > 1:
            total += weight / 100
    return total / 4 if line.own else total

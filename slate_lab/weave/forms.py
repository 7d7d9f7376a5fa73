"""The three forms an episode takes: compressed by a model, the worker's own words, or put together by code.

In: a base episode (identity, provenance, artifacts) and what fills its sections. Out: the same episode with all six
sections. Pure; called when a thread settles, and when a store finds a thread that died.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import msgspec

from slate_lab.records import Episode, Evidence, Fact, Finding
from slate_lab.weave.render import clean_block, sanitize_line

__all__ = ["OUTPUT_CHARS", "compressed", "first_line", "fixed", "tool_calls", "uncompressed"]

OUTPUT_CHARS = 4_000
"""Characters of the worker's own words in the uncompressed form."""
INTENT_CHARS = 300
WORDS_CHARS = 600
ACTION_CHARS = 200
ACTIONS = 12


class Filled(Protocol):
    """What a model's answer fills."""

    @property
    def intent(self) -> str:
        """What was asked."""
        ...

    @property
    def actions(self) -> tuple[str, ...]:
        """What was done."""
        ...

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found, with evidence."""
        ...

    @property
    def issues(self) -> tuple[str, ...]:
        """What remains open."""
        ...

    @property
    def handoff(self) -> str:
        """What the next worker must know."""
        ...


def compressed(base: Episode, sections: Filled) -> Episode:
    """`base` with the sections a model wrote."""
    return msgspec.structs.replace(
        base,
        compression="compressed",
        notice=None,
        intent=sections.intent or first_line(base.task),
        actions=sections.actions,
        findings=sections.findings,
        issues=sections.issues,
        handoff=sections.handoff,
    )


def uncompressed(base: Episode, facts: Sequence[Fact], *, final: str, notice: str) -> Episode:
    """`base` with the worker's own last words, bounded, and `notice` why no model compressed them."""
    text = clean_block(final).strip()
    if len(text) > OUTPUT_CHARS:
        text = f"{text[:OUTPUT_CHARS].rstrip()}\n(cut here; the rest is in the facts)"
    return msgspec.structs.replace(
        base,
        compression="uncompressed",
        notice=notice,
        intent=first_line(base.task),
        actions=tool_calls(facts),
        findings=_last_words(facts),
        issues=_failure(base),
        handoff=text or _kept(facts),
    )


def fixed(base: Episode, facts: Sequence[Fact] = ()) -> Episode:
    """`base` filled by code alone: its task, its tool calls, its last words, its failure; no model is asked."""
    return msgspec.structs.replace(
        base,
        compression="fixed",
        intent=first_line(base.task),
        actions=tool_calls(facts),
        findings=_last_words(facts),
        issues=_failure(base),
        handoff=_kept(facts),
    )


def first_line(task: str) -> str:
    """The intent where no model tells it: the first line of the task."""
    return sanitize_line(task.strip().split("\n", 1)[0], INTENT_CHARS)


def tool_calls(facts: Sequence[Fact]) -> tuple[str, ...]:
    """The tool calls in order, equal ones together; of many, the last."""
    calls = Counter(_call(fact) for fact in facts if fact.kind == "tool")
    lines = [call if times == 1 else f"{call} (repeated)" for call, times in calls.items()]
    if len(lines) <= ACTIONS:
        return tuple(lines)
    return ("earlier tool calls, left out here", *lines[-ACTIONS:])


def _call(fact: Fact) -> str:
    arguments = ", ".join(f"{name}={sanitize_line(str(value), 80)}" for name, value in (fact.arguments or {}).items())
    line = sanitize_line(f"{fact.tool}({arguments})", ACTION_CHARS)
    return line if fact.ok else f"{line} failed: {sanitize_line(fact.text, 80)}"


def _last_words(facts: Sequence[Fact]) -> tuple[Finding, ...]:
    """The last thing the worker said, as one finding that points at itself."""
    for fact in reversed(facts):
        if fact.kind == "text":
            for number, line in enumerate(fact.text.splitlines(), 1):
                if line.strip():
                    return (
                        Finding(text=sanitize_line(fact.text, WORDS_CHARS), evidence=(Evidence(fact.n, number, line),)),
                    )
    return ()


def _failure(base: Episode) -> tuple[str, ...]:
    if base.status == "ok" and not base.truncated:
        return ()
    if base.status == "ok":
        return ("The last answer was cut by the length limit.",)
    return (sanitize_line(f"Failed ({base.code or 'unknown'}): {base.detail or 'no detail'}", WORDS_CHARS),)


def _kept(facts: Sequence[Fact]) -> str:
    if not facts:
        return "Nothing was found before it ended."
    return "No model compressed this action; its facts are kept and can be read in slices."

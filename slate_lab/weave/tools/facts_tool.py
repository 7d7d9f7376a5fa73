"""The tool `episode_facts`: what stood behind the episodes a worker was given, in slices.

In: the store. Out: the tool by name. Called once, when a lab opens. A worker reads the facts of its context episodes,
and of no others.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from slate_lab.records import Fact, thread_of
from slate_lab.weave.tools.kit import Kit, Tool, make_tool
from slate_lab.weave.tools.workspace import ToolFailed

__all__ = ["EPISODE_FACTS", "FactSource", "facts_tools"]

EPISODE_FACTS = "episode_facts"
_ARGUMENTS = 300


class FactSource(Protocol):
    """Where facts are kept (`store.facts`)."""

    def list(self, thread: str) -> list[Fact]:
        """The facts of a thread."""
        ...


def facts_tools(source: FactSource) -> dict[str, Tool]:
    """The tool that reads facts from `source`."""

    def episode_facts(kit: Kit, episode: str, start: int = 0, stop: int = 5) -> str:
        """Read what an earlier episode you were given rests on: its texts and tool results, in full.

        Args:
            episode: id of the episode
            start: first fact, counted from 0
            stop: fact to stop before
        """
        wanted = thread_of(episode.strip())
        given = {thread_of(id): id for id in kit.context}
        if wanted not in given:
            known = ", ".join(kit.context) or "none"
            raise ToolFailed(f"{episode!r} is no episode you were given; those are {known}")
        if not 0 <= start < stop:
            raise ToolFailed("start counts from 0 and stands before stop")
        facts = source.list(wanted)
        if start >= len(facts):
            raise ToolFailed(f"{given[wanted]} has {len(facts)} facts: take a start from 0 to {max(0, len(facts) - 1)}")
        lines: list[str] = []
        size, last = 0, start
        for n, fact in enumerate(facts[start:stop], start):
            text = _told(n, fact)
            if lines and size + len(text) > kit.max_chars:
                break
            lines.append(text)
            size, last = size + len(text) + 1, n + 1
        more = f"(facts {start} to {last - 1} of {len(facts)}; go on with start={last})" if last < len(facts) else ""
        return kit.result(lines, more)

    return {EPISODE_FACTS: make_tool(episode_facts)}


def _told(n: int, fact: Fact) -> str:
    asked = msgspec.json.encode(fact.arguments).decode()[:_ARGUMENTS] if fact.arguments else ""
    head = f"[{n}] {fact.tool or 'text'} {asked}".rstrip() + ("" if fact.ok else " (failed)")
    return f"{head}\n{fact.text}"

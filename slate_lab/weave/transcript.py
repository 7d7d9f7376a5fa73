"""The transcript a compression reads: the task and the newest facts that fit, fenced as data.

The fence is a run of tildes longer than any in the text, so nothing inside can close it or fake a heading, and the
same facts give the same prompt, which keeps recordings valid. Pure; called by `compress`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slate_lab.records import Fact
from slate_lab.weave.evidence import Seen
from slate_lab.weave.render import clean_block, run_fence, sanitize_line

__all__ = ["tail", "transcript", "unheard"]

HEADER_CHARS = 200
HEADER_TOKENS = 20


def transcript(seen: Sequence[Seen], *, task: str, ended: str, omitted: int) -> str:
    """Task and facts as data, each under a fence line.

    Args:
        seen: what is shown of the facts, oldest first.
        task: what was asked.
        ended: how it ended, a few words.
        omitted: characters of earlier facts that are not shown; marked if there are any.
    """
    task = clean_block(task)
    texts = [clean_block("\n".join(part.lines)) for part in seen]
    fence = run_fence(task, *texts)
    lines = [f"{fence} task", task, f"{fence} end of task; it ended: {sanitize_line(ended, HEADER_CHARS)}", ""]
    if omitted:
        lines.append(f"{fence} {omitted:,} characters of earlier facts left out")
    for part, text in zip(seen, texts, strict=True):
        lines += [f"{fence} {_label(part.fact)}", text]
    return "\n".join([*lines, f"{fence} end of facts"])


def tail(facts: Sequence[Fact], *, room: int | None, count: Callable[[str], int]) -> tuple[list[Seen], int]:
    """The newest facts that fit `room` tokens, oldest first, and the characters left out.

    Of the first fact that does not fit, its last lines are kept. None is room for all.
    """
    if room is None:
        return [Seen(fact) for fact in facts], 0
    kept: list[Seen] = []
    for i in range(len(facts) - 1, -1, -1):
        cost = count(facts[i].text) + HEADER_TOKENS
        if cost > room:
            part = _last_lines(facts[i], room - HEADER_TOKENS, count)
            cut = sum(len(fact.text) for fact in facts[: i + 1])
            if part:
                kept.append(part)
                cut -= len("\n".join(part.lines))
            return kept[::-1], cut
        room -= cost
        kept.append(Seen(facts[i]))
    return kept[::-1], 0


def unheard(facts: Sequence[Fact], final: str) -> list[Fact]:
    """The last message as a fact, where the facts do not end with it."""
    wanted = final.strip()
    if not wanted or any(f.kind == "text" and wanted.endswith(f.text.strip()) for f in facts[-1:]):
        return []
    return [Fact(n=facts[-1].n + 1 if facts else 1, kind="text", text=final)]


def _last_lines(fact: Fact, room: int, count: Callable[[str], int]) -> Seen | None:
    lines = fact.text.splitlines()
    start = len(lines)
    while start > 0:
        room -= count(lines[start - 1]) + 1
        if room < 0:
            break
        start -= 1
    return Seen(fact, start + 1) if start < len(lines) else None


def _label(fact: Fact) -> str:
    if fact.kind == "text":
        return f"fact {fact.n}: answer"
    arguments = " ".join(f"{name}={value}" for name, value in (fact.arguments or {}).items())
    failed = "" if fact.ok else " (failed)"
    return sanitize_line(f"fact {fact.n}: result of {fact.tool} {arguments}", HEADER_CHARS) + failed

"""The contract for small models: choose, do not rewrite.

A model of half a billion parameters copies wrongly but chooses well. So where the worker left an answer, each finding
is one sentence of it, as it stands, with one of the lines that share its words as evidence; intent and actions are the
task and the tool calls, by code. Nothing can be invented, and the answer is short. Pure; called by `compress`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from slate_lab.records import Evidence
from slate_lab.weave.evidence import Seen, choose, shown
from slate_lab.weave.render import sanitize_line

__all__ = ["Pick", "pick_schema", "pick_wording", "picks_of"]

SENTENCES = 8
"""Sentences of the answer that are offered."""
SENTENCE_CHARS = 279
LINES = 2
"""Lines offered as evidence of one sentence."""
FINDINGS = 3

_END = re.compile(r"(?<=[.!?])\s+")
_OPEN = re.compile(
    r"^open\b|\bopen (?:question|issue|point)"
    r"|\b(?:unknown|unclear|unconfirmed|suspected|cannot|can't|todo|may be|might)\b"
    r"|\bcould(?: not|n't) |\bnot (?:yet|in|known|found)\b|\bto be confirmed\b"
    r"|\bremains? (?:open|to be|unknown|unclear)|\bstill (?:open|to be|unknown|unclear|missing|ha(?:s|ve) to)",
    re.IGNORECASE,
)


class Pick(Struct, frozen=True):
    """A sentence of the answer, and the lines that may be its evidence."""

    text: str
    lines: tuple[Evidence, ...]

    @property
    def is_open(self) -> bool:
        """Whether it says that something is unknown or unfinished."""
        return _OPEN.search(self.text) is not None


def picks_of(seen: Sequence[Seen], final: str) -> tuple[Pick, ...]:
    """The sentences of the answer with the lines they share most with; none if there is no answer."""
    texts = (line.strip().lstrip("-*#> ") for line in final.splitlines())
    sentences = (sanitize_line(part, SENTENCE_CHARS) for text in texts for part in _END.split(text))
    distinct = list(dict.fromkeys(s for s in sentences if len(s) > 3 and any(c.isalnum() for c in s)))
    return tuple(
        Pick(text, choose(seen, final=final, task="", about=text, limit=LINES)) for text in distinct[:SENTENCES]
    )


def pick_schema(picks: Sequence[Pick]) -> dict[str, Any]:
    """The JSON Schema: findings are sentences with their own lines, open issues and handoff are sentences.

    The findings are properties `1`, `2`, `3`, each with its own share of the answer: a small model given one list to
    choose from takes the same sentence three times.
    """
    stated, issues = _stated(picks), [pick.text for pick in picks if pick.is_open]
    texts = [pick.text for pick in stated]
    shares = {str(n): _one_of([_finding(pick) for pick in share]) for n, share in enumerate(_shares(stated), 1)}
    return _object(
        {
            "key_findings": _object(shares),
            "open_issues": _array(_choice(issues or texts), min(1, len(issues)), min(2, len(issues))),
            "handoff_notes": _choice(texts),
        }
    )


def pick_wording(picks: Sequence[Pick]) -> str:
    """The instructions that end the prompt."""
    return (
        "Write the record of this action as one JSON object, with sentences of the answer:\n"
        f"- key_findings: {len(_shares(_stated(picks)))}, numbered; text: a sentence that answers the task, evidence: "
        "the line of the facts that proves it\n"
        "- open_issues: sentences that say what is unknown or unfinished; [] if there is none\n"
        "- handoff_notes: the sentence that whoever goes on from here needs most"
    )


def _shares(stated: Sequence[Pick]) -> list[Sequence[Pick]]:
    """The sentences in order, dealt into at most three even shares."""
    count = min(FINDINGS, len(stated))
    cuts = [round(i * len(stated) / count) for i in range(count + 1)]
    return [stated[a:b] for a, b in itertools.pairwise(cuts)]


def _one_of(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _stated(picks: Sequence[Pick]) -> Sequence[Pick]:
    """The sentences that state something: the first, which answers the task, and those that leave nothing open."""
    return [pick for i, pick in enumerate(picks) if i == 0 or not pick.is_open]


def _finding(pick: Pick) -> dict[str, Any]:
    text = {"type": "string", "const": pick.text}
    if not pick.lines:
        return _object({"text": text})
    return _object({"text": text, "evidence": _array(_choice([shown(line) for line in pick.lines]), 1, 1)})


def _choice(texts: Sequence[str]) -> dict[str, Any]:
    return {"type": "string", "enum": list(texts)}


def _array(items: dict[str, Any], least: int, most: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }

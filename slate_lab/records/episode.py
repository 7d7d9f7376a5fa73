"""An episode is the compressed, structured record of what one action did and found, with what it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal

from msgspec import Struct

from slate_lab.records.call import Hop, Usage, usd
from slate_lab.records.shown import safe_markdown

SECTIONS = ("Intent", "Actions Taken", "Key Findings", "Artifacts Changed", "Open Issues", "Handoff Notes")
Compression = Literal["compressed", "uncompressed", "fixed"]
FactKind = Literal["text", "tool"]


class Fact(Struct, frozen=True, kw_only=True):
    """A finalized text of the assistant, or a completed tool result, kept while the worker works.

    Attributes:
        n: 1, 2, ... within the thread.
        kind: `text` or `tool`.
        text: the content, capped (the newest part is kept).
        tool, arguments: for a tool result, the call it answers.
        ok: False if the tool said it failed.
        omitted: characters cut by the caps.
    """

    n: int
    kind: FactKind
    text: str
    at_ns: int = 0
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    ok: bool = True
    omitted: int = 0


class Evidence(Struct, frozen=True):
    """A pointer to one line of one fact, with the line as it stood: `fact` and `line` count from 1."""

    fact: int
    line: int
    quote: str


class Finding(Struct, frozen=True, kw_only=True):
    """One key finding and the fact lines it rests on (chosen, never rewritten)."""

    text: str
    evidence: tuple[Evidence, ...] = ()


class Episode(Struct, frozen=True, kw_only=True):
    """One settled action. Immutable; a fork is a new thread with the same references.

    Attributes:
        id, thread, name, type, task: what it is about.
        status: `ok` or `failed`; `code` and `detail` say why it failed.
        compression: `compressed`, `uncompressed` (the worker's own words, with `notice`) or `fixed` (no model call).
        intent, actions, findings, artifacts, issues, handoff: the six sections, in order.
        context: episode ids it was given, each with the content hash it had then.
        facts: the captured facts, loaded from the store when they are read: `episode.facts[3:7]`.
        fact_count: how many there are; `omitted` how many characters the caps cut.
        lost: identifiers of the facts that the episode no longer contains (up to a cap); `lost_count` is all of them.
        invented: numbers and identifiers of the episode that occur in no fact.
        facts_tokens, episode_tokens: sizes before and after compression, estimated with the lab's encoding.
        usage: tokens by kind of call (`worker`, `compressor`, `compaction`); an absent kind made no call.
        cost_nusd: nano-dollars of all its calls, None if any price is unknown.
        requested_route, ran_route: the route that was granted, and the one that answered the worker last.
        hops: how recovery went from route to route, in order.
        hash: SHA-256 of the content, what later briefs cite.
    """

    id: str
    thread: str
    name: str | None = None
    type: str = "general"
    task: str = ""
    status: Literal["ok", "failed"] = "ok"
    code: str | None = None
    detail: str | None = None
    reason: str | None = None
    truncated: bool = False
    compression: Compression = "compressed"
    notice: str | None = None
    intent: str = ""
    actions: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    artifacts: tuple[dict[str, Any], ...] = ()
    issues: tuple[str, ...] = ()
    handoff: str = ""
    context: tuple[tuple[str, str], ...] = ()
    slates: tuple[str, ...] = ()
    logical: str = ""
    requested_route: str = ""
    ran_route: str = ""
    facts: Sequence[Fact] = ()
    fact_count: int = 0
    omitted: int = 0
    lost: tuple[str, ...] = ()
    lost_count: int = 0
    invented: tuple[str, ...] = ()
    facts_tokens: int | None = None
    episode_tokens: int | None = None
    usage: dict[str, Usage] = {}
    cost_nusd: int | None = None
    created_ns: int = 0
    started_ns: int = 0
    ended_ns: int = 0
    hops: tuple[Hop, ...] = ()
    hash: str = ""

    @property
    def cost_usd(self) -> Decimal | None:
        """Exact dollars of all calls; None if any price is unknown."""
        return usd(self.cost_nusd)

    @property
    def ratio(self) -> float | None:
        """Fact tokens per episode token."""
        if not self.facts_tokens or not self.episode_tokens:
            return None
        return self.facts_tokens / self.episode_tokens

    @property
    def sections(self) -> dict[str, str]:
        """The six sections as Markdown bodies, in the fixed order."""
        return {
            "Intent": self.intent,
            "Actions Taken": _bullets(self.actions),
            "Key Findings": _bullets(_finding(f) for f in self.findings),
            "Artifacts Changed": _bullets(_artifact(a) for a in self.artifacts),
            "Open Issues": _bullets(self.issues),
            "Handoff Notes": self.handoff,
        }

    def to_markdown(self) -> str:
        """The episode as Markdown: six `##` sections in order, an empty one says `None.`

        What a model or a file wrote adds no heading, no HTML and no image, and cannot swallow the next section.
        """
        return "\n\n".join(f"## {title}\n{safe_markdown(body) or 'None.'}" for title, body in self.sections.items())


def _bullets(items: Any) -> str:
    return "\n".join(f"- {item}" for item in items)


def _finding(finding: Finding) -> str:
    quotes = "".join(f'\n  - fact {e.fact}, line {e.line}: "{e.quote}"' for e in finding.evidence)
    return finding.text + quotes


def _artifact(artifact: dict[str, Any]) -> str:
    before, after = artifact.get("before"), artifact.get("after")
    change = "created" if before is None else "removed" if after is None else "changed"
    return f"`{artifact['path']}` ({change})"

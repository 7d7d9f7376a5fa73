"""Episode compression: one request without tools on the facts of a thread, and a strict reading of the answer.

In: the action, its facts (never the earlier episodes it was given) and how it ended. Out: a `Plan` with the request
and the lines it may point at; then `Sections`, or a `Rejection` that says why the answer cannot be used and leads to
one repair. Pure: the caller asks the model. `forms` makes the episode of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from slate_lab.models.protocol import Capabilities
from slate_lab.records import Action, Evidence, Fact, Finding, Message, Reply, Request
from slate_lab.weave.contract import LARGE, SMALL, SYSTEM, Answer, Bounds, FindingAnswer, schema_of, wording
from slate_lab.weave.evidence import choose, resolve
from slate_lab.weave.forms import compressed, first_line, fixed, tool_calls, uncompressed
from slate_lab.weave.picking import pick_schema, pick_wording, picks_of
from slate_lab.weave.render import clean_block, clip, render_for_model, sanitize_line
from slate_lab.weave.transcript import tail, transcript, unheard

__all__ = [
    "Plan",
    "Rejection",
    "Sections",
    "compressed",
    "fixed",
    "plan_compression",
    "plan_repair",
    "read_compression",
    "render_for_model",
    "sanitize_line",
    "uncompressed",
]

SMALL_WINDOW = 32_768
"""A window up to this many tokens is a small model's: tighter caps, enforced by its grammar."""
MARGIN = 200
LINE_TOKENS = 60
REPAIR_CHARS = 2_000
EVIDENCE = 3
"""The most lines one finding keeps."""
TRIES = 40

Reason = Literal["tool_call", "empty", "cut", "filtered", "not_json", "invalid"]
_NOTHING = frozenset({"", "none", "n/a", "nothing", "null", "no open issues", "no issues", "unknown"})


class Plan(Struct, frozen=True, kw_only=True):
    """A compression that can be asked for.

    Attributes:
        request: what to ask.
        choices: the fact lines that evidence is chosen from.
        bounds: the caps of the record.
        intent: the first line of the task, where the model is not asked for it.
        actions: the tool calls, used where the model is not asked for them.
        omitted: characters of the facts that did not fit.
    """

    request: Request
    choices: tuple[Evidence, ...]
    bounds: Bounds
    intent: str | None = None
    actions: tuple[str, ...] = ()
    omitted: int = 0


class Sections(Struct, frozen=True, kw_only=True):
    """A validated answer; `dropped` counts evidence that was not one of the choices."""

    intent: str
    actions: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    issues: tuple[str, ...] = ()
    handoff: str = ""
    dropped: int = 0


class Rejection(Struct, frozen=True):
    """An answer that cannot be used: a stable word, and a sentence for the repair and the notice."""

    reason: Reason
    detail: str


def plan_compression(
    action: Action,
    facts: Sequence[Fact],
    *,
    final: str,
    status: str,
    code: str | None,
    capabilities: Capabilities,
    max_output_tokens: int,
    max_input_tokens: int | None,
    count: Callable[[str], int],
    dropped: int = 0,
) -> Plan:
    """The one request that compresses an action.

    Args:
        action: what was asked.
        facts: what the worker left, oldest first.
        final: its last message.
        status, code: how it ended.
        capabilities: of the route that compresses.
        max_output_tokens: the most the record may take.
        max_input_tokens: the most the prompt may take; None leaves it to the window.
        count: tokens of a text.
        dropped: characters of facts that the caps left out already; marked together with what does not fit.
    """
    window = capabilities.window
    bounds = SMALL if window is not None and window <= SMALL_WINDOW else LARGE
    output = min(n for n in (max_output_tokens, capabilities.max_output, window and window // 4) if n)
    task = clip(action.task, bounds.task)
    ended = status if code is None else f"{status} ({code})"
    rooms = [n for n in (max_input_tokens, window and window - output) if n]
    frame = count(SYSTEM + task + wording((), bounds, schema=True)) + MARGIN
    if not (capabilities.schema and bounds.enforced):  # the lines are listed, or the provider counts its schema
        frame += bounds.lines * LINE_TOKENS
    room = max(MARGIN, min(rooms) - frame) if rooms else None
    seen, omitted = tail([*facts, *unheard(facts, final)], room=room, count=count)
    omitted += dropped
    picks = picks_of(seen, final) if bounds.enforced and capabilities.schema else ()
    choices = choose(seen, final=final, task=action.task, limit=bounds.lines)
    schema = schema_of(choices, bounds) if capabilities.schema else None
    words = wording(choices, bounds, schema=capabilities.schema)
    if picks:
        choices = tuple(dict.fromkeys(line for pick in picks for line in pick.lines))
        schema, words = pick_schema(picks), pick_wording(picks)
    told = transcript(seen, task=task, ended=ended, omitted=omitted)
    user = f"{told}\n\n{words}"
    request = Request(
        messages=(Message(role="system", text=SYSTEM), Message(role="user", text=user)),
        schema=schema,
        max_output_tokens=output,
        temperature=0.0 if bounds.enforced else None,
    )
    return Plan(
        request=request,
        choices=choices,
        bounds=bounds,
        intent=first_line(action.task) if picks else None,
        actions=tool_calls(facts),
        omitted=omitted,
    )


def read_compression(reply: Reply, plan: Plan) -> Sections | Rejection:
    """The sections of an answer, or why it cannot be used."""
    if reply.calls:
        return Rejection("tool_call", "it called a tool; there are none here, write the record")
    if reply.finish == "length":
        return Rejection("cut", "it was cut by the length limit; write a shorter record")
    if reply.finish == "content_filter":
        return Rejection("filtered", "the provider filtered it")
    if not reply.text.strip():
        return Rejection("empty", "it was empty; write the record")
    found = _json_object(reply.text)
    if found is None:
        return Rejection("not_json", "it holds no complete JSON object; answer with the JSON object alone")
    try:
        answer = msgspec.convert(found, Answer)
    except msgspec.ValidationError as e:
        return Rejection("invalid", f"the JSON does not have the asked shape: {sanitize_line(str(e), 300)}")
    return _sections(answer, plan)


def plan_repair(plan: Plan, reply: Reply, rejection: Rejection) -> Request:
    """The request for the one repair: the same conversation, the answer, and what was wrong with it."""
    system, user = plan.request.messages
    note = f"Your answer cannot be used: {rejection.detail}."
    said = reply.text.strip()
    if not said:
        return _with(plan.request, (system, Message(role="user", text=f"{user.text}\n\n{note}")))
    answer = Message(role="assistant", text=clip(said, REPAIR_CHARS))
    again = Message(role="user", text=f"{note} Write the whole record again.")
    return _with(plan.request, (system, user, answer, again))


def _with(request: Request, messages: tuple[Message, ...]) -> Request:
    return msgspec.structs.replace(request, messages=messages)


def _sections(answer: Answer, plan: Plan) -> Sections | Rejection:
    bounds = plan.bounds
    if bounds.actions and answer.actions_taken is None:
        return Rejection("invalid", "actions_taken is missing")
    intent = plan.intent or _whole(answer.intent or "", bounds.line_chars)
    actions = _items(answer.actions_taken or (), bounds) if bounds.actions else plan.actions
    found = answer.key_findings
    findings, dropped = _findings(found.values() if isinstance(found, dict) else found, plan)
    handoff = clean_block(answer.handoff_notes).strip()
    if not intent:
        return Rejection("invalid", "intent is missing or blank")
    if not (actions or findings or handoff):
        return Rejection("invalid", "it says neither what was done nor what was found")
    return Sections(
        intent=intent,
        actions=actions,
        findings=findings,
        issues=_items(answer.open_issues, bounds),
        handoff=_whole(handoff, bounds.note_chars) if bounds.enforced else clip(handoff, bounds.note_chars),
        dropped=dropped,
    )


def _items(items: Iterable[str], bounds: Bounds) -> tuple[str, ...]:
    lines = dict.fromkeys(_whole(item, bounds.line_chars) for item in items)
    return tuple(line for line in lines if line.rstrip(".").casefold() not in _NOTHING)[: bounds.items]


def _whole(text: str, limit: int) -> str:
    """`text` as one line; where a grammar or a cap cut it, back to the end of a sentence, else of a word."""
    line = sanitize_line(text, len(text))
    if len(line) < limit:
        return line
    head = line[:limit]
    end = head.rfind(". ") + 1
    return head[:end] if end > limit // 2 else head.rpartition(" ")[0].rstrip(",;:") + " …"


def _findings(answers: Iterable[FindingAnswer], plan: Plan) -> tuple[tuple[Finding, ...], int]:
    """Findings with resolved evidence; the same text twice becomes one finding."""
    found: dict[str, dict[Evidence, None]] = {}
    dropped = 0
    for answer in answers:
        text = _whole(answer.text, plan.bounds.line_chars)
        if not text:
            continue
        lines = found.setdefault(text, {})
        for named in answer.evidence:
            evidence = resolve(named, plan.choices)
            if evidence is None:
                dropped += 1
            else:
                lines[evidence] = None
    findings = tuple(Finding(text=text, evidence=tuple(lines)[:EVIDENCE]) for text, lines in found.items())
    return findings[: plan.bounds.findings], dropped


def _json_object(text: str) -> dict[str, Any] | None:
    """The first complete JSON object in `text` that has `key_findings`; else the one that the first brace opens."""
    decoder, first, at = json.JSONDecoder(), None, text.find("{")
    start = at
    for _ in range(TRIES):
        if at < 0:
            break
        end = at + 1
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            value = {}
        if "key_findings" in value:
            return dict(value)
        if value and at == start:
            first = dict(value)
        at = text.find("{", end)
    return first

"""Plain text and JSON of what the verbs return: tables, an episode, money. For terminals, logs and `--json`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import PurePath
from typing import Any

import msgspec

from slate_lab.records import Approval, Call, Episode, Fact, Thread, usd
from slate_lab.records.shown import safe_block
from slate_lab.routing.rows import ModelRow, narrow
from slate_lab.slates import Reading, WriteResult

__all__ = [
    "MODELS_NOTE",
    "cell",
    "episode_text",
    "facts_text",
    "json_text",
    "models_text",
    "money",
    "one_line",
    "plain",
    "table",
    "text_of",
    "weave_text",
    "when",
]

_CONTROL = re.compile(
    r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # sequences that drive a terminal
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # controls
    r"|[\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]"  # turns of direction, what nobody sees
)
_CELL = 60
MODELS_NOTE = (
    "* default; cap and cost are judgements from 1 to 100; key: set, no (not set), - (needs none). "
    "More: `slate-lab models --json`"
)


def one_line(text: str) -> str:
    """`text` on one line, without control characters."""
    return _CONTROL.sub("", " ".join(text.split()))


def printable(text: str) -> str:
    """`text` without control characters but newlines and tabs: what a model wrote must not drive a terminal."""
    return _CONTROL.sub("", text)


def money(nusd: int | None) -> str:
    """Nano-dollars as `$0.0012`; unknown says so."""
    if nusd is None:
        return "cost unknown"
    if nusd == 0:
        return "$0"
    dollars = Decimal(nusd).scaleb(-9)
    return (
        f"${dollars:.2f}"
        if dollars >= 1
        else f"${dollars:.6f}".rstrip("0").rstrip(".")
        if dollars >= Decimal("1e-6")
        else f"${dollars:f}"
    )


def when(ns: int | None) -> str:
    """A time as `2026-12-01 13:05:09` UTC."""
    return datetime.fromtimestamp(ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S") if ns else ""


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> str:
    """Rows as a plain table: a head, two spaces between columns, numbers to the right, long cells cut."""
    if not rows:
        return ""
    names = list(columns or rows[0])
    cells = [[cell(row.get(name)) for name in names] for row in rows]
    right = [
        all(isinstance(row.get(n), int | float | Decimal | None) and not isinstance(row.get(n), bool) for row in rows)
        for n in names
    ]
    widths = [max(len(n), *(len(line[i]) for line in cells)) for i, n in enumerate(names)]
    lines = [names, *cells]
    return "\n".join(
        "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)).rstrip()
        for line in lines
    )


def cell(value: Any, *, limit: int = _CELL) -> str:
    """One value of a table on one line: nothing for None, yes and no, lists with commas, cut at `limit` characters."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        value = ", ".join(str(v) for v in value)
    text = one_line(str(value))
    return text if len(text) <= limit else text[: limit - 3] + "..."


def thread_rows(threads: Sequence[Thread]) -> list[dict[str, Any]]:
    """One row per thread."""
    return [
        {
            "id": t.id,
            "state": t.state,
            "type": t.action.type,
            "model": t.logical,
            "created": when(t.created_ns),
            "seconds": _seconds(t),
            "why": t.code or "",
            "label": t.label,
        }
        for t in threads
    ]


def _seconds(thread: Thread) -> float | None:
    if thread.started_ns is None or thread.ended_ns is None:
        return None
    return round((thread.ended_ns - thread.started_ns) / 1e9, 1)


def episode_rows(episodes: Sequence[Episode]) -> list[dict[str, Any]]:
    """One row per episode."""
    return [
        {
            "id": e.id,
            "status": e.status,
            "type": e.type,
            "model": e.logical,
            "facts": e.fact_count,
            "tokens": e.episode_tokens,
            "lost": e.lost_count,
            "cost": money(e.cost_nusd),
            "label": e.name or e.task,
        }
        for e in episodes
    ]


def episode_text(episode: Episode) -> str:
    """An episode for a terminal: one head line, then its six sections as Markdown."""
    e = episode
    why = f" ({e.code}: {one_line(e.detail or '')})" if e.code else ""
    head = f"{e.id} {e.status}{why}, {e.type}, {e.ran_route or e.logical}, {e.fact_count} facts, {money(e.cost_nusd)}"
    notice = f"\nNote: {one_line(e.notice)}" if e.notice else ""
    sections = "\n\n".join(f"## {title}\n{safe_block(body) or 'None.'}" for title, body in e.sections.items())
    return printable(f"{one_line(head)}{notice}\n\n{sections}")


def facts_text(facts: Sequence[Fact]) -> str:
    """Facts one under the other, each with a head line."""
    parts = []
    for f in facts:
        what = f.tool or "text"
        asked = f" {msgspec.json.encode(f.arguments).decode()}" if f.arguments else ""
        flags = ("" if f.ok else ", failed") + (f", {f.omitted:,} characters omitted" if f.omitted else "")
        parts.append(f"[{f.n}] {one_line(what + asked)}{flags}\n{printable(f.text)}")
    return "\n\n".join(parts)


def approvals_text(approvals: Sequence[Approval]) -> str:
    """Calls that wait, or were answered, with all their arguments: what is approved must have been seen."""
    parts = []
    for a in approvals:
        why = f" ({a.why})" if a.why else ""
        parts.append(one_line(f"{a.id} {a.state}{why}: {a.thread} calls {a.tool}") + f"\n    {one_line(a.arguments)}")
    return "\n".join(parts)


def models_text(rows: Sequence[ModelRow]) -> str:
    """The pool in a narrow table, and below it what the columns mean and where the rest stands."""
    return f"{table(narrow(rows))}\n{MODELS_NOTE}"


def write_text(result: WriteResult) -> str:
    """What became of a write: where it went or why not, how full the folder is, what it pushed out."""
    full = "" if result.after is None else f" ({result.after:,} of {result.limit:,} tokens)"
    lines = [one_line(result.message) if not result.ok else f"{one_line(result.target)}: {result.code}{full}"]
    lines += [
        f"pushed out ({e.cause}): block {e.block} of {one_line(e.file)}, {e.tokens} tokens: {one_line(e.preview)}"
        for e in result.evicted
    ]
    return "\n".join(lines)


def weave_text(threads: Sequence[Thread]) -> str:
    """The weave as lines: each thread with its state and label, and the episodes it cites."""
    lines = []
    for t in threads:
        cites = f"  <- {', '.join(t.action.context)}" if t.action.context else ""
        after = f"  after {', '.join(t.action.after)}" if t.action.after else ""
        lines.append(one_line(f"{t.id} {t.state}: {t.label}") + cites + after)
    return "\n".join(lines)


def text_of(value: Any) -> str:
    """Any value that a verb returns, for a terminal."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, Episode):
        return episode_text(value)
    if isinstance(value, Thread):
        return table(thread_rows([value]))
    if isinstance(value, Reading):
        return printable(value.text)
    if isinstance(value, WriteResult):
        return write_text(value)
    if isinstance(value, Mapping):
        return _yaml(value)
    if callable(getattr(value, "to_string", None)):
        return str(value.to_string())
    if isinstance(value, Sequence):
        return _list_text(value)
    return str(value)


def _yaml(value: Mapping[str, Any]) -> str:
    import yaml

    return printable(yaml.safe_dump(plain(value), sort_keys=False, allow_unicode=True, width=100)).rstrip()


def _list_text(values: Sequence[Any]) -> str:
    first = values[0] if values else None
    if isinstance(first, Thread):
        return table(thread_rows(values))
    if isinstance(first, Episode):
        return table(episode_rows(values))
    if isinstance(first, Approval):
        return approvals_text(values)
    if isinstance(first, Fact):
        return facts_text(values)
    if isinstance(first, ModelRow):
        return models_text(values)
    if isinstance(first, Mapping):
        return table(values)
    return "\n".join(str(v) for v in values)


def plain(value: Any) -> Any:
    """A value as JSON's own types: exact money and paths as text, an episode without its facts."""
    if isinstance(value, Episode):
        fields = {f: plain(getattr(value, f)) for f in value.__struct_fields__ if f != "facts"}
        return {**fields, "sections": value.sections, "cost_usd": _usd(value.cost_nusd)}
    if isinstance(value, Call):
        return {**msgspec.to_builtins(value), "cost_usd": _usd(value.cost.nusd)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if callable(getattr(value, "to_json", None)) and hasattr(value, "columns"):
        return msgspec.json.decode(value.to_json(orient="records", date_format="iso"))
    return msgspec.to_builtins(value, enc_hook=_other)


def _usd(nusd: int | None) -> str | None:
    exact = usd(nusd)
    return None if exact is None else f"{exact:f}"


def _other(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def json_text(value: Any) -> str:
    """`value` as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(plain(value)), indent=2).decode()

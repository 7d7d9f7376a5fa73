"""Cards: an episode, a running thread, an error; each as HTML for a notebook and as text for a terminal.

They are static HTML with inline styles only, so they look the same in JupyterLab, Notebook 7 and an exported file, and
follow the page's theme through its variables. All text is cleaned and escaped; there is no script and no link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from slate_lab.errors import LabError
from slate_lab.jupyter.layout import used_tokens
from slate_lab.jupyter.text import clean_block, clean_line, duration, escape, money, tokens
from slate_lab.jupyter.theme import MARKS, var
from slate_lab.records import Episode, Evidence, Finding, Progress, ThreadState

__all__ = ["Card", "episode_card", "episode_text", "error_card", "error_text", "thread_card", "thread_text"]

_LONGEST = 20_000
_TASK = 280
_TAIL_LINES, _TAIL = 6, 1200
_CODE = re.compile(r"`([^`\n]{1,200})`")
_SOFT = "opacity:.78"


class Card(Struct, frozen=True):
    """HTML and text of one thing, as an object that a notebook displays."""

    html: str
    text: str

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}

    def __repr__(self) -> str:
        return self.text


def episode_card(episode: Episode) -> str:
    """The card of an episode: what it says, what that rests on, what was lost, what it cost."""
    state: ThreadState = "successful" if episode.status == "ok" else "failed"
    spoken = frozenset(fact.n for fact in episode.facts if fact.kind == "text")
    blocks = [_task(episode.task)]
    if episode.detail or episode.code:
        blocks.append(_callout("Failed", f"{episode.code or ''}: {episode.detail or ''}".strip(": "), "failed"))
    if episode.notice:
        blocks.append(_callout("Notice", episode.notice, "cancelled"))
    blocks += [
        _section("Intent", _prose(episode.intent)),
        _section("Actions Taken", _list(_prose(a) for a in episode.actions)),
        _section("Key Findings", _list(_finding(f, spoken) for f in episode.findings)),
        _section("Artifacts Changed", _list(_artifact(a) for a in episode.artifacts)),
        _section("Open Issues", _list(_prose(i) for i in episode.issues)),
        _section("Handoff Notes", _prose(episode.handoff)),
        _check(episode),
        _facts_line(episode),
    ]
    meta = [
        episode.type,
        _model(episode),
        duration(_seconds(episode)),
        f"{tokens(used_tokens(episode))} tokens",
        f"cost {money(episode.cost_nusd)}",
    ]
    if episode.truncated:
        meta.append("last answer cut by the length limit")
    return _frame(state, episode.id, episode.name or "", state, meta, blocks)


def episode_text(episode: Episode) -> str:
    """The same for a terminal."""
    mark = MARKS["successful" if episode.status == "ok" else "failed"]
    head = f"{mark.glyph} {clean_line(episode.id, 24)} {clean_line(episode.name or '', 80)}".rstrip()
    lines = [
        f"{head}  {episode.status} · {clean_line(_model(episode), 80)} · {duration(_seconds(episode))}"
        f" · {tokens(used_tokens(episode))} tokens · cost {money(episode.cost_nusd)}",
        *([f"failed: {clean_line(episode.code or '')} {clean_line(episode.detail or '')}"] if episode.code else []),
        *([f"notice: {clean_line(episode.notice)}"] if episode.notice else []),
    ]
    for title, body in episode.sections.items():
        if body:
            lines += ["", title, clean_block(_cut(body))]
    if episode.ratio:
        sizes = f"{tokens(episode.facts_tokens)} → {tokens(episode.episode_tokens)} tokens ({episode.ratio:.1f} : 1)"
        lines += ["", f"{episode.fact_count:,} fact{'' if episode.fact_count == 1 else 's'}, {sizes}"]
    if episode.invented:
        lines.append(f"in no fact: {clean_line(', '.join(episode.invented))}")
    if episode.lost:
        lines.append(f"not kept ({episode.lost_count:,}): {clean_line(', '.join(episode.lost))}")
    if episode.context:
        lines.append(f"← {', '.join(id for id, _ in episode.context)}")
    return "\n".join(lines)


def thread_card(progress: Progress) -> str:
    """The live card of a thread; its height does not change while text streams."""
    tail = escape(_tail(progress.text))
    box = (
        f"margin:8px 0 0;padding:8px 10px;height:{_TAIL_LINES * 1.45:.1f}em;overflow:hidden;border-radius:4px;"
        f"background:{var('raised')};color:inherit;font:12px/1.45 {var('mono')};white-space:pre-wrap;"
        "overflow-wrap:anywhere;display:flex;flex-direction:column;justify-content:flex-end"
    )
    blocks = [f'<div style="{box}"><div dir="auto">{tail}</div></div>'] if progress.state == "running" else []
    return _frame(progress.state, progress.id, progress.label, _doing(progress), _figures(progress), blocks)


def thread_text(progress: Progress) -> str:
    """The same in one line."""
    figures = " · ".join(_figures(progress))
    return (
        f"{MARKS[progress.state].glyph} {clean_line(progress.id, 24)} {clean_line(progress.label, 60)}"
        f"  {clean_line(_doing(progress), 60)} · {figures}"
    )


def error_card(error: BaseException) -> str:
    """An error a person can mend: its code, what happened, and every problem if there are several."""
    problems = getattr(error, "problems", ()) if isinstance(error, LabError) else ()
    if len(problems) > 1:
        blocks = [_section(f"{len(problems)} problems", _list(_problem(p) for p in problems))]
    else:
        blocks = [f'<div style="margin-top:6px;overflow-wrap:anywhere">{_prose(_message(error))}</div>']
    code = [f"code {error.code}"] if isinstance(error, LabError) else []
    return _frame("failed", type(error).__name__, "", "error", code, blocks)


def error_text(error: BaseException) -> str:
    """The same in one line."""
    return f"{type(error).__name__}: {clean_line(_message(error), 2000)}"


# pieces


def _frame(
    state: ThreadState, id: str, name: str, word: str, meta: Sequence[str], blocks: Iterable[str], *, wide: int = 860
) -> str:
    accent = MARKS[state].accent
    outer = (
        f"max-width:{wide}px;box-sizing:border-box;margin:4px 0;padding:10px 16px 12px;border:1px solid {var('rule')};"
        f"border-left:4px solid {accent};border-radius:6px;background:{var('ground')};color:{var('ink')};"
        f"font:13px/1.5 {var('sans')};font-variant-numeric:tabular-nums;overflow-wrap:anywhere"
    )
    badge = (
        f"background:{accent};color:#ffffff;border-radius:10px;padding:1px 9px;font-size:12px;font-weight:600;"
        "white-space:nowrap"
    )
    title = f'<b style="font-size:14px">{escape(clean_line(id, 40))}</b>'
    if name:
        title += f' <bdi style="font-size:14px">{escape(clean_line(name, 120))}</bdi>'
    figures = " · ".join(escape(clean_line(m, 120)) for m in meta if m)
    head = (
        '<div style="display:flex;flex-wrap:wrap;gap:4px 10px;align-items:baseline">'
        f'<span style="{badge}">{MARKS[state].glyph} {escape(clean_line(word, 80))}</span><span>{title}</span></div>'
        f'<div style="{_SOFT};font-size:12px;margin-top:3px">{figures}</div>'
    )
    label = escape(clean_line(f"{id} {word}"))
    return f'<div role="group" aria-label="{label}" style="{outer}">{head}{"".join(blocks)}</div>'


def _section(title: str, body: str) -> str:
    if not body:
        return ""
    return (
        f'<div style="margin-top:9px"><div style="font-size:12px;font-weight:600;{_SOFT}">{escape(title)}</div>'
        f"<div>{body}</div></div>"
    )


def _list(items: Iterable[str]) -> str:
    body = "".join(f'<li style="margin:1px 0">{item}</li>' for item in items)
    return f'<ul style="margin:0;padding-left:1.3em">{body}</ul>' if body else ""


def _prose(text: str) -> str:
    """Text with its line breaks, and what stands in backticks as code."""
    safe = escape(_cut(text.strip()))
    look = "font-size:92%;color:inherit;padding:0 3px;border-radius:3px"
    code = f"font-family:{var('mono')};background:{var('raised')};{look}"
    safe = _CODE.sub(rf'<code style="{code}">\1</code>', safe)
    return f'<span dir="auto" style="white-space:pre-wrap">{safe}</span>' if safe else ""


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}… ({len(text) - _LONGEST:,} more characters)"


def _task(task: str) -> str:
    """The first lines of the task; all of it behind a click if there is more."""
    head = clean_line(task, _TASK)
    first = f'<span dir="auto" style="{_SOFT}">{escape(head)}</span>'
    if not head.endswith("…"):
        return f'<div style="margin-top:6px">{first}</div>'
    return (
        f'<details style="margin-top:6px"><summary style="cursor:pointer">{first}</summary>'
        f'<div style="padding:4px 0 0 14px">{_prose(task)}</div></details>'
    )


def _callout(title: str, text: str, state: ThreadState) -> str:
    style = f"margin-top:8px;padding:5px 10px;border-left:3px solid {MARKS[state].accent};background:{var('raised')}"
    return f'<div style="{style}"><b>{title}</b> {_prose(text)}</div>'


def _finding(finding: Finding, spoken: frozenset[int]) -> str:
    """A finding with what it rests on, openable; `spoken` facts are the worker's own words and prove nothing."""
    if not finding.evidence:
        return f'{_prose(finding.text)}<div style="font-size:12px;{_SOFT}">rests on no line</div>'
    places = ", ".join(f"fact {e.fact}, line {e.line}" for e in finding.evidence[:3])
    more = f" and {len(finding.evidence) - 3} more" if len(finding.evidence) > 3 else ""
    own = " (its own words)" if all(e.fact in spoken for e in finding.evidence) else ""
    quotes = "".join(_quote(e) for e in finding.evidence)
    return (
        f'{_prose(finding.text)}<details style="font-size:12px"><summary style="cursor:pointer;{_SOFT}">'
        f"rests on {places}{more}{own}</summary>{quotes}</details>"
    )


def _quote(evidence: Evidence) -> str:
    style = f"margin:4px 0 4px 2px;padding:2px 10px;border-left:2px solid {var('rule')};font-family:{var('mono')}"
    where = f'<div style="{_SOFT}">fact {evidence.fact}, line {evidence.line}</div>'
    quote = f'<span dir="auto" style="white-space:pre-wrap">{escape(_cut(evidence.quote))}</span>'
    return f'<blockquote style="{style}">{where}{quote}</blockquote>'


def _artifact(artifact: dict[str, Any]) -> str:
    before, after = artifact.get("before"), artifact.get("after")
    change = "created" if before is None else "removed" if after is None else "changed"
    path = str(artifact.get("path", "")).replace("`", "'")
    return f"{_prose(f'`{path}`')} {change}"


def _check(episode: Episode) -> str:
    """What the loss and invention check found."""
    parts = []
    if episode.invented:
        parts.append(_callout("In no fact:", ", ".join(episode.invented), "failed"))
    if episode.lost_count or episode.lost:
        count = episode.lost_count or len(episode.lost)
        shown = ", ".join(escape(clean_line(word, 80)) for word in episode.lost)
        tail = f", and {count - len(episode.lost):,} more" if count > len(episode.lost) else ""
        parts.append(
            f'<details style="margin-top:8px;font-size:12px"><summary style="cursor:pointer;{_SOFT}">{count:,} '
            f"identifier{'' if count == 1 else 's'} of the facts not kept</summary>"
            f'<div style="padding-left:14px">{shown}{tail}</div></details>'
        )
    return "".join(parts)


def _facts_line(episode: Episode) -> str:
    parts = [f"{episode.fact_count:,} fact{'' if episode.fact_count == 1 else 's'}"]
    if episode.ratio:
        parts.append(
            f"{tokens(episode.facts_tokens)} → {tokens(episode.episode_tokens)} tokens ({episode.ratio:.1f} : 1)"
        )
    parts.append(episode.compression)
    if episode.omitted:
        parts.append(f"{episode.omitted:,} characters omitted")
    if len(episode.usage) > 1:
        parts.append(", ".join(f"{kind} {tokens(use.tokens)}" for kind, use in episode.usage.items()))
    if episode.context:
        parts.append(f"given {', '.join(id for id, _ in episode.context)}")
    if episode.hash:
        parts.append(f"hash {episode.hash[:12]}")
    line = " · ".join(escape(clean_line(part, 400)) for part in parts)
    return (
        f'<div style="margin-top:10px;padding-top:6px;border-top:1px solid {var("rule")};font-size:12px;{_SOFT}">'
        f"{line}</div>"
    )


def _model(episode: Episode) -> str:
    """The logical model and the route that ran; both routes where another one was asked for."""
    ran, asked = episode.ran_route, episode.requested_route
    route = f"{ran} instead of {asked}" if ran and asked and ran != asked else ran or asked
    return f"{episode.logical} ({route})" if episode.logical and route else episode.logical or route


def _seconds(episode: Episode) -> float | None:
    return (episode.ended_ns - episode.started_ns) / 1e9 if episode.ended_ns and episode.started_ns else None


def _doing(progress: Progress) -> str:
    if progress.state == "queued":
        return f"queued, {progress.position} in line" if progress.position else "queued"
    return (progress.doing or "running") if progress.state == "running" else progress.state


def _figures(progress: Progress) -> list[str]:
    def many(count: int, noun: str) -> str:
        return f"{count:,} {noun}{'' if count == 1 else 's'}"

    return [
        duration(progress.elapsed_s),
        many(progress.turns, "turn"),
        many(progress.tool_calls, "tool call"),
        f"{progress.tokens:,} tokens",
        f"cost {money(progress.cost_nusd)}",
    ]


def _tail(text: str) -> str:
    """The last lines of what is being written."""
    lines = clean_block(text[-_TAIL:]).rstrip().split("\n")[-_TAIL_LINES:]
    return "\n".join(lines)


def _problem(problem: Any) -> str:
    return f"<b>{escape(problem.code)}</b> {_prose(str(problem))}"


def _message(error: BaseException) -> str:
    return error.message if isinstance(error, LabError) else str(error) or type(error).__name__

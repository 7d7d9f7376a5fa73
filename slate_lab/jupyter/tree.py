"""The weave as text: a tree under each thread that cites nothing, for terminals and for `text/plain`."""

from __future__ import annotations

from collections.abc import Iterable

from slate_lab.jupyter.lanes import Weave, arrange
from slate_lab.jupyter.layout import hidden_text, used_tokens
from slate_lab.jupyter.text import clean_line, duration
from slate_lab.jupyter.theme import MARKS, STATES
from slate_lab.records import Episode, Thread

__all__ = ["tree"]

_DEEPEST = 6
_NAME = 44


def tree(threads: Iterable[Thread], episodes: Iterable[Episode], *, now_ns: int, cap: int = 200) -> str:
    """One line a thread: glyph, id, name, state, time, model, episode, and after `←` what it was given.

    A thread stands under the newest one it cites; the order of the others is that of their ids. At most `cap` lines.
    """
    records = {t.id: t for t in threads}
    settled = {e.thread: e for e in episodes}
    weave = arrange(records.values(), settled.values(), now_ns=now_ns, cap=cap)
    lines = [_head(weave)]
    if weave.hidden:
        lines.append(f"… {hidden_text(weave.hidden)}")
    below, roots = _families(weave)
    stack = [(root, "", "") for root in reversed(roots)]
    while stack:
        id, lead, branch = stack.pop()
        lines.append(f"{lead}{branch}{_line(records[id], settled.get(id), weave.now_s, weave.origin_ns)}")
        children = below.get(id, [])
        deeper = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        if len(deeper) > 3 * _DEEPEST:
            deeper = lead
        marks = ["├─ "] * (len(children) - 1) + ["└─ "]
        stack += [(child, deeper, mark) for child, mark in reversed(list(zip(children, marks, strict=False)))]
    return "\n".join(lines)


def _head(weave: Weave) -> str:
    states = ", ".join(f"{weave.states[s]:,} {s}" for s in STATES if s in weave.states)
    counts = f"{weave.threads:,} thread{'' if weave.threads == 1 else 's'}"
    return f"weave: {counts}{': ' + states if states else ''}"


def _families(weave: Weave) -> tuple[dict[str, list[str]], list[str]]:
    rows = {lane.id: lane.row for lane in weave.lanes}
    parent: dict[str, str] = {}
    for link in weave.links:
        if rows[link.source] < rows[link.target]:  # a later thread cannot be an ancestor; also keeps this a tree
            known = parent.get(link.target)
            if known is None or rows[known] < rows[link.source]:
                parent[link.target] = link.source
    below: dict[str, list[str]] = {}
    for child, above in parent.items():
        below.setdefault(above, []).append(child)
    return below, [lane.id for lane in weave.lanes if lane.id not in parent]


def _line(thread: Thread, episode: Episode | None, now_s: float, origin_ns: int) -> str:
    state = f"{thread.state} ({clean_line(thread.code, 40)})" if thread.code else thread.state
    parts = [state]
    if thread.started_ns is not None:
        end = (thread.ended_ns - origin_ns) / 1e9 if thread.ended_ns is not None else now_s
        parts.append(duration(max(0.0, end - (thread.started_ns - origin_ns) / 1e9)))
    parts.append(clean_line(thread.logical or thread.model, 40))
    if thread.hops:
        parts.append(clean_line(f"went on to {thread.hops[-1].to_route}", 80))
    used = used_tokens(episode)
    if used is not None:
        parts.append(f"{used:,} tokens")
    if episode is not None:
        parts.append(clean_line(episode.id, 24))
    cites = f"  ← {', '.join(thread.action.context)}" if thread.action.context else ""
    name = clean_line(thread.label, _NAME)
    body = " · ".join(part for part in parts if part)
    return f"{MARKS[thread.state].glyph} {clean_line(thread.id, 24)} {name}  {body}{cites}"

"""The weave as the plain values that the interactive view draws, and what changed since the last time.

A snapshot holds everything a click can show, so the page never has to ask the kernel, which may be busy. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from slate_lab.jupyter.lanes import Lane, arrange
from slate_lab.jupyter.layout import hidden_text, used_tokens, went
from slate_lab.jupyter.text import clean_block, clean_line, duration, money, tokens
from slate_lab.jupyter.theme import MARKS
from slate_lab.records import Episode, Thread, thread_of

__all__ = ["Cards", "Snapshot", "patch", "snapshot"]

Snapshot = dict[str, Any]

_TEXT_BUDGET: Final = 500_000
"""Characters of episode text in a whole snapshot, shared by all cards."""
_LEAST, _MOST = 240, 6000
_MARKS: Final = {
    state: {"accent": m.accent, "knot": m.knot, "inner": m.inner, "hollow": m.hollow} for state, m in MARKS.items()
}

_BULLET = re.compile(r"^- ", re.MULTILINE)

Cards = dict[str, tuple[tuple[object, ...], dict[str, Any]]]
"""Nodes already made, by thread id, each with what it was made from."""


def snapshot(
    threads: Iterable[Thread], episodes: Iterable[Episode], *, now_ns: int, cap: int = 2000, made: Cards | None = None
) -> Snapshot:
    """All that the view needs.

    Args:
        threads, episodes: the newest records.
        now_ns: the present.
        cap: most rows; older threads are counted and not drawn.
        made: kept by the caller between snapshots, so that what did not change is not made again.
    """
    records = {t.id: t for t in threads}
    settled = {e.thread: e for e in episodes}
    weave = arrange(records.values(), settled.values(), now_ns=now_ns, cap=cap)
    made = {} if made is None else made
    room = min(_MOST, max(_LEAST, _TEXT_BUDGET // max(1, len(weave.lanes))))
    nodes = {}
    for lane in weave.lanes:
        thread, episode = records[lane.id], settled.get(lane.id)
        basis = (lane, thread.code, thread.hops, episode.hash if episode else None, room)
        known = made.get(lane.id)
        if known is None or known[0] != basis:
            known = made[lane.id] = (basis, _node(lane, thread, episode, room))
        nodes[lane.id] = known[1]
    return {
        "nodes": nodes,
        "now": round(weave.now_s, 3),
        "origin_ms": weave.origin_ns // 1_000_000,
        "knots": [[round(t, 6), round(u, 6)] for t, u in weave.scale.knots],
        "breaks": [[round(b.left, 6), round(b.right, 6)] for b in weave.scale.breaks],
        "hidden": hidden_text(weave.hidden) if weave.hidden else "",
        "marks": _MARKS,
    }


def patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """What turns `old` into `new`: changed and new nodes, ids that are gone, and other values that changed."""
    before, after = old["nodes"], new["nodes"]
    rest = {key: value for key, value in new.items() if key != "nodes" and value != old.get(key)}
    return {
        "nodes": {id: node for id, node in after.items() if before.get(id) is not node and before.get(id) != node},
        "gone": [id for id in before if id not in after],
        **rest,
    }


def _node(lane: Lane, thread: Thread, episode: Episode | None, room: int) -> dict[str, Any]:
    over = lane.end_s is not None
    spent = None if lane.start_s is None or lane.end_s is None else lane.end_s - lane.start_s
    used = used_tokens(episode)
    return {
        "id": clean_line(thread.id, 24),
        "row": lane.row,
        "state": lane.state,
        "type": clean_line(thread.action.type, 40),
        "name": clean_line(thread.label, 120),
        "model": clean_line(thread.logical or thread.model, 60),
        "q": round(lane.queued_s, 3),
        "s": None if lane.start_s is None else round(lane.start_s, 3),
        "e": None if lane.end_s is None else round(lane.end_s, 3),
        "time": duration(spent) if over else "",
        "tokens": "–" if used is None else f"{used:,}",
        "cost": money(episode.cost_nusd) if episode else "–",
        "episode": lane.episode or "",
        "hops": [round(moment, 3) for moment in lane.hops_s],
        "cites": list(dict.fromkeys(map(thread_of, thread.action.context))),
        "card": _card(thread, episode, room),
    }


def _card(thread: Thread, episode: Episode | None, room: int) -> dict[str, Any]:
    route = episode.ran_route if episode and episode.ran_route else f"{thread.provider}/{thread.model}".strip("/")
    rows = [["type", thread.action.type], ["model", thread.logical], ["route", route]]
    if thread.code:
        why = f"{thread.code}: {thread.detail}" if thread.detail else thread.code
        rows.append(["why", why])
    if thread.hops:
        rows.append(["went on", went(thread)])
    if episode:
        rows += [["tokens", tokens(used_tokens(episode))], ["cost", money(episode.cost_nusd)], ["episode", episode.id]]
        if episode.ratio:
            rows.append(["facts", f"{episode.fact_count} facts, {episode.ratio:.1f} : 1"])
        if episode.invented:
            rows.append(["unsupported", ", ".join(episode.invented[:8])])
    return {
        "task": _cut(clean_block("\n".join(thread.action.task.strip().splitlines()[:4])), 400),
        "rows": [[label, clean_line(value, 200)] for label, value in rows if value],
        "sections": _sections(episode, room) if episode else [],
    }


def _sections(episode: Episode, room: int) -> list[list[str]]:
    """The sections that say something, first come first served."""
    kept = []
    for title, body in episode.sections.items():
        if body and room > 0:
            kept.append([title, _cut(_BULLET.sub("• ", clean_block(body)), room)])
            room -= len(body)
    if room < 0 or len(kept) < sum(bool(b) for b in episode.sections.values()):
        kept.append(["Cut", f"All of it: %slate episode {clean_line(episode.id, 24)}"])
    return kept


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"

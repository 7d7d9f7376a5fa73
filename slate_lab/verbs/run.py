"""Do one verb against a lab and return plain records or objects; who shows them is somebody else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slate_lab.errors import ConfigError, Place, Problem, StoreError
from slate_lab.records import Approval, Call, Episode, Fact, Thread, near, thread_of, usd
from slate_lab.verbs.door import Door
from slate_lab.verbs.memory import VERBS as MEMORY
from slate_lab.verbs.parser import Asked
from slate_lab.verbs.table import FRAMES
from slate_lab.verbs.values import episode_ids, thread_ids, whole
from slate_lab.verbs.words import WrongUsage

__all__ = ["check", "cost_rows", "init", "run", "schema", "thread_for"]

_SLICE = re.compile(r"(?P<id>[^\[\]]+)(?:\[(?P<from>-?\d*):(?P<to>-?\d*)\]|\[(?P<one>-?\d+)\])?")


def run(asked: Asked, door: Door, *, names: Mapping[str, Any] | None = None) -> Any:
    """The result of a verb that asks the lab one thing: all of `_VERBS`.

    Args:
        names: the notebook's variables, where an id may be given by one.

    Raises:
        LabError: WrongUsage for a wrong value, the lab's own for the rest.
    """
    return _VERBS[asked.command.name](asked, door, names or {})


def _status(asked: Asked, door: Door, names: Mapping[str, Any]) -> Any:
    return dict(door.status())


def _threads(asked: Asked, door: Door, names: Mapping[str, Any]) -> list[Thread]:
    threads = [t for t in door.threads() if not asked["state"] or t.state in asked["state"]]
    if asked["limit"] is None:
        return threads
    return threads[-whole(asked["limit"], "--limit") :]


def _episode(asked: Asked, door: Door, names: Mapping[str, Any]) -> Any:
    if asked["id"] is None:
        return list(door.episodes())
    ids = episode_ids([asked["id"]], names)
    found = [_one_episode(door, id) for id in ids]
    return found[0] if len(found) == 1 else found


def _one_episode(door: Door, id: str) -> Episode:
    episode = door.episode(id)
    if episode is None:
        raise _unknown("episode", id, (e.id for e in door.episodes()))
    return episode


def _facts(asked: Asked, door: Door, names: Mapping[str, Any]) -> list[Fact]:
    match = _SLICE.fullmatch(asked["id"])
    if match is None:
        raise WrongUsage(f"`{asked['id']}` is no slice of facts: write t4, t4.e1 or t4.e1[3:7]")
    facts: list[Fact] = []
    for id in thread_ids([match["id"]], names):
        thread_for(door, id)
        facts.extend(door.facts(id))
    if match["one"] is not None:
        at = int(match["one"])
        return facts[at : at + 1 or None]
    return facts[_bound(match["from"]) : _bound(match["to"])]


def _bound(text: str | None) -> int | None:
    if text == "-":
        raise WrongUsage("a slice of facts is written [3:7], [:5] or [-2:]")
    return int(text) if text else None


def _cancel(asked: Asked, door: Door, names: Mapping[str, Any]) -> list[str]:
    if asked["id"] == ["all"]:
        handles = list(door.live())
        for handle in reversed(handles):  # the last in line first: a freed permit must not start what is to end
            handle.cancel()
        return [handle.id for handle in handles]
    ids = thread_ids([i for word in asked["id"] for i in word.split(",") if i], names)
    for id in ids:
        thread_for(door, id)
    found = [door.handle(id) for id in ids]
    for one in found:
        if one is not None:
            one.cancel()
    return [one.id for one in found if one is not None]


def _steer(asked: Asked, door: Door, names: Mapping[str, Any]) -> str:
    """The id of the thread that was told something."""
    (id,) = thread_ids([asked["id"]], names)[:1]
    thread_for(door, id)
    door.steer(id, " ".join(asked["text"]))
    return id


def _approvals(asked: Asked, door: Door, names: Mapping[str, Any]) -> list[Approval]:
    return list(door.approvals())


def _approve(asked: Asked, door: Door, names: Mapping[str, Any]) -> list[Approval]:
    return list(door.approve(asked["id"]))


def _deny(asked: Asked, door: Door, names: Mapping[str, Any]) -> list[Approval]:
    return list(door.deny(asked["id"], " ".join(asked["why"])))


def _cost(asked: Asked, door: Door, names: Mapping[str, Any]) -> list[dict[str, Any]]:
    return cost_rows(door.calls(), by=asked["by"] or "model")


def cost_rows(calls: Iterable[Call], *, by: str) -> list[dict[str, Any]]:
    """Spend by `model`, `thread` or `kind`, and a total at the end; exact dollars, unpriced calls counted apart."""
    groups: dict[str, list[Call]] = {}
    for call in calls:
        groups.setdefault(_GROUPS[by](call), []).append(call)
    rows = [_cost_row(by, name, group) for name, group in groups.items()]
    rows.append(_cost_row(by, "total", [c for group in groups.values() for c in group]))
    return rows


_GROUPS: dict[str, Callable[[Call], str]] = {
    "model": lambda c: f"{c.logical} ({c.provider}/{c.model})",
    "thread": lambda c: c.thread,
    "kind": lambda c: c.kind,
}


def _cost_row(by: str, name: str, calls: Sequence[Call]) -> dict[str, Any]:
    known = [c.cost.nusd for c in calls if c.cost.nusd is not None]
    spent = usd(sum(known))
    return {
        by: name,
        "calls": len(calls),
        "input_tokens": sum(c.usage.input_tokens or 0 for c in calls),
        "output_tokens": sum(c.usage.output_tokens or 0 for c in calls),
        "usd": f"{spent:f}" if known or not calls else None,
        "unpriced": len(calls) - len(known),
    }


def _budget(asked: Asked, door: Door, names: Mapping[str, Any]) -> list[dict[str, Any]]:
    thread = budget_thread(asked, door, names)
    rows = [{**part, "share": _share(part.get("tokens"), thread.window)} for part in thread.brief]
    total = sum(int(part.get("tokens") or 0) for part in thread.brief)
    exact = bool(thread.brief) and all(part.get("exact") for part in thread.brief)
    return [
        *rows,
        {"source": f"total of {thread.id}", "tokens": total, "exact": exact, "share": _share(total, thread.window)},
    ]


def budget_thread(asked: Asked, door: Door, names: Mapping[str, Any]) -> Thread:
    """The thread whose brief is asked for: the given one, or the newest."""
    if asked["id"] is not None:
        return thread_for(door, thread_ids([asked["id"]], names)[0])
    threads = list(door.threads())
    if not threads:
        raise StoreError("there is no thread in this lab yet", code="no_threads")
    return threads[-1]


def _share(tokens: Any, window: int | None) -> str:
    return f"{100 * int(tokens or 0) / window:.1f}%" if window else ""


def _frames(asked: Asked, door: Door, names: Mapping[str, Any]) -> Any:
    if asked["name"] is None:
        return [{"frame": name} for name in FRAMES]
    return getattr(door.frames, asked["name"])()


def _models(asked: Asked, door: Door, names: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(door.models())


def _replay(asked: Asked, door: Door, names: Mapping[str, Any]) -> Any:
    told = dict(door.replay(asked["mode"]))
    if told["file"] and (file := Path(told["file"])).is_relative_to(Path.cwd()):  # as one would type it here
        told["file"] = file.relative_to(Path.cwd()).as_posix()
    return told


def _store(asked: Asked, door: Door, names: Mapping[str, Any]) -> dict[str, Any]:
    problems = door.verify()
    return {"ok": not problems, "problems": problems}


def _config(asked: Asked, door: Door, names: Mapping[str, Any]) -> Any:
    if asked["schema"]:
        return schema()
    return door.config.model_dump(mode="json", by_alias=True, exclude_none=True)


_VERBS: dict[str, Callable[[Asked, Door, Mapping[str, Any]], Any]] = {
    "status": _status,
    "threads": _threads,
    "episode": _episode,
    "facts": _facts,
    "cancel": _cancel,
    "steer": _steer,
    "approvals": _approvals,
    "approve": _approve,
    "deny": _deny,
    "cost": _cost,
    "budget": _budget,
    "frames": _frames,
    "models": _models,
    "replay": _replay,
    "store": _store,
    "config": _config,
    **MEMORY,
}


def thread_for(door: Door, id: str) -> Thread:
    """The thread of that id.

    Raises:
        StoreError: there is none; near ids are named.
    """
    for thread in door.threads():
        if thread.id == thread_of(id):
            return thread
    raise _unknown("thread", id, (t.id for t in door.threads()))


def _unknown(what: str, id: str, known: Iterable[str]) -> StoreError:
    close = near(id, known)
    hint = f": near it are {', '.join(close)}" if close else ": the lab has none that is close"
    return StoreError(f"there is no {what} {id} in this lab{hint}", code=f"unknown_{what}")


def init(asked: Asked, *, root: Path) -> list[str]:
    """Write the starter files, and trust what they bring; returns the paths that were written."""
    from slate_lab.config import Trust, write_starter

    folder = Path(asked["path"] or root)
    written = write_starter(folder, force=bool(asked["force"]))
    now = Trust.of(folder)
    if not now.odd:
        now.record(only=written)
    return [str(path) for path in written]


def schema() -> dict[str, Any]:
    """The JSON Schema of slate.yaml."""
    from slate_lab.config import json_schema

    return dict(json_schema())


def check(root: Path) -> dict[str, Any]:
    """Every problem of the configuration at `root`, held back or not: `{ok, files, trusted, held_back, warnings,
    problems}`; nothing is opened or written.
    """
    from slate_lab.config import Trust, load_config
    from slate_lab.routing.policy import Policy
    from slate_lab.verbs.slotting import slots_report

    if not root.is_dir():
        raise StoreError(f"{root} is no folder", code="no_folder")
    trust = Trust.of(root)
    report: dict[str, Any] = {"ok": True, "root": str(root), "files": [], "trusted": trust.trusted}
    report |= {"held_back": list(trust.held), "warnings": [], "problems": []}
    try:
        loaded = load_config(root)
        report["files"] = [str(f) for f in loaded.files]
        report["warnings"] = [*loaded.warnings, *filter(None, (trust.warning,))]
        Policy.resolve(loaded.config, places=loaded.places)
        slots = slots_report(root, loaded.config, trust=trust)
        report["slots"] = slots
        report["warnings"] += slots["warnings"]
        report["problems"] = [
            _problem(Problem("slot_import", text, Place(slots["surface"]))) for text in slots["faults"]
        ]
        report["ok"] = not report["problems"]
    except ConfigError as error:
        report["ok"] = False
        report["problems"] = [_problem(p) for p in error.problems]
    return report


def _problem(problem: Problem) -> dict[str, Any]:
    place = problem.place
    where = {"file": place.file or None, "line": place.line, "path": place.path or None}
    return {"code": problem.code, "message": problem.message, **where, "text": str(problem)}

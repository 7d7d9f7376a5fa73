"""The single checks of admission: each looks at one thing of an action and gives the problems it finds.

In: an action and the grounds. Out: problems, and what was looked up on the way. Called by `admission`, in its order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from math import isfinite
from typing import Literal

from slate_lab.errors import DispatchError, LabError, Problem
from slate_lab.records import Action, Episode, Limits, Route, episode_id, is_thread_id, near
from slate_lab.routing.policy import Grant
from slate_lab.tokens import clean
from slate_lab.weave.grounds import Grounds
from slate_lab.weave.tools import READ_ONLY, Tool
from slate_lab.weave.tools.facts_tool import EPISODE_FACTS
from slate_lab.weave.tools.memory import MEMORY
from slate_lab.weave.types import ThreadType

__all__ = [
    "MAX_CONTEXT",
    "Dispatched",
    "after_problems",
    "context_of",
    "facts_problems",
    "granted",
    "limit_problems",
    "plain_reason",
    "reason_problems",
    "task_problems",
    "tools_of",
    "track_problems",
    "type_problems",
    "unpriced",
]

MAX_CONTEXT = 32
"""Context ids of one action."""
MAX_REASON = 200
"""Characters of a reason, control characters stripped."""

Dispatched = Literal["person", "model"]
"""Who dispatches: a person, or an orchestrator's model, which must give its reasons."""

_LOCAL = (*READ_ONLY, *MEMORY)
_TRACK = re.compile(r"[1-9][0-9]{0,8}(?:\.[1-9][0-9]{0,8})*", re.ASCII)


def task_problems(action: Action) -> list[Problem]:
    """A task that is blank, and texts that cannot be sent."""
    blank = [Problem("blank_task", "the task is blank: say what the worker is to do")] if _blank(action) else []
    return blank + [_not_text(name) for name, text in _texts(action) if clean(text) != text]


def _blank(action: Action) -> bool:
    return not action.task.strip()


def _texts(action: Action) -> list[tuple[str, str]]:
    named = [("task", action.task), ("name", action.name or ""), ("reason", action.reason or "")]
    return named + [(f"variable {name!a}", name + text) for name, text in action.variables.items()]


def _not_text(name: str) -> Problem:
    return Problem("bad_text", f"the {name} holds half a surrogate pair, which cannot be sent: take it out")


def track_problems(track: str | None) -> list[Problem]:
    """A track that is no canonical decimal."""
    if track is None or (len(track) <= 100 and _TRACK.fullmatch(track)):
        return []
    return [Problem("bad_track", f"the track {track[:40]!r} is no number like 1 or 1.2 (no zero in front, no blank)")]


def plain_reason(reason: str | None) -> str | None:
    """The reason without control characters."""
    return None if reason is None else "".join(c for c in reason if c.isprintable())


def reason_problems(action: Action, by: Dispatched) -> list[Problem]:
    """A reason that is too long, and what a model must say when it dispatches."""
    reason, found = action.reason or "", []
    if len(reason) > MAX_REASON:
        found.append(Problem("long_reason", f"the reason has {len(reason)} characters: at most {MAX_REASON}"))
    if by == "model":
        if action.model is None:
            found.append(Problem("model_required", "name the logical model that is to do it: model=NAME"))
        if not reason.strip():
            found.append(Problem("reason_required", "say in a few words why this model: reason=TEXT"))
    return found


def granted(problems: list[Problem], get: Callable[[], Grant]) -> Grant | None:
    """The grant, or None with its problems noted."""
    try:
        return get()
    except DispatchError as e:
        problems.extend(e.problems)
    except LabError as e:
        problems.append(Problem(e.code, e.message))
    return None


def type_problems(name: str, types: Mapping[str, ThreadType]) -> list[Problem]:
    """A type that does not exist."""
    if name in types:
        return []
    close = near(name, types)
    hint = f"did you mean {close[0]}?" if close else f"the types are {', '.join(types)}"
    return [Problem("unknown_type", f"there is no thread type {name!r}: {hint}")]


def tools_of(
    action: Action, kind: ThreadType | None, grant: Grant | None, grounds: Grounds, problems: list[Problem]
) -> dict[str, Tool]:
    """The tools the worker is given, by name."""
    if kind is None or grant is None:
        return {}
    names = own = kind.tools if kind.fixed or not kind.tools else (*kind.tools, *grounds.added(kind))
    if action.tools is None and not action.context:
        names = tuple(n for n in names if n != EPISODE_FACTS)
    if action.tools is None and grant.provider.protocol == "local":
        names = tuple(n for n in names if n in _LOCAL)  # small models over-call: writing files is asked for by name
    if action.tools is not None:
        unknown = [n for n in action.tools if n not in grounds.tools]
        if unknown:
            close = near(unknown[0], grounds.tools)
            hint = f"did you mean {close[0]}?" if close else f"the tools are {', '.join(grounds.tools)}"
            problems.append(Problem("unknown_tool", f"there is no tool {unknown[0]!r}: {hint}"))
        barred = [n for n in action.tools if n in grounds.tools and n not in own]
        if barred:
            problems.append(Problem("tool_not_allowed", f"the type {kind.name} has no {', '.join(barred)}"))
        names = tuple(dict.fromkeys(action.tools))
        lacking = [grounds.tools[n].lacking for n in names if n in grounds.tools and grounds.tools[n].lacking]
        problems += [Problem("tool_not_ready", why) for why in lacking]
    if names and not grant.capabilities.tools:
        problems.append(Problem("no_tools", f"{grant.route} cannot call tools: choose another model or the type query"))
    return {n: grounds.tools[n] for n in names if n in grounds.tools and not grounds.tools[n].lacking}


def after_problems(action: Action, grounds: Grounds, labels: Collection[str]) -> list[Problem]:
    """Threads to come after that do not exist, and those named twice; `labels` stand for actions of the same batch."""
    found = []
    unknown = [id for id in action.after if id not in labels and not (is_thread_id(id) and grounds.is_thread(id))]
    if unknown:
        found.append(Problem("unknown_thread", f"there is no thread {', '.join(unknown)} to come after"))
    twice = [id for id in dict.fromkeys(action.after) if action.after.count(id) > 1]
    if twice:
        found.append(Problem("duplicate_after", f"after names {', '.join(twice)} twice: once is enough"))
    return found


def facts_problems(action: Action, grounds: Grounds) -> list[Problem]:
    """Threads whose facts are asked for that do not exist."""
    unknown = [id for id in action.facts_of if not (is_thread_id(id) and grounds.is_thread(id))]
    return [Problem("unknown_thread", f"there is no thread {', '.join(unknown)} to take facts of")] if unknown else []


def context_of(
    action: Action, grounds: Grounds, pending: tuple[str, ...], labels: Collection[str], problems: list[Problem]
) -> list[Episode]:
    """The context episodes that are there already, in order; those of threads it waits for come later."""
    if len(action.context) > MAX_CONTEXT:
        problems.append(Problem("too_much_context", f"{len(action.context)} context episodes: at most {MAX_CONTEXT}"))
    waited = {*labels, *(episode_id(id) for id in pending)}
    episodes: list[Episode] = []
    for id in action.context:
        if id in waited:
            continue
        try:
            found = grounds.episode(id)
        except LabError as e:
            problems.append(Problem(e.code, e.message))
            continue
        if found is None:
            problems.append(_unknown_episode(id, grounds.known()))
        else:
            episodes.append(found)
    return episodes


def _unknown_episode(id: str, known: list[str]) -> Problem:
    close = near(id, known)
    if close:
        hint = f"near it are {', '.join(close)}"
    elif known:
        hint = f"the newest is {known[-1]}"
    else:
        hint = "the store has no episode yet"
    return Problem("unknown_context", f"there is no episode {id!r}: {hint}")


def limit_problems(limits: Limits) -> list[Problem]:
    """Limits that could never be met."""
    problems = []
    for name in Limits.__struct_fields__:
        value = getattr(limits, name)
        if value is not None and not (_finite(value) and value > 0) and not (name == "tool_calls" and value == 0):
            problems.append(Problem("bad_limit", f"the limit {name}={value} must be a number above 0"))
    return problems


def _finite(value: float | Decimal) -> bool:
    return value.is_finite() if isinstance(value, Decimal) else isfinite(value)


def unpriced(route: Route) -> Problem:
    """A cap in dollars on a route whose price is unknown."""
    place = f"providers.{route.provider}.models.{route.model}.price"
    text = f"a cap in dollars cannot hold on {route}, whose price is unknown: set {place} in slate.yaml"
    return Problem("unpriced", text)

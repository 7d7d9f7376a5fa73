"""Admission: everything that must hold before a thread exists, checked in one order, all problems listed at once.

In: an action. Out: what the dispatcher needs to run it, or a `DispatchError` with a code per problem.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from slate_lab.errors import DispatchError, LabError, Problem
from slate_lab.records import Action, Episode, Limits, Route, episode_id, is_thread_id, near
from slate_lab.routing.policy import Grant
from slate_lab.tokens import clean
from slate_lab.weave.brief import Brief, BriefTooLarge, build
from slate_lab.weave.tools import READ_ONLY, Tool
from slate_lab.weave.types import ThreadType

__all__ = ["MAX_CONTEXT", "Admitted", "Grounds", "admit", "room_of", "write_brief"]

MAX_CONTEXT = 32
"""Context ids of one action."""
MAX_REASON = 200
"""Characters of a reason, control characters stripped."""
OUTPUT_SHARE = 0.25
"""Share of an unknown-output route's window that is kept for the answer."""


class Grounds(Protocol):
    """What admission may ask: read-only views of the lab."""

    @property
    def types(self) -> Mapping[str, ThreadType]:
        """Thread types by name."""
        ...

    @property
    def tools(self) -> Mapping[str, Tool]:
        """All tools by name."""
        ...

    @property
    def limits(self) -> Limits:
        """Limits of every action that sets none itself."""
        ...

    @property
    def capped(self) -> bool:
        """Whether the session, the day or the project has a cap in dollars."""
        ...

    def priced(self, route: Route) -> bool:
        """Whether the price of a route is known."""
        ...

    @property
    def nonce(self) -> Callable[[str], str]:
        """A fence word for a source."""
        ...

    def grant(self, logical: str | None) -> Grant:
        """The route of a logical model (None: the default); raises `DispatchError`."""
        ...

    def episode(self, id: str) -> Episode | None:
        """A stored episode; raises `StoreError` if it was edited."""
        ...

    def known(self) -> list[str]:
        """Ids of all episodes, for near matches."""
        ...

    def is_thread(self, id: str) -> bool:
        """Whether the thread exists."""
        ...

    def succeeded(self, id: str) -> bool:
        """Whether the thread has ended well."""
        ...


class Admitted(Struct, frozen=True, kw_only=True):
    """An action that may run.

    Attributes:
        action: cleaned (duplicates of context dropped, reason stripped).
        kind: its thread type.
        grant: the route it may use.
        tools: the tools it is given, by name.
        limits: its limits with the type's and the lab's behind them.
        brief: the assembled prompt; None while it waits for episodes of the threads it comes after.
        pending: the thread ids it comes after that have not ended well: it waits for them, or is skipped.
        room: tokens the prompt may take, None if the window is unknown.
        reserved: tokens kept for one answer, None if unknown.
    """

    action: Action
    kind: ThreadType
    grant: Grant
    tools: dict[str, Tool]
    limits: Limits
    brief: Brief | None
    pending: tuple[str, ...]
    room: int | None
    reserved: int | None


def admit(action: Action, grounds: Grounds) -> Admitted:
    """Check `action` in the order of the steps and assemble what it needs.

    Raises:
        DispatchError: every problem, the first one's code in front.
    """
    problems: list[Problem] = []
    action = _tidy(action, problems)
    kind = grounds.types.get(action.type)
    grant = _try(problems, lambda: grounds.grant(action.model or (kind.model if kind else None)))
    if kind is None:
        problems.append(_unknown_type(action.type, grounds.types))
    pending = _after(action, grounds, problems)
    episodes = _context(action, grounds, pending, problems)
    if action.slates:
        problems.append(Problem("unknown_slate", f"no slate is declared, so {action.slates[0]!r} cannot be given"))
    tools = _tools(action, kind, grant, grounds, problems)
    if problems or kind is None or grant is None:
        raise DispatchError(problems)
    room, reserved = room_of(grant)
    limits = action.limits.over(kind.limits).over(grounds.limits)
    if (limits.usd is not None or grounds.capped) and not grounds.priced(grant.route):
        raise DispatchError.of("unpriced", _unpriced(grant.route))
    admitted = Admitted(
        action=action,
        kind=kind,
        grant=grant,
        tools=tools,
        limits=limits,
        brief=None,
        pending=pending,
        room=room,
        reserved=reserved,
    )
    if pending:
        return admitted
    return replace(admitted, brief=write_brief(admitted, episodes, nonce=grounds.nonce))


def write_brief(admitted: Admitted, episodes: list[Episode], *, nonce: Callable[[str], str]) -> Brief:
    """The brief of an admitted action.

    Raises:
        DispatchError: `brief_too_large`, with the table of what costs what.
    """
    specs = [t.spec for t in admitted.tools.values()]
    try:
        return build(admitted.action, admitted.kind, episodes, specs, room=admitted.room, nonce=nonce)
    except BriefTooLarge as e:
        hint = "shorten it, cite fewer episodes or set fit=True to drop the oldest"
        raise DispatchError.of(
            "brief_too_large",
            f"the brief takes about {e.brief.tokens} tokens and {admitted.grant.route} leaves room for {e.room} "
            f"({e.table}): {hint}",
        ) from e


def _tidy(action: Action, problems: list[Problem]) -> Action:
    if not action.task.strip():
        problems.append(Problem("blank_task", "the task is blank: say what the worker is to do"))
    problems += [_not_text(name) for name, text in _texts(action) if not _encodable(text)]
    problems += _limit_problems(action.limits)
    problems += [
        Problem("not_built", f"{name} is not checked in this version: leave it out")
        for name in ("claims", "review_perspectives", "track")
        if getattr(action, name)
    ]
    reason = action.reason
    if reason is not None:
        reason = "".join(c for c in reason if c.isprintable())
        if len(reason) > MAX_REASON:
            problems.append(Problem("long_reason", f"the reason has {len(reason)} characters: at most {MAX_REASON}"))
    return replace(action, reason=reason, context=tuple(dict.fromkeys(action.context)))


def _texts(action: Action) -> list[tuple[str, str]]:
    named = [("task", action.task), ("name", action.name or ""), ("reason", action.reason or "")]
    return named + [(f"variable {name!a}", name + text) for name, text in action.variables.items()]


def _encodable(text: str) -> bool:
    return clean(text) == text


def _not_text(name: str) -> Problem:
    return Problem("bad_text", f"the {name} holds half a surrogate pair, which cannot be sent: take it out")


def _limit_problems(limits: Limits) -> list[Problem]:
    problems = []
    for name in Limits.__struct_fields__:
        value = getattr(limits, name)
        if value is not None and not (isfinite(value) and value > 0) and not (name == "tool_calls" and value == 0):
            problems.append(Problem("bad_limit", f"the limit {name}={value} must be a number above 0"))
    return problems


def _try(problems: list[Problem], get: Callable[[], Grant]) -> Grant | None:
    try:
        return get()
    except DispatchError as e:
        problems.extend(e.problems)
    except LabError as e:
        problems.append(Problem(e.code, e.message))
    return None


def _unknown_type(name: str, types: Mapping[str, ThreadType]) -> Problem:
    close = near(name, types)
    hint = f"did you mean {close[0]}?" if close else f"the types are {', '.join(types)}"
    return Problem("unknown_type", f"there is no thread type {name!r}: {hint}")


def _after(action: Action, grounds: Grounds, problems: list[Problem]) -> tuple[str, ...]:
    unknown = [id for id in action.after if not (is_thread_id(id) and grounds.is_thread(id))]
    if unknown:
        problems.append(Problem("unknown_thread", f"there is no thread {', '.join(unknown)} to come after"))
    return tuple(id for id in dict.fromkeys(action.after) if id not in unknown and not grounds.succeeded(id))


def _context(action: Action, grounds: Grounds, pending: tuple[str, ...], problems: list[Problem]) -> list[Episode]:
    if len(action.context) > MAX_CONTEXT:
        problems.append(Problem("too_much_context", f"{len(action.context)} context episodes: at most {MAX_CONTEXT}"))
    waited = {episode_id(id) for id in pending}
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


def _tools(
    action: Action, kind: ThreadType | None, grant: Grant | None, grounds: Grounds, problems: list[Problem]
) -> dict[str, Tool]:
    if kind is None or grant is None:
        return {}
    names = kind.tools
    if action.tools is None and grant.provider.protocol == "local":
        names = tuple(n for n in names if n in READ_ONLY)  # small models over-call: writing is asked for by name
    if action.tools is not None:
        unknown = [n for n in action.tools if n not in grounds.tools]
        if unknown:
            close = near(unknown[0], grounds.tools)
            hint = f"did you mean {close[0]}?" if close else f"the tools are {', '.join(grounds.tools)}"
            problems.append(Problem("unknown_tool", f"there is no tool {unknown[0]!r}: {hint}"))
        barred = [n for n in action.tools if n in grounds.tools and n not in kind.tools]
        if barred:
            problems.append(Problem("tool_not_allowed", f"the type {kind.name} has no {', '.join(barred)}"))
        names = tuple(dict.fromkeys(action.tools))
    if names and not grant.capabilities.tools:
        problems.append(Problem("no_tools", f"{grant.route} cannot call tools: choose another model or the type query"))
    return {n: grounds.tools[n] for n in names if n in grounds.tools}


def _unpriced(route: Route) -> str:
    place = f"providers.{route.provider}.models.{route.model}.price"
    return f"a cap in dollars cannot hold on {route}, whose price is unknown: set {place} in slate.yaml"


def room_of(grant: Grant) -> tuple[int | None, int | None]:
    """Tokens that a prompt may take on a route, and tokens kept for one answer; None where they are unknown."""
    window, most = grant.capabilities.window, grant.capabilities.max_output
    if window is None:
        return None, most
    reserved = min(most or int(window * OUTPUT_SHARE), window // 2)
    return window - reserved, reserved

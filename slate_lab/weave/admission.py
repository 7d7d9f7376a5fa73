"""Admission: everything that must hold before a thread exists, checked in one order, all problems listed at once.

In: an action. Out: what the dispatcher needs to run it, or a `DispatchError` with a code per problem. The order:
retired names (noted by `intake`), review perspectives, task, model and reason, lab open, policy and logical model,
route with key and effort, type, context, slates, review files, claims, budget.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from msgspec import Struct
from msgspec.structs import replace

from slate_lab.errors import DispatchError, Problem
from slate_lab.records import Action, Episode, Fact, Limits
from slate_lab.routing.policy import Grant
from slate_lab.slates import Slates
from slate_lab.weave import checks
from slate_lab.weave.brief import Brief, BriefTooLarge, build
from slate_lab.weave.checks import MAX_CONTEXT, Dispatched
from slate_lab.weave.claims import claim_problems, held
from slate_lab.weave.grounds import Grounds
from slate_lab.weave.perspectives import perspective_problems, review_file_problems
from slate_lab.weave.recall import recall, target_problems
from slate_lab.weave.tools import Tool
from slate_lab.weave.types import ThreadType

__all__ = ["MAX_CONTEXT", "Admitted", "Grounds", "admit", "claims_held", "room_of", "write_brief"]

OUTPUT_SHARE = 0.25
"""Share of an unknown-output route's window that is kept for the answer."""


class Admitted(Struct, frozen=True, kw_only=True):
    """An action that may run.

    Attributes:
        action: cleaned (duplicates of context dropped, reason stripped).
        kind: its thread type.
        grant: the route it may use.
        tools: the tools it is given, by name.
        limits: its limits with the type's and the lab's behind them.
        brief: the assembled prompt; None while it waits for episodes of the threads it comes after.
        pending: the threads it comes after that have not ended well (ids, or labels of its batch).
        room: tokens the prompt may take, None if the window is unknown.
        reserved: tokens kept for one answer, None if unknown.
        reviews: name and text of the review perspectives it was given.
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
    reviews: tuple[tuple[str, str], ...] = ()


def admit(
    action: Action,
    grounds: Grounds,
    *,
    problems: Sequence[Problem] = (),
    by: Dispatched = "person",
    labels: Collection[str] = (),
) -> Admitted:
    """Check `action` in the order of the steps and assemble what it needs.

    Args:
        problems: what was wrong with the way it was written.
        by: who dispatches it.
        labels: names of actions of the same batch that it may come after or cite.

    Raises:
        DispatchError: every problem, the first one's code in front.
    """
    action = replace(action, reason=checks.plain_reason(action.reason), context=tuple(dict.fromkeys(action.context)))
    found = [*problems, *perspective_problems(action.review_perspectives)]
    found += checks.task_problems(action) + checks.track_problems(action.track) + checks.reason_problems(action, by)
    if grounds.closed:  # nothing more can be asked of a closed lab
        raise DispatchError([*found, Problem("lab_closed", "the lab is closed: open it again with Lab.open")])
    kind = grounds.types.get(action.type)
    grant = checks.granted(found, lambda: grounds.grant(action.model or (kind.model if kind else None)))
    found += checks.type_problems(action.type, grounds.types) + checks.after_problems(action, grounds, labels)
    pending = _pending(action, grounds, labels)
    episodes = checks.context_of(action, grounds, pending, labels, found)
    found += checks.facts_problems(action, grounds)
    found += target_problems(action.slates, grounds.slates, later=bool(pending))
    tools = checks.tools_of(action, kind, grant, grounds, found)
    found += review_file_problems(action.review_perspectives, grounds.review)
    found += claim_problems(action.claims) or claims_held(action, grounds, labels)
    found += checks.limit_problems(action.limits)
    limits = action.limits.over(kind.limits if kind else Limits()).over(grounds.limits)
    if grant and (limits.usd is not None or grounds.capped) and not grounds.priced(grant.route):
        found.append(checks.unpriced(grant.route))
    if found or kind is None or grant is None:
        raise DispatchError(found)
    room, reserved = room_of(grant)
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
        reviews=tuple((name, grounds.review(name) or "") for name in action.review_perspectives),
    )
    if pending:
        return admitted
    brief = write_brief(admitted, episodes, facts=grounds.facts, slates=grounds.slates, nonce=grounds.nonce)
    return replace(admitted, brief=brief)


def claims_held(action: Action, grounds: Grounds, labels: Collection[str] = ()) -> list[Problem]:
    """Claims of `action` that meet those of an action which waits or runs."""
    if not action.claims:
        return []
    return held(action.claims, grounds.claims(beside=tuple(id for id in action.after if id not in labels)))


def write_brief(
    admitted: Admitted,
    episodes: list[Episode],
    *,
    facts: Callable[[str], Sequence[Fact]],
    slates: Slates | None,
    nonce: Callable[[str], str],
) -> Brief:
    """The brief of an admitted action.

    Args:
        episodes: its context, in order.
        facts: the facts of a thread, for those it cites.
        slates: declared memory, for the targets it names.
        nonce: a fence word for a source.

    Raises:
        DispatchError: `brief_too_large`, with the table of what costs what.
    """
    specs = [t.spec for t in admitted.tools.values()]
    cited = [(id, facts(id)) for id in admitted.action.facts_of]
    try:
        return build(
            admitted.action,
            admitted.kind,
            episodes,
            specs,
            room=admitted.room,
            nonce=nonce,
            cited=cited,
            memory=recall(admitted.action.slates, slates),
            reviews=admitted.reviews,
        )
    except BriefTooLarge as e:
        hint = "shorten it, cite fewer episodes or slates, or set fit=True to drop the oldest"
        raise DispatchError.of(
            "brief_too_large",
            f"the brief takes about {e.brief.tokens} tokens and {admitted.grant.route} leaves room for {e.room} "
            f"({e.table}): {hint}",
        ) from e


def _pending(action: Action, grounds: Grounds, labels: Collection[str]) -> tuple[str, ...]:
    """What it waits for: threads that exist and have not ended well, and actions of its batch."""
    known = (id for id in dict.fromkeys(action.after) if id in labels or grounds.is_thread(id))
    return tuple(id for id in known if id in labels or not grounds.succeeded(id))


def room_of(grant: Grant) -> tuple[int | None, int | None]:
    """Tokens that a prompt may take on a route, and tokens kept for one answer; None where they are unknown."""
    window, most = grant.capabilities.window, grant.capabilities.max_output
    if window is None:
        return None, most
    reserved = min(most or int(window * OUTPUT_SHARE), window // 2)
    return window - reserved, reserved

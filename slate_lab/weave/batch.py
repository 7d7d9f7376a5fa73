"""Several actions dispatched at once, which may wait for each other and cite each other before they have ids.

In: actions whose `after` and `context` may name actions of the same list: by `#1`, `#2`, ... (their place) or by a name
that only one of them has. Out: a `BatchPlan` with every such word as `#N`, an order in which each stands behind what it
waits for, and what is wrong. Pure; called by the dispatcher, before anything is stored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

from msgspec import Struct
from msgspec.structs import replace

from slate_lab.errors import Problem
from slate_lab.records import Action, episode_id, is_episode_id, is_thread_id
from slate_lab.weave.claims import held

__all__ = ["BatchPlan", "plan_batch", "told", "with_ids"]

_PLACE = re.compile(r"#[1-9][0-9]{0,5}", re.ASCII)


class BatchPlan(Struct, frozen=True, kw_only=True):
    """Actions that know each other by `#N`.

    Attributes:
        actions: in the order given.
        order: indexes, each behind those it waits for.
        labels: `#1` ... of all.
        problems: per action.
    """

    actions: tuple[Action, ...]
    order: tuple[int, ...]
    labels: frozenset[str]
    problems: tuple[tuple[Problem, ...], ...]


def plan_batch(actions: Sequence[Action]) -> BatchPlan:
    """Names to places, places to an order; a circle, a name of two actions and claims that meet are problems."""
    if len(actions) == 1 and not any(_is_own(word, actions[0]) for word in (*actions[0].after, *actions[0].context)):
        return BatchPlan(actions=tuple(actions), order=(0,), labels=frozenset(), problems=((),))
    names: dict[str, list[int]] = {}
    for i, action in enumerate(actions):
        if action.name:
            names.setdefault(action.name, []).append(i)
    labels = frozenset(_label(i) for i in range(len(actions)))
    problems: list[list[Problem]] = [[] for _ in actions]
    read = [_read(action, names, problems[i]) for i, action in enumerate(actions)]
    edges = {i: [int(w[1:]) - 1 for w in action.after if w in labels] for i, action in enumerate(read)}
    try:
        order = tuple(_ordered(edges))
    except CycleError as e:
        circle = [int(i) for i in e.args[1]]
        text = " after ".join(_label(i) for i in reversed(circle))
        for i in set(circle):
            problems[i].append(Problem("cycle", f"it would wait for itself: {text}"))
        order = tuple(range(len(actions)))
    else:
        _check_claims(read, edges, order, problems)
    return BatchPlan(actions=tuple(read), order=order, labels=labels, problems=tuple(map(tuple, problems)))


def with_ids(action: Action, ids: Mapping[str, str]) -> Action:
    """`action` with the ids that its labels were given."""
    after = tuple(ids.get(word, word) for word in action.after)
    context = tuple(episode_id(ids[word]) if word in ids else word for word in action.context)
    return replace(action, after=after, context=context)


def told(problems: Sequence[Problem], index: int, actions: Sequence[Action]) -> list[Problem]:
    """The problems of one action, with which one of several it is."""
    if len(actions) == 1:
        return list(problems)
    name = actions[index].name
    who = f"action {_label(index)}" + (f" ({name})" if name else "")
    return [Problem(p.code, f"{who}: {p.message}", p.place) for p in problems]


def _read(action: Action, names: Mapping[str, list[int]], problems: list[Problem]) -> Action:
    after = [_place(word, names, problems) for word in action.after]
    context = [_place(word, names, problems) for word in action.context]
    cited = [word for word in dict.fromkeys(context) if _is_label(word) and word not in after]
    return replace(action, after=(*after, *cited), context=tuple(context))


def _place(word: str, names: Mapping[str, list[int]], problems: list[Problem]) -> str:
    """`#N` for the name of an action; ids, places and unknown words stay as they are."""
    if is_thread_id(word) or is_episode_id(word) or _is_label(word):
        return word
    places = names.get(word, [])
    if len(places) > 1:
        several = ", ".join(_label(i) for i in places)
        problems.append(Problem("duplicate_name", f"{word!r} is the name of {several}: say which by its place"))
    return _label(places[0]) if places else word


def _is_own(word: str, action: Action) -> bool:
    return _is_label(word) or word == action.name


def _is_label(word: str) -> bool:
    return _PLACE.fullmatch(word) is not None


def _label(index: int) -> str:
    return f"#{index + 1}"


def _ordered(edges: Mapping[int, Sequence[int]]) -> list[int]:
    """The places, first come first, each behind what it waits for."""
    sorter = TopologicalSorter(edges)
    sorter.prepare()
    order: list[int] = []
    ready: list[int] = []
    while sorter.is_active():
        for place in sorter.get_ready():
            heappush(ready, place)
        order.append(heappop(ready))
        sorter.done(order[-1])
    return order


def _check_claims(
    actions: Sequence[Action],
    edges: Mapping[int, Sequence[int]],
    order: Sequence[int],
    problems: Sequence[list[Problem]],
) -> None:
    """Actions that may run together must not claim the same paths."""
    if not any(action.claims for action in actions):
        return
    before: dict[int, set[int]] = {}
    for i in order:
        before[i] = set(edges[i]).union(*(before[j] for j in edges[i]))
    for i, action in enumerate(actions):
        others = {
            f"action {_label(j)}": other.claims
            for j, other in enumerate(actions[:i])
            if other.claims and j not in before[i] and i not in before[j]
        }
        problems[i].extend(held(action.claims, others))

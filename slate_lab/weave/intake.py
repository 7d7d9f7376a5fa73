"""From what a person writes in Python to an action: episodes or ids, a mapping or `Limits`, one word or a list.

Everything is checked strictly once; what is wrong is a `DispatchError` with what was expected, never a raw error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from slate_lab.errors import DispatchError, Problem
from slate_lab.records import Action, Episode, Limits, Thread, episode_id, is_episode_id, is_thread_id, near, thread_of
from slate_lab.weave.retired import retired

__all__ = ["action_of", "again", "limits_from", "read_action"]

_LISTS = ("slates", "tools", "after", "claims", "review_perspectives", "facts_of")
_OPTIONS = tuple(name for name in Action.__struct_fields__ if name != "task")
_UNREAD = "?"
MAX_CITED = 4
"""Threads whose facts a chain of retries still cites: the newest."""


def read_action(task: str, options: Mapping[str, Any]) -> tuple[Action, list[Problem]]:
    """The action as far as it can be read, and everything that is wrong with the way it is written.

    Options are the fields of `Action`; None means its default. Retired names come first among the problems
    (`retired_argument`, with what to write instead), then options that do not exist and values of the wrong type
    (`bad_argument`).
    """
    old = [problem for name in options if name not in _OPTIONS and (problem := retired(name))]
    problems = [_unknown(name) for name in options if name not in _OPTIONS and not retired(name)]
    given: dict[str, Any] = {"task": _UNREAD}
    for name, value in {"task": task, **options}.items():
        if name == "task" or (name in _OPTIONS and value is not None):
            try:
                plain = _plain(name, value)
                msgspec.convert({"task": _UNREAD, name: plain}, Action)
                given[name] = plain
            except msgspec.ValidationError as e:
                problems.append(Problem("bad_argument", f"the action cannot be read: {e}"))
            except DispatchError as e:
                problems += e.problems
    return msgspec.convert(given, Action), old + problems


def action_of(task: str, **options: Any) -> Action:
    """The action, where nothing is wrong with the way it is written.

    Raises:
        DispatchError: every problem of `read_action`.
    """
    action, problems = read_action(task, options)
    if problems:
        raise DispatchError(problems)
    return action


def again(thread: Thread, changes: Mapping[str, Any]) -> tuple[Action, list[Problem]]:
    """The action of a thread once more, with `changes`, citing the facts of the old thread; and what is wrong with it.

    What the old one had to wait for is not waited for again.
    """
    old = {name: getattr(thread.action, name) for name in Action.__struct_fields__}
    cited = tuple(id for id in thread.action.facts_of if id != thread.id)[-MAX_CITED + 1 :]
    options = {**old, "after": (), "facts_of": (*cited, thread.id), **changes}
    return read_action(options.pop("task"), options)


def _plain(name: str, value: Any) -> Any:
    """The value of one option in the one form that a record takes."""
    if name == "context":
        return _context(value)
    if name == "limits":
        return _limits(value)
    if name == "variables" and isinstance(value, Mapping):
        return {key: str(text) for key, text in value.items()}
    if name == "facts_of":
        words = _words(value)
        return tuple(_thread(word) for word in words) if isinstance(words, tuple) else words
    return _words(value) if name in _LISTS else value


def _thread(item: Any) -> Any:
    """The id of a thread; an episode, or its id, stands for its thread."""
    if isinstance(item, Episode):
        return item.thread
    return thread_of(item) if isinstance(item, str) and is_episode_id(item) else item


def _unknown(name: str) -> Problem:
    close = near(name, _OPTIONS)
    hint = f"did you mean {close[0]}?" if close else f"the options are {', '.join(_OPTIONS)}"
    return Problem("bad_argument", f"there is no option {name!r}: {hint}")


def _words(value: Any) -> Any:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, Iterable) else value


def _context(value: Any) -> Any:
    items = _words((value,) if isinstance(value, Episode) else value)
    return tuple(_episode(i) for i in items) if isinstance(items, tuple) else items


def _episode(item: Any) -> Any:
    """The id of an episode; a thread's id stands for its episode."""
    if isinstance(item, Episode):
        return item.id
    return episode_id(item) if isinstance(item, str) and is_thread_id(item) else item


def _limits(value: Any) -> Any:
    """A mapping or `Limits`; dollars may be written as a number."""
    found = msgspec.structs.asdict(value) if isinstance(value, Limits) else value
    if not isinstance(found, Mapping):
        return found
    problems = [_unknown_limit(name) for name in found if name not in Limits.__struct_fields__]
    if problems:
        raise DispatchError(problems)
    usd = found.get("usd")
    number = isinstance(usd, int | float) and not isinstance(usd, bool)
    return {**found, "usd": Decimal(str(usd))} if number else dict(found)


def limits_from(value: Mapping[str, Any] | Limits) -> Limits:
    """The limits that a mapping names.

    Raises:
        DispatchError: there is no such limit, or its value has the wrong type.
    """
    try:
        return msgspec.convert(_limits(value), Limits)
    except msgspec.ValidationError as e:
        raise DispatchError.of("bad_argument", f"the limits cannot be read: {e}") from e


def _unknown_limit(name: Any) -> Problem:
    return Problem("bad_argument", f"there is no limit {name!r}: the limits are {', '.join(Limits.__struct_fields__)}")

"""From what a person writes in Python to an action: episodes or ids, a mapping or `Limits`, one word or a list.

Everything is checked strictly once; what is wrong is a `DispatchError` with what was expected, never a raw error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from slate_lab.errors import DispatchError, Problem
from slate_lab.records import Action, Episode, Limits, episode_id, is_thread_id, near

__all__ = ["action_of"]

_LISTS = ("slates", "tools", "after", "claims", "review_perspectives")
_OPTIONS = tuple(name for name in Action.__struct_fields__ if name != "task")


def action_of(task: str, **options: Any) -> Action:
    """The action; options are the fields of `Action`, and None means its default.

    Raises:
        DispatchError: `bad_argument`, an option that does not exist (near names listed) or has the wrong type.
    """
    problems = [_unknown(name) for name in options if name not in _OPTIONS]
    if problems:
        raise DispatchError(problems)
    given = {name: value for name, value in options.items() if value is not None}
    given["context"] = _context(given.get("context", ()))
    if "limits" in given:
        given["limits"] = _limits(given["limits"])
    for name in _LISTS:
        if name in given:
            given[name] = _words(given[name])
    if isinstance(given.get("variables"), Mapping):
        given["variables"] = {name: str(value) for name, value in given["variables"].items()}
    try:
        return msgspec.convert({"task": task, **given}, Action)
    except msgspec.ValidationError as e:
        raise DispatchError.of("bad_argument", f"the action cannot be read: {e}") from e


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


def _unknown_limit(name: Any) -> Problem:
    return Problem("bad_argument", f"there is no limit {name!r}: the limits are {', '.join(Limits.__struct_fields__)}")

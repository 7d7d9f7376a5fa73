"""Values of options: ids (also from variables that hold an episode), limits, and notebook variables as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from slate_lab.records import Action, Episode, Limits, Thread, episode_id, is_episode_id, is_thread_id, near, thread_of
from slate_lab.verbs.door import Handle
from slate_lab.verbs.parser import Asked
from slate_lab.verbs.table import LIMITS
from slate_lab.verbs.words import WrongUsage

__all__ = [
    "VARIABLE_CHARS",
    "action_of",
    "body_of",
    "changes_of",
    "episode_ids",
    "fill",
    "limits",
    "rendered",
    "thread_ids",
    "variable",
    "whole",
]

VARIABLE_CHARS = 20_000
"""Characters of one notebook variable that enter a brief."""

_FRAME_ROWS = 60
_LIMIT_FIELDS = {"turns": "turns", "tokens": "tokens", "toolCalls": "tool_calls", "seconds": "seconds", "usd": "usd"}


def action_of(asked: Asked, *, body: str | None, names: Mapping[str, Any]) -> Action:
    """The action that `thread` asks for.

    Args:
        body: the body of the cell, None for the line form; one newline at its end is the cell's, not the task's.
        names: the notebook's variables.

    Raises:
        WrongUsage: no task or two, an unknown variable, a wrong id or limit.
    """
    task = body_of(asked, body)
    if asked["fill"]:
        task = fill(task, asked["fill"], names)
    tools = asked["tools"]
    return Action(
        task=task,
        name=asked["name"],
        type=asked["type"] or "general",
        context=tuple(episode_ids(asked["context"] or (), names)),
        slates=tuple(asked["slate"] or ()),
        variables={name.lstrip("$"): rendered(variable(name, names)) for name in asked["var"] or ()},
        model=asked["model"],
        reason=asked["reason"],
        tools=None if tools is None else () if tools == ["none"] else tuple(tools),
        limits=limits(asked["limit"] or ()),
        after=tuple(thread_ids(asked["after"] or (), names)),
        facts_of=tuple(thread_ids(asked["facts_of"] or (), names)),
        claims=tuple(asked["claim"] or ()),
        review_perspectives=tuple(asked["review"] or ()),
        track=asked["track"],
        fit=bool(asked["fit"]),
    )


def changes_of(asked: Asked) -> dict[str, Any]:
    """What `retry` does otherwise than the old thread: its options that were given."""
    changes: dict[str, Any] = {"model": asked["model"]} if asked["model"] else {}
    return changes | ({"limits": limits(asked["limit"])} if asked["limit"] else {})


def body_of(asked: Asked, body: str | None) -> str:
    """The text of a command that takes one, from the line or from the body of the cell.

    Raises:
        WrongUsage: it is missing, or stands in both.
    """
    name, what = asked.command.name, asked.command.body
    given = asked[what]
    if body is None:
        if given is None:
            said = 'thread "what is asked"' if name == "thread" else f'{name} ... "{what}"'
            raise WrongUsage(f"{name} needs a {what}: {said}, or a cell body under %%slate {name}")
        return str(given)
    if given is not None:
        raise WrongUsage(f"the {what} stands twice, on the line and in the body of the cell: keep one of them")
    return body.removesuffix("\n").removesuffix("\r") if body.endswith("\r\n") else body.removesuffix("\n")


def whole(text: str, option: str) -> int:
    """A whole number above 0."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise WrongUsage(f"{option} {text}: give a whole number above 0")
    return int(text)


def episode_ids(words: Iterable[str], names: Mapping[str, Any]) -> list[str]:
    """Episode ids of words: ids, or variables holding episodes, threads, handles, ids or lists of them."""
    found = []
    for id in _ids(words, names, wanted="an episode"):
        found.append(id if is_episode_id(id) else episode_id(id))
    return found


def thread_ids(words: Iterable[str], names: Mapping[str, Any]) -> list[str]:
    """Thread ids of words that are ids, episode ids, or variables as in `episode_ids`."""
    return [thread_of(id) for id in _ids(words, names, wanted="a thread")]


def _ids(words: Iterable[str], names: Mapping[str, Any], *, wanted: str) -> Iterable[str]:
    for word in words:
        if is_episode_id(word) or is_thread_id(word):
            yield word
            continue
        value = names.get(word.removeprefix("$"))
        held = list(_held(value))
        if not held or None in held:
            raise WrongUsage(f"`{word}` is no id and no variable that holds {wanted}: ids look like t3 or t3.e1")
        yield from (id for id in held if id)


def _held(value: Any) -> Iterable[str | None]:
    """Ids of a value; None for something that has none."""
    if isinstance(value, Episode | Thread):
        yield value.id
    elif isinstance(value, str):
        yield value if is_episode_id(value) or is_thread_id(value) else None
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _held(item)
    else:
        yield value.id if isinstance(value, Handle) else None


def limits(items: Sequence[str]) -> Limits:
    """`["usd=0.05", "turns=8"]` as limits; also `tool_calls` for `toolCalls`."""
    values: dict[str, Any] = {}
    for item in items:
        key, equals, text = item.partition("=")
        field = _LIMIT_FIELDS.get(key) or (key if key in _LIMIT_FIELDS.values() else None)
        if field is None or not equals:
            close = near(key, LIMITS)
            hint = (
                f", did you mean `{close[0]}=`?"
                if close and close[0] != key
                else f": write KEY=N, KEY one of {', '.join(LIMITS)}"
            )
            raise WrongUsage(f"`{item}` is no limit{hint}")
        if field in values:
            raise WrongUsage(f"the limit {key} stands twice")
        values[field] = _amount(field, text, item)
    return Limits(**values)


def _amount(field: str, text: str, item: str) -> int | float | Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal(0)
    whole = field not in ("seconds", "usd")
    if not number.is_finite() or number <= 0 or (whole and number != number.to_integral_value()):
        raise WrongUsage(f"`{item}`: the value must be a {'whole ' if whole else ''}number above 0")
    if field == "usd":
        return number
    return int(number) if whole else float(number)


def variable(name: str, names: Mapping[str, Any]) -> Any:
    """The value of a notebook variable; `$name` is the same as `name`.

    Raises:
        WrongUsage: there is none of that name; near ones are listed.
    """
    plain = name.removeprefix("$")
    if plain in names:
        return names[plain]
    close = near(plain, [n for n in names if not n.startswith("_")])
    hint = f", did you mean {' or '.join(close)}?" if close else ""
    raise WrongUsage(f"there is no variable `{plain}` in the notebook{hint}")


def rendered(value: Any, *, chars: int = VARIABLE_CHARS) -> str:
    """A value as text of about `chars` characters at most: text as it is, a frame as a table, else its repr."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, Episode):
        text = value.to_markdown()
    elif callable(getattr(value, "to_string", None)) and hasattr(value, "shape"):
        text = _frame(value)
    else:
        text = repr(value)
    if len(text) <= chars:
        return text
    return f"{text[:chars]}\n[... {len(text) - chars:,} more characters left out]"


def _frame(value: Any) -> str:
    rows = int(value.shape[0])
    size = " x ".join(f"{n:,}" for n in value.shape)
    some = f", the first and last of {rows:,} rows" if rows > _FRAME_ROWS else ""
    return f"{type(value).__name__}, {size}{some}\n{value.to_string(max_rows=_FRAME_ROWS)}"


def fill(task: str, words: Sequence[str], names: Mapping[str, Any]) -> str:
    """`task` with `{name}` replaced by the variable's text, in one pass: what is inserted is not looked at again.

    Raises:
        WrongUsage: an unknown variable, or no `{name}` in the task.
    """
    texts = {word.removeprefix("$"): rendered(variable(word, names)) for word in words}
    for name in texts:
        if f"{{{name}}}" not in task:
            raise WrongUsage(f"--fill {name}: the task has no {{{name}}}")
    pattern = "|".join(re.escape(name) for name in texts)
    return re.sub(rf"\{{({pattern})\}}", lambda m: texts[m.group(1)], task)

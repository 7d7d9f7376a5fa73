"""Pydantic's errors in the project's words: what is wrong, at which key, and the nearest key that exists.

In: a `ValidationError` and the places of the keys. Out: `Problem`s in the order of the file. Called by `load`.
"""

from __future__ import annotations

import typing
from collections.abc import Callable

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from slate_lab.config.nodes import Path, Plain
from slate_lab.config.schema import LabConfig
from slate_lab.config.values import shown
from slate_lab.errors import Place, Problem
from slate_lab.records import near

__all__ = ["problems_of"]

_EXPECTED = {
    "model_type": "expected keys and values",
    "dict_type": "expected keys and values",
    "list_type": "expected a list",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "too_short": "must hold at least one entry",
}


def problems_of(error: ValidationError, place: Callable[[Path], Place]) -> list[Problem]:
    """One problem per error; `place` finds the file and line of a key path."""
    return [_problem(details, place) for details in error.errors(include_url=False)]


def _problem(details: ErrorDetails, place: Callable[[Path], Place]) -> Problem:
    kind, path = details["type"], tuple(part for part in details["loc"] if part != "[key]")
    if kind == "extra_forbidden":
        return Problem("unknown_key", _unknown(path), place(path))
    if kind == "missing":
        return Problem("missing_key_in_file", f"the key {path[-1]} is missing", place(path))
    if kind == "literal_error":
        return Problem("wrong_value", _not_a_word(details), place(path))
    context = details.get("ctx") or {}
    if kind == "value_error":
        return Problem("wrong_value", str(context["error"]), place(path))
    message = _EXPECTED.get(kind)
    if message is None:
        return Problem("wrong_value", details["msg"], place(path))
    found = f", found {shown(details['input'])}" if kind.endswith("_type") else ""
    return Problem("wrong_value", message.format(**context) + found, place(path))


def _unknown(path: Path) -> str:
    known = _keys_at(path[:-1])
    close = near(str(path[-1]), known, limit=1)
    if close:
        return f"unknown key; did you mean {close[0]}?"
    return f"unknown key; known here: {', '.join(known)}" if known else "unknown key"


def _not_a_word(details: ErrorDetails) -> str:
    expected = str((details.get("ctx") or {}).get("expected", ""))
    words = expected.replace("'", "").replace(" or ", ", ")
    return f"expected one of {words}, found {shown(Plain(details['input']))}"


def _keys_at(path: Path) -> list[str]:
    """The keys that the table at `path` may hold."""
    here: typing.Any = LabConfig
    for part in path:
        spec = _spec_in(here)
        if spec is None:
            here = _inner(here)
        else:
            fields = {f.alias or name: f.annotation for name, f in spec.model_fields.items()}
            here = fields.get(str(part))
    spec = _spec_in(here)
    return [] if spec is None else [f.alias or name for name, f in spec.model_fields.items()]


def _spec_in(annotation: typing.Any) -> type[BaseModel] | None:
    """The table type behind `X` or `X | None`."""
    for candidate in (annotation, *typing.get_args(annotation)):
        if (
            isinstance(candidate, type)
            and issubclass(candidate, BaseModel)
            and typing.get_origin(annotation) not in (dict, list)
        ):
            return candidate
    return None


def _inner(annotation: typing.Any) -> typing.Any:
    """What a list or dict holds, also behind `| None`."""
    for candidate in (annotation, *typing.get_args(annotation)):
        if typing.get_origin(candidate) in (dict, list):
            return typing.get_args(candidate)[-1]
    return None

"""`slot.yaml`: the eight fields of a slot, read strictly.

In: the file. Out: a `Manifest` and every problem with file and line. Called by `surface`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal, cast, get_args

from msgspec import Struct

from slate_lab.config.nodes import Node
from slate_lab.config.values import shown
from slate_lab.errors import Problem
from slate_lab.records import near
from slate_lab.slots.strict import Sheet, read_texts, read_words, resolved

__all__ = ["LEGACY", "FailurePolicy", "HistoryPolicy", "Manifest", "read_manifest"]

FailurePolicy = Literal["soft", "hard"]
HistoryPolicy = Literal["persist", "model_hidden", "transient"]

LEGACY = {
    "run": "entrypoint",
    "failure": "failure_policy",
    "timeout": "timeout_seconds",
    "history": "history_policy",
    "placement": "default_placement",
    "schema": "input_schema",
}
"""Names of old or of other systems, and the field that is meant."""


class Manifest(Struct, frozen=True, kw_only=True):
    """What a slot declares.

    Attributes:
        entrypoint: `module:function` relative to the slot, or a Python file relative to the project and a function.
        description: for inspection and docs.
        input_schema: authored metadata.
        capabilities: what it asks for; `*` at the end stands for any rest.
        timeout_seconds: metadata, enforced only where the project says so.
        failure_policy: `soft` logs and continues, `hard` ends the turn.
        default_placement: metadata of legacy context contributions.
        history_policy: the default for what the slot sends.
    """

    entrypoint: str = "module:process"
    description: str = ""
    input_schema: dict[str, Any] = {}
    capabilities: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    failure_policy: FailurePolicy = "soft"
    default_placement: str = "pre_current_user"
    history_policy: HistoryPolicy = "persist"


_DEFAULT = Manifest()


def read_manifest(file: Path) -> tuple[Manifest, list[Problem]]:
    """The manifest in `file`, and everything wrong with it; a field that is wrong has its default."""
    sheet = Sheet(file)
    for key, line in sheet.keys.items():
        if key not in Manifest.__struct_fields__:
            code = "legacy_field" if key in LEGACY else "unknown_field"
            sheet.problem(code, _unknown(key), line, key)
    manifest = Manifest(
        entrypoint=sheet.field("entrypoint", read_words, _DEFAULT.entrypoint),
        description=sheet.field("description", read_words, ""),
        input_schema=sheet.field("input_schema", _read_table, {}),
        capabilities=sheet.field("capabilities", _read_capabilities, ()),
        timeout_seconds=sheet.field("timeout_seconds", _read_seconds, None),
        failure_policy=cast(FailurePolicy, sheet.field("failure_policy", _read_failure, "soft")),
        default_placement=sheet.field("default_placement", read_words, _DEFAULT.default_placement),
        history_policy=cast(HistoryPolicy, sheet.field("history_policy", _read_history, "persist")),
    )
    return manifest, sheet.problems


def _unknown(key: str) -> str:
    if key in LEGACY:
        return f"`{key}` is not accepted: the field is {LEGACY[key]}"
    close = near(key, Manifest.__struct_fields__, limit=1)
    hint = f"did you mean {close[0]}?" if close else f"the fields are {', '.join(Manifest.__struct_fields__)}"
    return f"unknown field; {hint}"


def _read_table(node: Node) -> dict[str, Any]:
    if not isinstance(node.value, dict):
        raise ValueError(f"expected keys and values, found {shown(node.value)}")
    return cast("dict[str, Any]", resolved(node))


def _read_capabilities(node: Node) -> tuple[str, ...]:
    names = read_texts(node)
    for name in names:
        if not name or name != name.strip() or not name.isprintable() or "*" in name[:-1]:
            raise ValueError(f"{shown(name)} is no capability: no blank around it, and `*` only at its end")
    return names


def _read_seconds(node: Node) -> float | None:
    value = resolved(node)
    if value is None:
        return None
    if (
        ":" in str(node.value)
        or isinstance(value, bool)
        or not isinstance(value, int | float)
        or not (math.isfinite(value) and value > 0)
    ):
        raise ValueError(f"expected null or a number above 0, found {shown(node.value)}")
    return float(value)


def _read_failure(node: Node) -> str:
    return _one_of(node, get_args(FailurePolicy))


def _read_history(node: Node) -> str:
    return _one_of(node, get_args(HistoryPolicy))


def _one_of(node: Node, words: tuple[str, ...]) -> str:
    if not isinstance(node.value, str) or node.value not in words:
        raise ValueError(f"expected one of {', '.join(words)}, found {shown(node.value)}")
    return "".join(node.value)

"""What of a project's configuration counts although it is held back: whatever only takes rights away from workers.

In: the values of the project's file as they were read. Out: the part that asks for approvals, demands a sandbox, or
gives a built-in type fewer tools. Pure. Called by `trust`. Without it, a worker that changes one file of a trusted
project would rid the next opening of the person's own bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["narrowing"]

_LOOK = frozenset({"read", "grep", "find", "ls", "episode_facts"})
_WRITE = _LOOK | {"write", "edit", "bash", "python"}
_HAS = {"general": _WRITE, "implementer": _WRITE, "researcher": _LOOK, "reviewer": _LOOK, "adversarial": _LOOK}
"""The tools of the built-in types: a list of fewer narrows."""


def narrowing(values: Mapping[str, Any]) -> dict[str, Any]:
    """The part of `values` that narrows what workers may do; what is not of the right shape is left out."""
    tools, types = values.get("tools"), values.get("threadTypes")
    found = {"tools": _tools(tools) if isinstance(tools, Mapping) else {}}
    if isinstance(types, Mapping):
        found["threadTypes"] = {n: of for n, spec in types.items() if (of := _type(n, spec))}
    return {key: value for key, value in found.items() if value}


def _tools(values: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: values[key] for key in ("approve",) if isinstance(values.get(key), list)}
    return kept | ({"sandbox": values["sandbox"]} if str(values.get("sandbox")) == "require" else {})


def _type(name: str, spec: Any) -> dict[str, Any]:
    if name not in (*_HAS, "query") or not isinstance(spec, Mapping):
        return {}
    kept = {key: spec[key] for key in ("approve", "limits") if isinstance(spec.get(key), (list, Mapping))}
    tools = spec.get("tools")
    if name in _HAS and isinstance(tools, list):
        kept["tools"] = [tool for tool in tools if str(tool) in _HAS[name]]
    return kept

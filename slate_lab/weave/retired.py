"""Names of options that were given up, each with what to write instead. Data; read by `intake`."""

from __future__ import annotations

from slate_lab.errors import Problem

__all__ = ["RETIRED", "retired"]

RETIRED: dict[str, str] = {
    "prompt": "task",
    "goal": "task",
    "instructions": "task",
    "title": "name",
    "label": "name",
    "kind": "type",
    "thread_type": "type",
    "threadType": "type",
    "agent": "type",
    "role": "type",
    "episodes": "context",
    "context_ids": "context",
    "contextIds": "context",
    "refs": "context",
    "memory": "slates",
    "values": "variables",
    "logical_model": "model",
    "logicalModel": "model",
    "model_id": "model (a logical model names no provider)",
    "modelId": "model (a logical model names no provider)",
    "provider": "model (its routes stand in slate.yaml)",
    "route": "model (its routes stand in slate.yaml)",
    "effort": "model (each logical model has its fixed effort)",
    "thinking": "model (each logical model has its fixed effort)",
    "thinking_level": "model (each logical model has its fixed effort)",
    "thinkingLevel": "model (each logical model has its fixed effort)",
    "why": "reason",
    "model_reason": "reason",
    "modelReason": "reason",
    "allowed_tools": "tools",
    "allowedTools": "tools",
    "max_turns": 'limits={"turns": N}',
    "max_tokens": 'limits={"tokens": N}',
    "timeout": 'limits={"seconds": N}',
    "budget": 'limits={"usd": N}',
    "max_cost": 'limits={"usd": N}',
    "depends_on": "after",
    "dependsOn": "after",
    "files": "claims",
    "paths": "claims",
    "perspectives": "review_perspectives",
    "focus": "review_perspectives",
    "reviewPerspectives": "review_perspectives",
}
"""Old name to what replaces it."""


def retired(name: str) -> Problem | None:
    """The problem with an option of that name, if it is a retired one."""
    now = RETIRED.get(name)
    return None if now is None else Problem("retired_argument", f"the option {name!r} is retired: write {now}")

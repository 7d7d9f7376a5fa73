"""From what a person writes in Python to an action: episodes or ids, a mapping or `Limits`, one word or a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slate_lab.records import Action, Episode, Limits

__all__ = ["action_of"]


def action_of(task: str, *, context: Any = (), limits: Any = None, **options: Any) -> Action:
    """The action; options are the fields of `Action`, and None means its default."""
    ids = [context] if isinstance(context, str | Episode) else list(context)
    if isinstance(limits, Mapping):
        limits = Limits(**limits)
    for name in ("slates", "tools", "after", "claims", "review_perspectives"):
        value = options.get(name)
        if value is not None:
            options[name] = (value,) if isinstance(value, str) else tuple(value)
    variables = {name: str(value) for name, value in (options.pop("variables", None) or {}).items()}
    return Action(
        task=task,
        context=tuple(c.id if isinstance(c, Episode) else str(c) for c in ids),
        limits=limits or Limits(),
        variables=variables,
        **{k: v for k, v in options.items() if v is not None},
    )

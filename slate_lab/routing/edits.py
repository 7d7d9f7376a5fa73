"""The pool edits of a project: include, add, replace, exclude, in that order; exclude wins last.

In: the shipped pool and the edits. Out: the resulting pool, and every problem found on the way. Pure. Called by the
policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from slate_lab.config import LogicalModelEdit, ModelsSpec
from slate_lab.records import near
from slate_lab.routing.logical import LogicalModel

__all__ = ["Report", "plan_pool"]

Report = Callable[[str, str, str], None]
"""Takes a code, a sentence, and the key path it is about."""


def plan_pool(shipped: Sequence[LogicalModel], edits: ModelsSpec, *, report: Report) -> dict[str, LogicalModel]:
    """The pool after the edits, in the shipped order with additions behind; problems go to `report`."""
    known = {model.model: model for model in shipped}
    pool = _included(known, edits, report)
    _add(pool, known, edits, report)
    _replace(pool, known, edits, report)
    for index, name in enumerate(edits.exclude):
        if pool.pop(name, None) is None and name not in known:
            report("unknown_model", _unknown(name, [*known, *pool]), f"models.exclude[{index}]")
    if not pool:
        report("empty_pool", "no logical model is left: include or add one", "models")
    return pool


def _included(known: dict[str, LogicalModel], edits: ModelsSpec, report: Report) -> dict[str, LogicalModel]:
    if edits.include is None:
        return dict(known)
    for index, name in enumerate(edits.include):
        path = f"models.include[{index}]"
        if name not in known:
            report("unknown_model", _unknown(name, known), path)
        elif name in edits.include[:index]:
            report("listed_twice", f"{name} stands twice", path)
    return {name: model for name, model in known.items() if name in edits.include}


def _add(pool: dict[str, LogicalModel], known: dict[str, LogicalModel], edits: ModelsSpec, report: Report) -> None:
    added: set[str] = set()
    for index, spec in enumerate(edits.add):
        path = f"models.add[{index}]"
        if spec.model in known:
            report("name_taken", f"{spec.model} is shipped: change it under models.replace", f"{path}.model")
        elif spec.model in added:
            report("name_taken", f"{spec.model} is added twice", f"{path}.model")
        else:
            pool[spec.model] = _checked(LogicalModel.from_spec(spec), path, report)
        added.add(spec.model)


def _replace(pool: dict[str, LogicalModel], known: dict[str, LogicalModel], edits: ModelsSpec, report: Report) -> None:
    for name, edit in edits.replace.items():
        path = f"models.replace.{name}"
        model = known.get(name)
        if model is None:
            added = any(spec.model == name for spec in edits.add)
            hint = f"{name} is the project's own: change it where it is added" if added else _unknown(name, known)
            report("unknown_model", hint, path)
            continue
        changed = _edited(model, edit, path, report)
        if name in pool:
            pool[name] = changed
        elif name not in edits.exclude:
            report("not_included", f"{name} is not in models.include, so replacing it has no effect", path)


def _edited(model: LogicalModel, edit: LogicalModelEdit, path: str, report: Report) -> LogicalModel:
    said = {field: getattr(edit, field) for field in edit.model_fields_set}
    nulls = sorted(field for field, value in said.items() if value is None)
    for field in nulls:
        report("missing_value", f"{field} has no value: leave it out to keep the shipped one", path)
    said = {field: value for field, value in said.items() if value is not None}
    if not said and not nulls:
        report("empty_edit", "nothing is replaced", path)
    if said.get("effort", model.effort) != model.effort and not {"capability_rating", "cost_rating"} <= said.keys():
        report("ratings_needed", "a new effort needs a new capabilityRating and a new costRating", f"{path}.effort")
    return _checked(msgspec.structs.replace(model, **said), path, report)


def _checked(model: LogicalModel, path: str, report: Report) -> LogicalModel:
    if model.preferred_provider not in model.providers:
        message = f"{model.preferred_provider} is not among its providers: {', '.join(model.providers)}"
        report("preferred_provider", message, f"{path}.preferredProvider")
    for field in ("guidelines", "cautions"):
        if not getattr(model, field).strip():
            report("blank", "must not be blank", f"{path}.{field}")
    for provider, exact in model.providers.items():
        if not exact.strip() or not exact.isprintable():
            report("blank", "expected the exact model id", f"{path}.providers.{provider}")
    return model


def _unknown(name: str, known: Sequence[str] | dict[str, LogicalModel]) -> str:
    names = list(known)
    close = near(name, names)
    hint = f"did you mean {', '.join(close)}?" if close else f"shipped: {', '.join(names)}"
    return f"there is no logical model {name}; {hint}"

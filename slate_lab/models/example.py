"""A small valid instance of a JSON Schema, always the same: what the scripted model answers where a schema is asked.

It covers what the lab's own schemas use: objects with required properties, arrays with `minItems`, strings with
`minLength`, numbers with bounds, enums, constants, `anyOf`/`oneOf`, `allOf` and local `$ref`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["instance_of"]


def instance_of(schema: Mapping[str, Any], *, root: Mapping[str, Any] | None = None) -> Any:
    """The instance: required properties alone, shortest arrays and strings, the first of each choice.

    Raises:
        ValueError: the schema uses a `$ref` that leads nowhere.
    """
    root = schema if root is None else root
    if "$ref" in schema:
        return instance_of(_resolve(str(schema["$ref"]), root), root=root)
    for fixed in ("const", "default"):
        if fixed in schema:
            return schema[fixed]
    if schema.get("enum"):
        return schema["enum"][0]
    for choice in ("anyOf", "oneOf"):
        if schema.get(choice):
            return instance_of(schema[choice][0], root=root)
    if schema.get("allOf"):
        merged: dict[str, Any] = {}
        for part in schema["allOf"]:
            merged.update(_resolve(str(part["$ref"]), root) if "$ref" in part else part)
        return instance_of(merged, root=root)
    return _typed(schema, root)


def _typed(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = kind[0]
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: instance_of(properties.get(name, {}), root=root) for name in schema.get("required", ())}
    if kind == "array":
        return [instance_of(schema.get("items", {}), root=root) for _ in range(schema.get("minItems", 0))]
    if kind == "string":
        return "scripted".ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength", 8192)]
    if kind in ("integer", "number"):
        return _number(schema)
    return {"boolean": False, "null": None}.get(kind)


def _number(schema: Mapping[str, Any]) -> Any:
    if "minimum" in schema:
        return schema["minimum"]
    if "exclusiveMinimum" in schema:
        return schema["exclusiveMinimum"] + 1
    return min(0, schema.get("maximum", 0))


def _resolve(ref: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = root
    for part in ref.removeprefix("#/").split("/"):
        if not isinstance(found, Mapping) or part not in found:
            raise ValueError(f"the schema's $ref {ref!r} leads nowhere")
        found = found[part]
    return found if isinstance(found, Mapping) else {}

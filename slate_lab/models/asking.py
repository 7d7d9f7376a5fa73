"""What a request may ask of a route, the same for every protocol. Pure.

In: a `Request`, the model's id, what the route can do. Out: nothing, or the `ModelError` that names what cannot be
asked. Called by the modules that write request bodies.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from slate_lab.errors import ModelError
from slate_lab.models.protocol import Capabilities
from slate_lab.records import Request, ToolCall

__all__ = ["is_strict", "require_able", "thinks", "written_arguments"]


def require_able(request: Request, model_id: str, capabilities: Capabilities, *, seeds: bool = True) -> None:
    """Refuse what the route cannot do.

    Args:
        request: what is asked.
        model_id: the model, for the message.
        capabilities: what the route can do.
        seeds: the protocol knows a seed.

    Raises:
        ModelError: `bad-request`.
    """
    if any(not isinstance(message.text, str) for message in request.messages):
        raise ModelError("bad-request", "only text is sent to models here, no images: give what they show in words")
    if request.tools and not capabilities.tools:
        raise ModelError("bad-request", f"{model_id} calls no tools; offer none, or declare `tools: true` for it")
    if request.schema is not None and not capabilities.schema:
        raise ModelError("bad-request", f"{model_id} cannot be held to a JSON Schema; ask for text instead")
    if request.effort not in (None, "off", *capabilities.efforts):
        known = ", ".join(capabilities.efforts) or "none"
        raise ModelError("bad-request", f"{model_id} has no effort {request.effort!r}; it has: {known}")
    if request.seed is not None and not seeds:
        raise ModelError("bad-request", f"{model_id} takes no seed over this protocol; leave it out, or use chat")


def thinks(request: Request, capabilities: Capabilities) -> bool:
    """Whether the request asks for an effort that makes the model think."""
    return request.effort not in (None, "off") and request.effort in capabilities.efforts


def is_strict(schema: Any) -> bool:
    """Whether a schema follows the rules of strict mode: every object closed, and all its properties required."""
    if isinstance(schema, list):
        return all(is_strict(item) for item in schema)
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        closed = schema.get("additionalProperties") is False
        if not closed or set(schema.get("properties", {})) != set(schema.get("required", ())):
            return False
    return all(is_strict(value) for value in schema.values())


def written_arguments(call: ToolCall) -> str:
    """The arguments of a call as the JSON text that goes back to the model."""
    return json.dumps(call.arguments, ensure_ascii=False, separators=(",", ":"))

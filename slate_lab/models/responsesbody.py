"""The JSON body of a responses request, the same bytes for the same request.

In: a `Request`, the route and what it can do. Out: a plain dict in a fixed order. Pure. Called by the responses
protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slate_lab import tokens
from slate_lab.models.asking import is_strict, require_able, thinks, written_arguments
from slate_lab.models.carry import turn_parts
from slate_lab.models.protocol import Capabilities
from slate_lab.records import Message, Request, Route, ToolCall

__all__ = ["output_cap", "responses_body"]


def responses_body(request: Request, route: Route, *, capabilities: Capabilities, stream: bool) -> dict[str, Any]:
    """The body.

    Raises:
        ModelError: `bad-request`, the request asks for what the route cannot do.
    """
    require_able(request, route.model, capabilities, seeds=False)
    body: dict[str, Any] = {"model": route.model}
    if system := "\n\n".join(tokens.clean(m.text) for m in request.messages if m.role == "system" and m.text.strip()):
        body["instructions"] = system
    body["input"] = [item for message in request.messages for item in _items(message, route)]
    body["stream"] = stream
    body["store"] = False
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,  # the default would refuse optional arguments
            }
            for tool in request.tools
        ]
        if not capabilities.parallel_tools:
            body["parallel_tool_calls"] = False
    if request.schema is not None:
        form = {"name": "answer", "schema": request.schema, "strict": is_strict(request.schema)}
        body["text"] = {"format": {"type": "json_schema", **form}}
    if (cap := output_cap(request, capabilities)) is not None:
        body["max_output_tokens"] = cap
    if request.effort is not None and request.effort in capabilities.efforts:
        body["reasoning"] = {"effort": "none" if request.effort == "off" else request.effort}
    if capabilities.efforts and request.effort != "off":  # what it thought comes back sealed, for the next turn
        body["include"] = ["reasoning.encrypted_content"]
    if request.temperature is not None and not thinks(request, capabilities):  # models that think refuse any
        body["temperature"] = request.temperature
    return body


def output_cap(request: Request, capabilities: Capabilities) -> int | None:
    """The most tokens that the answer may have, None where nobody says."""
    return request.max_output_tokens or capabilities.max_output


def _items(message: Message, route: Route) -> Iterator[dict[str, Any]]:
    text = tokens.clean(message.text)
    if message.role == "tool":
        yield {"type": "function_call_output", "call_id": message.call_id or "", "output": text}
    elif message.role == "user":
        yield {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    elif message.role == "assistant":
        for part in turn_parts(message, route):
            yield _item(part)


def _item(part: dict[str, Any] | str | ToolCall) -> dict[str, Any]:
    if isinstance(part, ToolCall):
        arguments = written_arguments(part)
        return {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": arguments}
    if isinstance(part, str):
        content = [{"type": "output_text", "text": tokens.clean(part), "annotations": []}]
        return {"type": "message", "role": "assistant", "status": "completed", "content": content}
    return part

"""The JSON body of a chat completion request, the same bytes for the same request.

In: a `Request`, the model's id and what the route can do. Out: a plain dict in a fixed order. Pure. Called by the chat
protocol.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from slate_lab import tokens
from slate_lab.models.asking import is_strict, require_able, written_arguments
from slate_lab.models.protocol import Capabilities
from slate_lab.records import Message, Request, ToolCall

__all__ = ["Dialect", "chat_body", "dialect_of"]


class Dialect(Struct, frozen=True, kw_only=True):
    """Where servers of this protocol differ.

    Attributes:
        max_tokens: the name of the cap on the answer.
        hidden_reasoning: the reported total holds reasoning that no field names.
        says_one_call: it must be told to call one tool at a time; where it is not, it does so by itself.
    """

    max_tokens: str = "max_tokens"
    hidden_reasoning: bool = False
    says_one_call: bool = True


def dialect_of(host: str) -> Dialect:
    """The dialect spoken at a host; OpenAI's own newer models refuse `max_tokens`, nearly all others know only it."""
    if host == "api.openai.com" or host.endswith(".openai.azure.com"):
        return Dialect(max_tokens="max_completion_tokens")
    if host == "generativelanguage.googleapis.com":
        return Dialect(hidden_reasoning=True, says_one_call=False)  # refuses names it lacks
    if host == "embedded.invalid":
        return Dialect(says_one_call=False)
    return Dialect()


def chat_body(
    request: Request, model_id: str, *, capabilities: Capabilities, dialect: Dialect, stream: bool
) -> dict[str, Any]:
    """The body.

    Raises:
        ModelError: `bad-request`, the request asks for what the route cannot do.
    """
    require_able(request, model_id, capabilities)
    body: dict[str, Any] = {"model": model_id, "messages": [_message(m) for m in request.messages], "stream": stream}
    if stream and capabilities.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [
            {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
            for t in request.tools
        ]
        if dialect.says_one_call and not capabilities.parallel_tools:
            body["parallel_tool_calls"] = False
    if request.schema is not None:
        form = {"name": "answer", "schema": request.schema, "strict": is_strict(request.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    cap = request.max_output_tokens or capabilities.max_output
    if cap is not None:
        body[dialect.max_tokens] = cap
    if request.effort is not None and request.effort in capabilities.efforts:
        body["reasoning_effort"] = "none" if request.effort == "off" else request.effort
    for name in ("temperature", "seed"):
        value = getattr(request, name)
        if value is not None:
            body[name] = value
    return body


def _message(message: Message) -> dict[str, Any]:
    text = tokens.clean(message.text)
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id or "", "content": text}
    if message.calls:
        return {"role": message.role, "content": text or None, "tool_calls": [_call(call) for call in message.calls]}
    return {"role": message.role, "content": text}


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": written_arguments(call)}}

"""Sizes of requests and replies in tokens, estimated with the lab's own encoding: where no provider counted them."""

from __future__ import annotations

import msgspec

from slate_lab import tokens
from slate_lab.records import Reply, Request, ToolCall

__all__ = ["count_reply", "count_request"]

_MESSAGE = 4  # tokens that chat templates put around a message


def count_request(request: Request) -> int:
    """Tokens of a request: its messages with their tool calls, its tools and its schema."""
    total = sum(_MESSAGE + tokens.count(message.text) + _calls(message.calls) for message in request.messages)
    extra = [msgspec.to_builtins(tool) for tool in request.tools] + ([request.schema] if request.schema else [])
    return total + sum(tokens.count(_json(part)) for part in extra)


def count_reply(reply: Reply) -> int:
    """Tokens of a reply: its text and its tool calls."""
    return tokens.count(reply.text) + _calls(reply.calls)


def _calls(calls: tuple[ToolCall, ...]) -> int:
    return sum(tokens.count(call.name) + tokens.count(_json(call.arguments)) for call in calls)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()

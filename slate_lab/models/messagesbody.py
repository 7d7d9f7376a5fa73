"""The JSON body of a messages request, the same bytes for the same request.

In: a `Request`, the route and what it can do. Out: a plain dict in a fixed order. Pure. Called by the messages
protocol.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from slate_lab import tokens
from slate_lab.models.asking import require_able, thinks
from slate_lab.models.carry import turn_parts
from slate_lab.models.protocol import Capabilities
from slate_lab.records import Message, Request, Route, ToolCall

__all__ = ["BUDGETS", "OUTPUT", "Manner", "manner_of", "messages_body"]

OUTPUT = 8_192
"""The cap on an answer where neither the request nor the route knows one: this protocol must name it."""

BUDGETS = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 32_768, "max": 65_536}
"""Tokens of thinking for each effort, where thinking is given as a budget."""

_LEAST = 1_024  # tokens of thinking, and of the answer beside them
_BY_BUDGET = re.compile(r"claude-(?:2|3|instant|(?:opus|sonnet|haiku)-4(?:-[0-5])?(?:-20\d{6})?$)")
_UNBOUND = re.compile(r"claude-(?:opus|sonnet|haiku)-(?:4-[6-9]|5)(?:-20\d{6})?$")
_CACHE = {"type": "ephemeral"}


class Manner(Struct, frozen=True, kw_only=True):
    """Where servers of this protocol differ.

    Attributes:
        adaptive: thinking is asked for by an effort word; else by a budget of tokens.
        formats: a JSON Schema is given as the format of the answer; else as the one tool that must be called.
        caches: the beginning of a prompt is kept where it is marked.
        bound: what it thought is refused once anything before it has changed; here what is left of the limits is said
            anew with each turn, so it is not sent back.
    """

    adaptive: bool = False
    formats: bool = False
    caches: bool = False
    bound: bool = False


def manner_of(host: str, model_id: str) -> Manner:
    """How a model at a host is asked: Anthropic's own from Claude 4.6 on think adaptively, and keep to a format."""
    if host != "api.anthropic.com":
        return Manner()
    new = _BY_BUDGET.match(model_id) is None
    return Manner(adaptive=new, formats=new, caches=True, bound=new and _UNBOUND.match(model_id) is None)


def messages_body(
    request: Request, route: Route, *, capabilities: Capabilities, manner: Manner, stream: bool
) -> dict[str, Any]:
    """The body.

    Raises:
        ModelError: `bad-request`, the request asks for what the route cannot do.
    """
    require_able(request, route.model, capabilities, seeds=False)
    thinking = thinks(request, capabilities)
    cap = request.max_output_tokens or capabilities.max_output or OUTPUT
    body: dict[str, Any] = {"model": route.model, "max_tokens": cap}
    going_on = manner.caches and bool(request.tools)  # a conversation: what is sent now is sent again
    if system := "\n\n".join(tokens.clean(m.text) for m in request.messages if m.role == "system" and m.text.strip()):
        body["system"] = _cached([{"type": "text", "text": system}]) if going_on else system
    turns = _turns(request.messages, None if manner.bound else route)
    if going_on and turns:
        _cached(turns[-1]["content"])
    body["messages"] = turns
    body["stream"] = stream
    _tools(body, request, capabilities)
    if thinking:
        _think(body, str(request.effort), cap=cap, manner=manner)
    elif request.effort == "off" and "off" in capabilities.efforts:
        body["thinking"] = {"type": "disabled"}
    if request.temperature is not None and not thinking and not manner.adaptive:  # models that can think refuse any
        body["temperature"] = request.temperature
    if request.schema is not None:
        _hold(body, request.schema, manner=manner, free=thinking or bool(request.tools))
    return body


def _turns(messages: tuple[Message, ...], route: Route | None) -> list[dict[str, Any]]:
    """The turns, user and assistant by turns: results of tools are a user's, and neighbours are one."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        content = [] if message.role == "system" else _content(message, route)
        if not content:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += content
        else:
            turns.append({"role": role, "content": content})
    return turns


def _content(message: Message, route: Route | None) -> list[dict[str, Any]]:
    if message.role == "tool":
        text = tokens.clean(message.text)
        return [{"type": "tool_result", "tool_use_id": message.call_id or "", "content": text}]
    if message.role == "user":
        return _text(message.text)
    blocks: list[dict[str, Any]] = []
    for part in turn_parts(message, route):
        if isinstance(part, ToolCall):
            blocks.append({"type": "tool_use", "id": part.id, "name": part.name, "input": part.arguments})
        else:
            blocks += _text(part) if isinstance(part, str) else [part]
    return blocks


def _text(text: str) -> list[dict[str, Any]]:
    """A block of text; empty ones are refused by the protocol."""
    return [{"type": "text", "text": tokens.clean(text)}] if text.strip() else []


def _cached(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`blocks`, marked where they stay the same: after the last result of a tool, else at their end.

    What follows the results is said anew with every turn.
    """
    marked = ("tool_result",) if any(block["type"] == "tool_result" for block in blocks) else ("text",)
    for n in range(len(blocks) - 1, -1, -1):
        if blocks[n]["type"] in marked:
            blocks[n] = {**blocks[n], "cache_control": _CACHE}
            break
    return blocks


def _tools(body: dict[str, Any], request: Request, capabilities: Capabilities) -> None:
    if not request.tools:
        return
    body["tools"] = [
        {"name": t.name, "description": t.description, "input_schema": t.parameters} for t in request.tools
    ]
    if not capabilities.parallel_tools:
        body["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}


def _tool(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": schema}


def _think(body: dict[str, Any], effort: str, *, cap: int, manner: Manner) -> None:
    if manner.adaptive:
        body["thinking"] = {"type": "adaptive"}
        body["output_config"] = {"effort": "low" if effort == "minimal" else effort}
        return
    budget = min(BUDGETS[effort], max(cap - _LEAST, _LEAST))
    body["thinking"] = {"type": "enabled", "budget_tokens": budget}
    body["max_tokens"] = max(cap, budget + _LEAST)  # the cap counts thinking too, and must leave room for words


def _hold(body: dict[str, Any], schema: dict[str, Any], *, manner: Manner, free: bool) -> None:
    """Hold the answer to a schema: as its format, or as the input of the one tool that must be called (`ANSWER`)."""
    if manner.formats:
        body.setdefault("output_config", {})["format"] = {"type": "json_schema", "schema": schema}
        return
    body["tools"] = [*body.get("tools", ()), _tool(ANSWER, "Give the answer.", schema)]
    if not free:  # with thinking, or other tools, nothing may be forced
        body["tool_choice"] = {"type": "tool", "name": ANSWER}


ANSWER = "answer_as_json"
"""The tool whose input is the answer, where a server knows no formats; its call is read as text."""

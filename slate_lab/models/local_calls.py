"""Tool calls of the embedded model, made on the lab's side of the wire. Pure.

In: the body of a chat request that offers tools, and what the server answers. Out: a body the server's template
understands, and an answer with `tool_calls` in it. Called by the local transport.

Small models drop the marks that llama.cpp's parsers look for, and those then answer with an error. So the server only
writes text: held by a grammar to either one bare JSON object that fits a tool, or plain text; the object becomes a
tool call here, in streams too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from slate_lab.models.sse import Event, SseDecoder

__all__ = ["BareCall", "CallStream", "call_grammar", "plan_tool_request", "read_bare_calls", "with_tool_calls"]

_DECODER = json.JSONDecoder(strict=False)


class BareCall(Struct, frozen=True):
    """A call as the model wrote it: the tool's name, its arguments as a JSON text."""

    name: str
    arguments: str


def plan_tool_request(body: Mapping[str, Any], *, grammar: bool = True) -> dict[str, Any]:
    """The body as the server gets it: tools go to its template as `offered`, and to a grammar.

    A body without tools, or with `tool_choice: none`, keeps everything but those two.
    """
    planned = {k: v for k, v in body.items() if k not in ("tools", "tool_choice", "parallel_tool_calls")}
    tools = [t["function"] for t in body.get("tools") or ()] if body.get("tool_choice") != "none" else []
    if not tools:
        return planned
    given = planned.get("chat_template_kwargs") or {}
    planned["chat_template_kwargs"] = {**given, "offered": [_shown(tool) for tool in tools]}
    if grammar and "response_format" not in planned:
        planned["grammar"] = call_grammar(tools, required=body.get("tool_choice") == "required")
    return planned


def _shown(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool in the form its call has; without optional numbers and switches: small models fill in all they see."""
    parameters = tool.get("parameters") or {}
    required = set(parameters.get("required") or ())
    arguments = {}
    for name, schema in (parameters.get("properties") or {}).items():
        kind = schema.get("type")
        if name not in required and kind in ("integer", "number", "boolean"):
            continue
        note = schema.get("description") or kind or "any"
        arguments[name] = note if name in required else f"{note} (optional)"
    return {"name": tool["name"], "description": tool.get("description", ""), "arguments": arguments}


def call_grammar(tools: list[Mapping[str, Any]], *, required: bool = False) -> str:
    """A grammar (of llguidance) for one call that fits its tool's schema or, unless `required`, for plain text.

    Plain text is what begins with neither a brace, nor a fence, nor a tag.
    """
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": t["name"]}, "arguments": t.get("parameters") or {"type": "object"}},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for t in tools
    ]
    schema = json.dumps({"anyOf": calls}, separators=(",", ":"))
    rules = ["%llguidance {}", f"start: {'call' if required else 'call | text'}", f"call: %json {schema}"]
    return "\n".join(rules if required else [*rules, r"text: /[^{`<\s](.|\n)*/"])


def read_bare_calls(text: str) -> list[BareCall]:
    """The calls that a text consists of: JSON objects with `name` and `arguments`, one after another.

    A text that holds anything else is no call; then the list is empty.
    """
    rest, calls = text.strip(), []
    while rest:
        try:
            value, end = _DECODER.raw_decode(rest)
        except (ValueError, RecursionError):
            return []
        if not (
            isinstance(value, dict) and isinstance(value.get("name"), str) and value.keys() <= {"name", "arguments"}
        ):
            return []
        arguments = value.get("arguments") or {}
        if not isinstance(arguments, dict):
            return []
        calls.append(BareCall(value["name"], json.dumps(arguments, ensure_ascii=False)))
        rest = rest[end:].lstrip()
    return calls


def with_tool_calls(answer: bytes, *, first_id: int) -> bytes:
    """A whole answer's body, its bare calls as `tool_calls`; ids count on from `first_id`."""
    try:
        body = msgspec.json.decode(answer)
        choice = body["choices"][0]
        calls = read_bare_calls(choice["message"]["content"] or "")
    except (msgspec.DecodeError, LookupError, TypeError):
        return answer  # an error, told as it is
    if not calls:
        return answer
    choice["message"] = {**choice["message"], "content": None, "tool_calls": _wire(calls, first_id)}
    choice["finish_reason"] = "tool_calls"
    return msgspec.json.encode(body)


class CallStream:
    """A streamed answer, piece by piece: text passes at once, a text that begins like a call waits for its end.

    Args:
        first_id: the number of the first call's id, so that ids are the same whenever the request is.
    """

    def __init__(self, *, first_id: int) -> None:
        self._first_id = first_id
        self._decoder = SseDecoder()
        self._text = ""
        self._waiting: list[Event] = []
        self._passing = False

    def feed(self, chunk: bytes) -> bytes:
        """What can be passed on after `chunk`."""
        return b"".join(self._next(event) for event in self._decoder.feed(chunk))

    def close(self) -> bytes:
        """What is left when the stream ends."""
        tail = b"".join(self._next(event) for event in self._decoder.close())
        return tail + self._release()

    def _next(self, event: Event) -> bytes:
        if self._passing:
            return _event(event)
        piece, finish = _delta(event)
        self._text += piece
        begun = self._text.lstrip()
        if begun and not begun.startswith("{"):
            self._passing = True
            return self._release() + _event(event)
        if finish and (calls := read_bare_calls(self._text)):
            self._waiting.clear()
            self._passing = True
            return b"".join(_event((b"", msgspec.json.encode(d))) for d in self._calls(event, calls))
        if finish:
            self._passing = True
            return self._release() + _event(event)
        if piece:
            self._waiting.append(event)
            return b""
        return _event(event) if not self._waiting else self._hold(event)

    def _hold(self, event: Event) -> bytes:
        self._waiting.append(event)
        return b""

    def _release(self) -> bytes:
        held = b"".join(_event(event) for event in self._waiting)
        self._waiting.clear()
        return held

    def _calls(self, event: Event, calls: list[BareCall]) -> list[dict[str, Any]]:
        """The events that tell the calls: one with them, one with the end."""
        last = msgspec.json.decode(event[1])
        told = [{"index": n, **call} for n, call in enumerate(_wire(calls, self._first_id))]
        choice = last["choices"][0]
        opening = {k: v for k, v in last.items() if k not in ("usage", "timings")}
        opening["choices"] = [{**choice, "delta": {"tool_calls": told}, "finish_reason": None}]
        last["choices"] = [{**choice, "delta": {}, "finish_reason": "tool_calls"}]
        return [opening, last]


def _delta(event: Event) -> tuple[str, bool]:
    """The piece of text in an event, and whether it ends the answer."""
    try:
        choice = msgspec.json.decode(event[1])["choices"][0]
        return choice["delta"].get("content") or "", choice.get("finish_reason") is not None
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError):
        return "", False  # the end mark, usage, or an error


def _wire(calls: list[BareCall], first_id: int) -> list[dict[str, Any]]:
    return [
        {"id": f"call_{first_id + n}", "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
        for n, c in enumerate(calls)
    ]


def _event(event: Event) -> bytes:
    name, data = event
    head = b"event: " + name + b"\n" if name else b""
    return head + b"".join(b"data: " + line + b"\n" for line in data.split(b"\n")) + b"\n"

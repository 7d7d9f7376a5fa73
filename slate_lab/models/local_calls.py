"""Tool calls and schemas of the embedded model, made on the lab's side of the wire. Pure.

In: the body of a chat request, and what the server answers. Out: a body the server's template
understands, and an answer with `tool_calls` in it. Called by the local transport.

Small models drop the marks that llama.cpp's parsers look for, and those then answer with an error. So the server only
writes text: held by a grammar to either one bare JSON object that fits a tool, or plain text; the object becomes a
tool call here, in streams too. A JSON Schema becomes a grammar in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from slate_lab.models.sse import Event, SseDecoder

__all__ = ["BareCall", "CallStream", "call_grammar", "plan_request", "read_bare_calls", "with_tool_calls"]

_REPLACED = ("tools", "tool_choice", "parallel_tool_calls", "response_format")
_DECODER = json.JSONDecoder(strict=False)


class BareCall(Struct, frozen=True):
    """A call as the model wrote it: the tool's name, its arguments as a JSON text."""

    name: str
    arguments: str


def plan_request(body: Mapping[str, Any], *, looks: int | None = None) -> dict[str, Any]:
    """The body as the server gets it: tools go to its template as `offered`, tools and a JSON Schema to a grammar.

    Args:
        body: a chat request.
        looks: rounds of tools that went well after which the answer must be text, and no tool is named any more; None
            is no such end.
    """
    planned = {k: v for k, v in body.items() if k not in _REPLACED}
    form = body.get("response_format") or {}
    if form.get("type") in ("json_object", "json_schema"):
        schema = (form.get("json_schema") or {}).get("schema") or {"type": "object"}
        return {**planned, "grammar": f"%llguidance {{}}\nstart: {_json(schema)}"}
    tools = [t["function"] for t in body.get("tools") or ()] if body.get("tool_choice") != "none" else []
    if not tools:
        return planned
    rounds = _good_rounds(body.get("messages") or ())
    if looks is not None and rounds >= looks:
        return {**planned, "grammar": call_grammar([])}
    tools = tools if rounds else [_plain(tool) for tool in tools]
    given = planned.get("chat_template_kwargs") or {}
    planned["chat_template_kwargs"] = {**given, "offered": [_shown(tool) for tool in tools]}
    return {**planned, "grammar": call_grammar(tools, text=body.get("tool_choice") != "required")}


def _json(schema: Mapping[str, Any]) -> str:
    """A rule for JSON that fits a schema, with no more space in it than models are used to."""
    tight = {**schema, "x-guidance": {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}}
    return "%json " + json.dumps(tight, separators=(",", ":"))


def _good_rounds(messages: Iterable[Mapping[str, Any]]) -> int:
    """How many times tools were called and at least one of them did not fail."""
    rounds, open_round = 0, False
    for message in messages:
        if message.get("role") == "assistant":
            open_round = bool(message.get("tool_calls"))
        elif message.get("role") == "tool" and open_round and not str(message.get("content", "")).startswith("error:"):
            rounds, open_round = rounds + 1, False
    return rounds


def _plain(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool without its optional numbers and switches: small models fill in all they see, and wrongly."""
    parameters = dict(tool.get("parameters") or {"type": "object"})
    required = set(parameters.get("required") or ())
    parameters["properties"] = {
        name: schema
        for name, schema in (parameters.get("properties") or {}).items()
        if name in required or schema.get("type") not in ("integer", "number", "boolean")
    }
    return {**tool, "parameters": parameters}


def _shown(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool as the template lists it."""
    parameters = _plain(tool)["parameters"]
    arguments = {
        name: {key: schema[key] for key in ("type", "description") if key in schema}
        for name, schema in parameters["properties"].items()
    }
    listed = {"type": "object", "properties": arguments, "required": list(parameters.get("required") or ())}
    return {"name": tool["name"], "description": tool.get("description", ""), "parameters": listed}


def call_grammar(tools: Iterable[Mapping[str, Any]], *, text: bool = True) -> str:
    """A grammar (of llguidance) for one call that fits its tool's schema or, with `text`, for plain text.

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
    rules = {}
    if calls:
        rules["call"] = _json({"anyOf": calls})
    if text or not calls:
        rules["text"] = r"/[^{`<\s](.|\n)*/"
    return "\n".join(["%llguidance {}", f"start: {' | '.join(rules)}", *(f"{k}: {v}" for k, v in rules.items())])


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

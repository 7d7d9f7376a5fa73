"""Tool calls of the embedded model: read from its text, whole or in a stream."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_lab.models.local_calls import CallStream, call_grammar, plan_request, read_bare_calls, with_tool_calls
from slate_lab.models.sse import SseDecoder

READ = {
    "name": "read",
    "description": "Read a text file.",
    "parameters": {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "a file"},
            "offset": {"type": "integer", "description": "first line", "default": 1},
        },
        "required": ["path"],
        "additionalProperties": False,
    },
}
BODY: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "hello"}],
    "tools": [{"type": "function", "function": READ}],
    "stream": True,
}


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('{"name": "read", "arguments": {"path": "a"}}', [("read", {"path": "a"})]),
        ('  {"name":"ls","arguments":{}}\n', [("ls", {})]),
        ('{"name":"ls"}', [("ls", {})]),
        ('{"name":"a","arguments":null}', [("a", {})]),
        ('{"name":"a","arguments":{"x":1}}\n{"name":"b","arguments":{}}', [("a", {"x": 1}), ("b", {})]),
        ("The file says 4.", []),
        ("", []),
        ('{"name": "read", "arguments": {"path": "a"', []),
        ('{"name": "read", "arguments": "a"}', []),
        ('{"name": 3, "arguments": {}}', []),
        ('{"summary": "x", "name": "y"}', []),
        ('{"name":"a","arguments":{}} and more', []),
        ('I call {"name":"a","arguments":{}}', []),
        ("[" * 100_000, []),
    ],
    ids=[
        "one", "with space", "without arguments", "null arguments", "two", "plain text", "nothing", "cut off",
        "arguments as text", "name no text", "some other object", "text after", "text before", "deep",
    ],
)  # fmt: skip
def test_a_text_of_bare_objects_is_calls_and_nothing_else_is(
    text: str, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    """Only a text that consists of call objects becomes calls: an answer that quotes one stays an answer."""
    assert [(c.name, json.loads(c.arguments)) for c in read_bare_calls(text)] == calls


def test_tools_go_to_the_template_and_the_grammar() -> None:
    """The server's own tool parser stays out of it: `tools` is gone, everything else is as it was."""
    planned = plan_request({**BODY, "tool_choice": "auto"})
    assert "tools" not in planned
    assert "tool_choice" not in planned
    offered = planned["chat_template_kwargs"]["offered"]
    assert [tool["name"] for tool in offered] == ["read"]
    assert "offset" not in json.dumps(offered)
    assert planned["grammar"].startswith("%llguidance {}\nstart: call | text\n")
    assert (planned["messages"], planned["stream"]) == (BODY["messages"], True)


def test_a_request_without_tools_is_left_alone() -> None:
    """Plain chats reach the server as they were asked."""
    plain = {"messages": [], "temperature": 0}
    assert plan_request(plain) == plain
    assert plan_request({**BODY, "tool_choice": "none"}) == {k: BODY[k] for k in ("model", "messages", "stream")}


@pytest.mark.parametrize(
    ("form", "rule"),
    [
        ({"type": "json_schema", "json_schema": {"schema": {"type": "array"}}}, '{"type":"array",'),
        ({"type": "json_object"}, '{"type":"object",'),
    ],
    ids=["a schema", "any object"],
)
def test_a_schema_becomes_a_grammar(form: dict[str, Any], rule: str) -> None:
    """The answer is held to the schema whatever is offered beside it."""
    planned = plan_request({**BODY, "response_format": form})
    assert planned["grammar"].startswith(f"%llguidance {{}}\nstart: %json {rule}")
    assert "response_format" not in planned


def test_required_leaves_no_room_for_text() -> None:
    """`tool_choice: required` has a grammar of calls only, and a spent look one of text only."""
    assert call_grammar([READ], text=False).splitlines()[1] == "start: call"
    assert call_grammar([]).splitlines()[1] == "start: text"


def turns(*results: str) -> list[dict[str, Any]]:
    """A conversation with one round of tools for each result."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "look"}]
    for result in results:
        messages += [{"role": "assistant", "tool_calls": [{}]}, {"role": "tool", "content": result}]
    return messages


@pytest.mark.parametrize(
    ("results", "looks", "start"),
    [
        ((), 1, "call | text"),
        (("error: no such file",), 1, "call | text"),
        (("line",), 1, "text"),
        (("line",), 2, "call | text"),
        (("line", "line"), None, "call | text"),
    ],
    ids=["nothing seen", "a failed look does not count", "one look is spent", "one is left", "no end"],
)
def test_a_model_that_does_not_stop_looking_must_answer(
    results: tuple[str, ...], looks: int | None, start: str
) -> None:
    """After `looks` good rounds only text is possible, and the prompt names no tool that could be imitated."""
    planned = plan_request({**BODY, "messages": turns(*results)}, looks=looks)
    assert planned["grammar"].splitlines()[1] == f"start: {start}"
    assert ("chat_template_kwargs" in planned) == ("call" in start)


def test_optional_numbers_become_possible_after_the_first_look() -> None:
    """At first a file is read from its beginning; a result that says how to read on can be followed."""
    assert "offset" not in plan_request(BODY)["grammar"]
    assert "offset" in plan_request({**BODY, "messages": turns("line")})["grammar"]


def events(*pieces: str, finish: str | None = "stop") -> bytes:
    """A stream of text pieces, as the server sends it."""
    chunks: list[dict[str, Any]] = [
        {"id": "x", "choices": [{"index": 0, "delta": {"role": "assistant", "content": None}, "finish_reason": None}]}
    ]
    chunks += [{"id": "x", "choices": [{"index": 0, "delta": {"content": p}, "finish_reason": None}]} for p in pieces]
    if finish:
        chunks.append({"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    chunks.append({"id": "x", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}})
    return b"".join(b"data: " + json.dumps(c).encode() + b"\n\n" for c in chunks) + b"data: [DONE]\n\n"


def read_stream(data: bytes) -> tuple[str, list[dict[str, Any]], list[str], bool]:
    """Text, calls, finish reasons, and whether usage came."""
    decoder = SseDecoder()
    text, calls, finish, usage = "", [], [], False
    for _, payload in [*decoder.feed(data), *decoder.close()]:
        if payload == b"[DONE]":
            continue
        chunk = msgspec.json.decode(payload)
        usage = usage or "usage" in chunk
        for choice in chunk["choices"]:
            text += choice["delta"].get("content") or ""
            calls += choice["delta"].get("tool_calls", [])
            finish += [choice["finish_reason"]] if choice["finish_reason"] else []
    return text, calls, finish, usage


@given(cuts=st.lists(st.integers(0, 1200), max_size=6))
def test_a_streamed_call_is_a_call_wherever_the_chunks_are_cut(cuts: list[int]) -> None:
    """The object never shows as text; the finish says `tool_calls`; usage and the end mark pass."""
    data = events('{"na', 'me": "read", "argu', 'ments": {"path": "é.md"}}')
    stream, out, last = CallStream(first_id=3), b"", 0
    for cut in sorted(cuts):
        out += stream.feed(data[last:cut])
        last = max(last, cut)
    out += stream.feed(data[last:]) + stream.close()
    text, calls, finish, usage = read_stream(out)
    assert (text, finish, usage) == ("", ["tool_calls"], True)
    assert [(c["id"], c["function"]["name"]) for c in calls] == [("call_3", "read")]
    assert json.loads(calls[0]["function"]["arguments"]) == {"path": "é.md"}
    assert out.endswith(b"data: [DONE]\n\n")


def test_text_streams_on_at_once() -> None:
    """What does not begin with a brace is passed on with its first piece."""
    stream = CallStream(first_id=1)
    assert read_stream(stream.feed(events("The ", finish=None)))[0] == "The "


@pytest.mark.parametrize("finish", ["length", None], ids=["cut by the limit", "cut by the connection"])
def test_a_call_that_was_cut_is_told_as_the_text_it_is(finish: str | None) -> None:
    """Half an object is no call: its text comes out at the end, with the finish as it was."""
    stream = CallStream(first_id=1)
    out = stream.feed(events('{"name": "read", "arg', finish=finish)) + stream.close()
    text, calls, finishes, _ = read_stream(out)
    assert (text, calls, finishes) == ('{"name": "read", "arg', [], [finish] if finish else [])


def test_an_error_inside_a_stream_passes() -> None:
    """What is not a piece of an answer is not touched."""
    data = b'data: {"error":{"code":500,"message":"no"}}\n\n'
    stream = CallStream(first_id=1)
    assert stream.feed(data) + stream.close() == data


def test_a_whole_answer_gets_its_calls() -> None:
    """Without streaming the message carries `tool_calls`; text and errors stay byte for byte."""
    message = {"role": "assistant", "content": '{"name":"ls","arguments":{"path":"."}}'}
    answer = {"choices": [{"message": message, "finish_reason": "stop"}]}
    read = msgspec.json.decode(with_tool_calls(json.dumps(answer).encode(), first_id=1))
    choice = read["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    assert choice["message"]["tool_calls"][0]["id"] == "call_1"
    for plain in (b'{"choices":[{"message":{"content":"hi"}}]}', b'{"error":{}}', b"oops"):
        assert with_tool_calls(plain, first_id=1) == plain

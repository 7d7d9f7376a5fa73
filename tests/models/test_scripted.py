"""The scripted model: the double that ships with the lab."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import pytest

from slate_lab.errors import ModelError
from slate_lab.models.example import instance_of
from slate_lab.models.protocol import Model
from slate_lab.models.scripted import ScriptedModel
from slate_lab.records import Message, Reply, Request, ToolCall

ASK = Request(messages=(Message(role="user", text="hello"),))


async def test_a_list_answers_in_order_and_says_when_it_is_used_up() -> None:
    """Text, tool calls, replies and errors come out in order; after the last one the error says how many there were."""
    model = ScriptedModel(
        [
            "one",
            {"tool": "read_file", "args": {"path": "a.txt"}},
            [ToolCall(id="x", name="now"), {"tool": "now"}],
            Reply(text="whole", finish="length"),
            ModelError("auth", "no"),
        ]
    )
    assert isinstance(model, Model)
    first = await model.reply(ASK)
    assert (first.text, first.finish, first.calls) == ("one", "stop", ())
    second = await model.reply(ASK)
    assert second.calls == (ToolCall(id="call_2_1", name="read_file", arguments={"path": "a.txt"}),)
    assert second.finish == "tool_calls"
    assert [c.id for c in (await model.reply(ASK)).calls] == ["x", "call_3_2"]
    assert (await model.reply(ASK)).finish == "length"
    with pytest.raises(ModelError, match="no"):
        await model.reply(ASK)
    with pytest.raises(ModelError, match="holds 5; add one") as caught:
        await model.reply(ASK)
    assert caught.value.kind == "bad-request"
    assert len(model.requests) == 6


async def test_a_function_sees_the_request() -> None:
    """A function, sync or async, makes the answer from the request, also where a schema is asked."""

    async def slow(request: Request) -> str:
        return request.messages[-1].text.upper()

    assert (await ScriptedModel(slow).reply(ASK)).text == "HELLO"
    asked = Request(messages=ASK.messages, schema={"type": "object"})
    assert (await ScriptedModel(lambda r: "free").reply(asked)).text == "free"


async def test_a_function_that_blocks_has_a_thread_of_its_own() -> None:
    """With `blocking` the loop goes on while the function waits; an async one, and its errors, come out as ever."""

    def slow(request: Request) -> str:
        time.sleep(0.1)
        return threading.current_thread().name

    async def tick() -> int:
        ticks = 0
        while not done.is_set():
            await asyncio.sleep(0.005)
            ticks += 1
        return ticks

    done = asyncio.Event()
    ticking = asyncio.create_task(tick())
    reply = await ScriptedModel(slow, blocking=True).reply(ASK)
    done.set()
    assert reply.text != threading.current_thread().name
    assert await ticking > 3

    async def later(request: Request) -> str:
        return threading.current_thread().name

    assert (await ScriptedModel(later, blocking=True).reply(ASK)).text == threading.current_thread().name
    used_up = iter(["one"])
    model = ScriptedModel(lambda request: next(used_up), blocking=True)
    assert (await model.reply(ASK)).text == "one"
    with pytest.raises(RuntimeError, match="StopIteration"):
        await model.reply(ASK)


async def test_schemas_are_answered_without_using_up_the_list() -> None:
    """A request with a schema gets a valid instance, so a list scripts the worker's turns alone."""
    schema = {
        "type": "object",
        "properties": {"intent": {"type": "string"}, "findings": {"type": "array", "minItems": 1, "items": {}}},
        "required": ["intent", "findings"],
    }
    asked = Request(messages=ASK.messages, schema=schema)
    model = ScriptedModel(["mine"])
    assert json.loads((await model.reply(asked)).text) == {"intent": "scripted", "findings": ["scripted"]}
    assert (await model.reply(ASK)).text == "mine"
    assert (await ScriptedModel(["mine"], answer_schemas=False).reply(asked)).text == "mine"


async def test_usage_is_counted_by_the_lab_and_says_so() -> None:
    """A scripted reply carries counted tokens, marked as the lab's own count."""
    reply = await ScriptedModel(["hello world"]).reply(ASK)
    assert reply.usage.output == 2
    assert reply.usage.tokens == reply.usage.total_reported
    assert reply.raw_usage is not None
    assert reply.raw_usage["counted_by"] == "slate_lab"


async def test_text_is_streamed_in_pieces() -> None:
    """What `on_delta` gets, joined, is the text."""
    pieces: list[str] = []
    await ScriptedModel(["a longer answer than one piece"]).reply(ASK, on_delta=pieces.append)
    assert len(pieces) > 1
    assert "".join(pieces) == "a longer answer than one piece"


@pytest.mark.parametrize(
    ("schema", "instance"),
    [
        pytest.param({"enum": ["b", "a"]}, "b", id="enum"),
        pytest.param({"const": 3}, 3, id="const"),
        pytest.param({"type": "integer", "minimum": 1}, 1, id="minimum"),
        pytest.param({"type": ["null", "string"]}, None, id="nullable"),
        pytest.param({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, False, id="any-of"),
        pytest.param({"$ref": "#/$defs/x", "$defs": {"x": {"type": "array", "items": {}}}}, [], id="ref"),
        pytest.param({"type": "string", "minLength": 10}, "scripted..", id="min-length"),
    ],
)
def test_instances(schema: dict[str, object], instance: object) -> None:
    """The smallest instance of each kind of schema is valid."""
    assert instance_of(schema) == instance

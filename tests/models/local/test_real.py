"""The real thing: llama.cpp with a real model, through the same door as any provider."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from slate_lab.config import ProviderSpec
from slate_lab.models.chat import ChatModel
from slate_lab.models.local import LocalTransport
from slate_lab.models.protocol import Capabilities
from slate_lab.models.transport import open_transport
from slate_lab.models.weights import find_weights
from slate_lab.records import Message, Reply, Request, Route, ToolSpec

NAME = "qwen2.5-coder-0.5b"
pytestmark = [
    pytest.mark.model,
    pytest.mark.loopback,
    pytest.mark.allow_hosts(["127.0.0.1", "::1", "localhost"]),
]

READ = ToolSpec(
    name="read",
    description="Read a text file.",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string", "description": "file in the workspace"}},
        "required": ["path"],
        "additionalProperties": False,
    },
)


@pytest.fixture
async def model(tmp_path: Path) -> AsyncIterator[ChatModel]:
    """The embedded model on a server of this test's own, which ends with it."""
    weights = find_weights(NAME)
    if weights is None:
        pytest.skip(f"no weights of {NAME}: make weights")
    spec = ProviderSpec.model_validate({"protocol": "local", "weights": NAME, "contextTokens": 2048, "idleSeconds": 60})
    env = {"SLATE_LAB_WEIGHTS": str(weights.path.parent)}
    way = LocalTransport(
        spec, open_transport(), model_id=NAME, progress=lambda _line, _done: None, cache=tmp_path, env=env
    )
    made = ChatModel(
        Route("local", NAME),
        "http://embedded.invalid/v1",
        transport=way,
        capabilities=Capabilities(parallel_tools=False),
        timeout_s=600,
    )
    yield made
    await made.aclose()


def asked(text: str, **options: Any) -> Request:
    """A request at temperature 0."""
    messages = (Message(role="system", text="You research files."), Message(role="user", text=text))
    return Request(messages=messages, temperature=0.0, max_output_tokens=options.pop("cap", 60), **options)


async def test_it_calls_a_tool_answers_from_it_keeps_a_schema_streams_and_stops_when_cancelled(
    model: ChatModel,
) -> None:
    """In turn: a tool call with its argument, text after the result, JSON by schema, text in pieces, cancel."""
    task = "Read field-notes/gateway.txt and report which version was deployed."
    reply = await model.reply(asked(task, tools=(READ,)))
    assert [(c.name, c.arguments) for c in reply.calls] == [("read", {"path": "field-notes/gateway.txt"})]
    assert (reply.finish, reply.text) == ("tool_calls", "")
    assert reply.usage.output

    result = Message(role="tool", text="09:14 gateway 4.2.1 deployed", call_id=reply.calls[0].id, name="read")
    messages = (*asked(task).messages, Message(role="assistant", calls=reply.calls), result)
    after = await model.reply(Request(messages=messages, tools=(READ,), temperature=0.0, max_output_tokens=60))
    assert not after.calls
    assert "4.2.1" in after.text

    schema = {
        "type": "object",
        "properties": {"version": {"type": "string", "enum": ["4.2.0", "4.2.1"]}},
        "required": ["version"],
        "additionalProperties": False,
    }
    held = await model.reply(asked("Deployed was 4.2.1. Which version?", schema=schema))
    assert json.loads(held.text)["version"] in ("4.2.0", "4.2.1")

    pieces: list[str] = []
    spoken = await model.reply(asked("Count from one to five in words."), on_delta=pieces.append)
    assert len(pieces) > 2
    assert "".join(pieces) == spoken.text

    begun = asyncio.Event()
    long = asyncio.create_task(model.reply(asked("Tell a long story.", cap=1000), on_delta=lambda _: begun.set()))
    await begun.wait()
    long.cancel()
    started = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await long
    assert time.monotonic() - started < 1
    next_one: Reply = await model.reply(asked("Say yes.", cap=5))
    assert next_one.text

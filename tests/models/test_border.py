"""Where answers enter: whatever a model gives, what is kept is plain, bounded and can be stored."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slate_lab.models.border import plain_reply
from slate_lab.models.plain import PAYLOAD_BYTES, TooDeep, plain, plain_payload
from slate_lab.models.scripted import ScriptedModel
from slate_lab.models.toolcalls import DEEP, plain_call
from slate_lab.models.usage import plain_usage
from slate_lab.records import Message, Reply, Request, ToolCall, Usage

ASK = Request(messages=(Message(role="user", text="hello"),))
LONE = "a\ud83cb"


def nested(depth: int) -> Any:
    """A list in a list in a list."""
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def storable(value: object) -> None:
    """Passes through JSON as it is: the encoder of the store takes it, and gives the same back."""
    written = msgspec.json.encode(value)
    assert msgspec.json.encode(msgspec.json.decode(written)) == written


@pytest.mark.parametrize(
    ("value", "made"),
    [
        pytest.param({1: "a", None: "b", (2, 3): "c"}, {"1": "a", "None": "b", "[2, 3]": "c"}, id="keys"),
        pytest.param({LONE: [LONE]}, {"a\ufffdb": ["a\ufffdb"]}, id="lone-surrogates"),
        pytest.param([2**63 - 1, -(2**63)], [2**63 - 1, -(2**63)], id="64-bit"),
        pytest.param([2**63, 10**30], ["9223372036854775808", "1" + "0" * 30], id="beyond-64-bit"),
        pytest.param(10**5000, "a whole number of 16610 bits", id="too-long-to-write"),
        pytest.param([float("nan"), float("inf"), 0.5], ["nan", "inf", 0.5], id="not-finite"),
        pytest.param([True, None, 1], [True, None, 1], id="as-they-are"),
        pytest.param((1, [2]), [1, [2]], id="tuple"),
        pytest.param({3}, [3], id="set"),
        pytest.param([np.int64(3), np.float64(0.5)], [3, 0.5], id="numbers-of-numpy"),
        pytest.param(
            [PurePosixPath("a/b"), Decimal("1.5"), datetime.date(2026, 1, 2)], ["a/b", "1.5", "2026-01-02"], id="others"
        ),
    ],
)
def test_plain(value: object, made: object) -> None:
    """Anything becomes JSON with text keys."""
    assert plain(value) == made
    storable(plain(value))


def test_depth_is_bounded() -> None:
    """Nesting ends in an error of its own, also for a value that holds itself."""
    assert plain(nested(64)) == nested(64)
    loop: list[object] = []
    loop.append(loop)
    for value in (nested(65), loop):
        with pytest.raises(TooDeep):
            plain(value)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()) | st.integers(), inner),
)


@settings(deadline=None)
@given(value=_json)
def test_plain_is_storable_and_stays(value: Any) -> None:
    """Whatever comes in can be stored, and making it plain twice changes nothing more."""
    made = plain(value)
    storable(made)
    assert plain(made) == made


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        pytest.param(None, None, id="none"),
        pytest.param({}, {}, id="empty"),
        pytest.param({"prompt_tokens": 10**30}, {"prompt_tokens": "1" + "0" * 30}, id="beyond-64-bit"),
        pytest.param({"a": 1, "big": "x" * 20_000, "b": 2}, {"a": 1, "b": 2, "omitted": 1}, id="too-large"),
        pytest.param({"a": 1, "deep": nested(500)}, {"a": 1, "omitted": 1}, id="too-deep"),
        pytest.param([1], {"usage": [1]}, id="no-object"),
    ],
)
def test_payloads(raw: object, kept: object) -> None:
    """A usage payload keeps what is plain and small, and says how many entries were left out."""
    assert plain_payload(raw) == kept


def test_payloads_are_bounded() -> None:
    """Many entries end at the cap."""
    made = plain_payload({f"key{n}": "x" * 50 for n in range(10_000)})
    assert made is not None
    assert len(msgspec.json.encode(made)) < PAYLOAD_BYTES + 1_000
    assert made["key0"] == "x" * 50
    assert made["omitted"] > 9_000


@pytest.mark.parametrize(
    ("usage", "kept"),
    [
        pytest.param(Usage(input_fresh=5, output=0), Usage(input_fresh=5, output=0), id="fine"),
        pytest.param(Usage(input_fresh=-1, output=5), Usage(output=5, flagged=True), id="negative"),
        pytest.param(Usage(input_fresh=2**63, output=True), Usage(flagged=True), id="large-and-bool"),
        pytest.param(Usage(input_fresh="5", output=0.5), Usage(flagged=True), id="text-and-float"),  # type: ignore[arg-type]
        pytest.param({"input_fresh": 5}, Usage(flagged=True), id="no-usage"),
    ],
)
def test_usages(usage: Any, kept: Usage) -> None:
    """What is no count of tokens is unknown, and flagged."""
    assert plain_usage(usage) == kept


@pytest.mark.parametrize(
    ("call", "kept"),
    [
        pytest.param(
            ToolCall(id=LONE, name=LONE, arguments={1: {LONE: (10**30, float("nan"))}}),  # type: ignore[dict-item]
            ToolCall(id="a\ufffdb", name="a\ufffdb", arguments={"1": {"a\ufffdb": ["1" + "0" * 30, "nan"]}}),
            id="hostile",
        ),
        pytest.param(
            ToolCall(id="a", name="f", arguments={"x": nested(99)}), ToolCall(id="a", name="f", error=DEEP), id="deep"
        ),
        pytest.param(
            ToolCall(id="a", name="f", arguments=[1]),  # type: ignore[arg-type]
            ToolCall(id="a", name="f", error="the arguments are not an object: list"),
            id="no-object",
        ),
        pytest.param(ToolCall(id="i" * 999, name=None), ToolCall(id="i" * 200, name=""), id="labels"),  # type: ignore[arg-type]
    ],
)
def test_calls(call: ToolCall, kept: ToolCall) -> None:
    """A tool call holds JSON alone; what cannot be JSON is an error of the call and is not run."""
    assert plain_call(call) == kept


async def test_a_scripted_reply_is_made_plain() -> None:
    """The scripted model enters by the same border: hostile text, arguments and numbers come out fit to be stored."""
    hostile = Reply(
        text=LONE,
        calls=(ToolCall(id="c", name="f", arguments={"p": PurePosixPath("x"), "n": 10**30}),),
        finish="odd",  # type: ignore[arg-type]
        usage=Usage(input_fresh=10**30, output=3),
        response_id=LONE,
        model="m" * 999,
        raw_usage={"a": LONE, "deep": nested(500)},
    )
    reply = await ScriptedModel([hostile]).reply(ASK)
    assert (reply.text, reply.finish, reply.response_id) == ("a\ufffdb", "other", "a\ufffdb")
    assert reply.calls[0].arguments == {"p": "x", "n": "1" + "0" * 30}
    assert reply.usage == Usage(output=3, flagged=True)
    assert reply.model == "m" * 200
    assert reply.raw_usage == {"a": "a\ufffdb", "omitted": 1}
    storable(reply)
    uncounted = await ScriptedModel([{"tool": "f", "args": {1: LONE}}]).reply(ASK)
    assert uncounted.calls[0].arguments == {"1": "a\ufffdb"}
    storable(uncounted)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        pytest.param({"text": "x"}, "a Reply, not dict", id="no-reply"),
        pytest.param(Reply(text=None), "a str, not NoneType", id="no-text"),  # type: ignore[arg-type]
        pytest.param(Reply(text="", calls=("x",)), "ToolCalls, not str", id="no-call"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_reply(made: Any, says: str) -> None:
    """A model of the user that answers with something else is told what a reply is."""
    with pytest.raises(TypeError, match=says):
        plain_reply(made)


def test_a_payload_of_a_server_is_read_back_as_written() -> None:
    """An honest payload is kept as it came."""
    raw = json.loads('{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":1},"cost":0.5,"x":null}')
    assert plain_payload(raw) == raw

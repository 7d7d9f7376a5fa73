"""The three protocols: the same answer, however it is spoken and however its bytes are cut."""

from __future__ import annotations

import contextlib
import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.speech import ALL, CHAT, MESSAGES, RESPONSES, Speech, event
from slate_lab.models.answer import Answer
from slate_lab.models.faults import Fault
from slate_lab.models.toolcalls import CUT
from slate_lab.records import ToolCall

every = pytest.mark.parametrize("speech", ALL, ids=lambda speech: speech.name)
sealing = pytest.mark.parametrize("speech", [RESPONSES, MESSAGES], ids=lambda speech: speech.name)

SAID = "Caf\u00e9 \u2028 \U0001f378 \x85 "


def recorded(speech: Speech) -> bytes:
    """A stream with everything in it: comments, thinking, text, two calls whose pieces interleave, usage."""
    first = speech.call(0, "a", "f", ['{"k": "ü', '"}'])
    second = speech.call(1, "b", "g", ["", '{"n":', "1}"])
    if speech is not CHAT:  # pieces are told apart by their place
        first, second = first[:2], [*second[:3], *first[2:], *second[3:]]
    parts = [b": keep-alive\n\n", *speech.head, *speech.thought, speech.text("Caf\u00e9 \u2028 "), *first, *second]
    return b"".join([*parts, speech.text("\U0001f378 \x85 "), *speech.tail("tool_calls")])


RECORDED = {speech.name: recorded(speech) for speech in ALL}


@every
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_any_chunking_gives_the_same_reply(speech: Speech, data: st.DataObject) -> None:
    """A recorded stream, cut anywhere, with any line ends, is the same reply."""
    stream = RECORDED[speech.name]
    whole = speech.read([stream])
    stream = stream.replace(b"\n", data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"])))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=40))
    at = [0, *sorted(cuts), len(stream)]
    assert speech.read([stream[a:b] for a, b in itertools.pairwise(at)]) == whole
    assert whole.text == SAID
    assert whole.calls == (
        ToolCall(id="a", name="f", arguments={"k": "ü"}),
        ToolCall(id="b", name="g", arguments={"n": 1}),
    )
    assert (whole.finish, whole.usage.input_tokens, whole.usage.output_tokens) == ("tool_calls", 10, 2)
    assert (whole.response_id, whole.model, whole.ignored) == ("r1", "m-1", {})


@every
def test_one_byte_at_a_time(speech: Speech) -> None:
    """The smallest chunks there are."""
    stream = RECORDED[speech.name]
    assert speech.read([bytes([byte]) for byte in stream]) == speech.read([stream])


@every
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_damaged_stream_is_a_reply_or_a_fault(speech: Speech, data: st.DataObject) -> None:
    """Whatever bytes are changed, lost or added: a reply, a refusal, or a `Fault`; never another exception."""
    stream = bytearray(RECORDED[speech.name])
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(stream) - 1))
        stream[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=6))
    with contextlib.suppress(Fault):
        speech.read([bytes(stream)])


NONSENSE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@every
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_any_value_may_stand_in_a_field(speech: Speech, data: st.DataObject) -> None:
    """Fields of another type than meant are no crash."""
    events = [
        json.loads(part.split(b"data: ")[1]) for part in RECORDED[speech.name].split(b"\n\n") if b"data: {" in part
    ]
    body: Any = data.draw(st.sampled_from(events))
    holder = body
    while True:
        key = data.draw(st.sampled_from(sorted(holder))) if isinstance(holder, dict) and holder else 0
        value = holder[key] if holder else None
        if not isinstance(value, (dict, list)) or not value or data.draw(st.booleans()):
            break
        holder = value
    if holder:
        holder[key] = data.draw(NONSENSE)
    with contextlib.suppress(Fault):
        speech.read([event(e) if isinstance(e.get("type", ""), str) else b"" for e in events])


@every
def test_a_whole_document_says_the_same(speech: Speech) -> None:
    """A server that does not stream: text, calls, usage and finish are read from one document."""
    body = speech.whole("hi", [("a", "f", '{"k":1}'), ("b", "now", "")])
    reply = speech.read([json.dumps(body).encode()])
    assert (reply.text, reply.finish, reply.first_token_ns) == ("hi", "tool_calls", None)
    assert [(c.id, c.name, c.arguments) for c in reply.calls] == [("a", "f", {"k": 1}), ("b", "now", {})]
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (10, 2)


@every
@pytest.mark.parametrize(
    ("pieces", "arguments"),
    [
        pytest.param([], {}, id="no-arguments"),
        pytest.param([""], {}, id="empty-arguments"),
        pytest.param(["null"], {}, id="null-arguments"),
        pytest.param(['{"u"', ":1}"], {"u": 1}, id="in-pieces"),
        pytest.param(['{"u":1}</tool_call>'], {"u": 1}, id="trailing-garbage"),
        pytest.param(['{"u":1}', '{"u":1}'], {"u": 1}, id="said-twice"),
        pytest.param(['{"u":"\\ud83c', '\\udf78"}'], {"u": "\U0001f378"}, id="surrogate-pair-across-pieces"),
    ],
)
def test_arguments_of_calls(speech: Speech, pieces: list[str], arguments: dict[str, Any]) -> None:
    """What can be read for sure is read, the same over every protocol."""
    reply = speech.read([*speech.head, *speech.call(0, "a", "f", pieces), *speech.tail("tool_calls")])
    assert reply.calls == (ToolCall(id="a", name="f", arguments=arguments),)
    assert reply.finish == "tool_calls"


@every
def test_two_glued_objects_are_no_arguments(speech: Speech) -> None:
    """Two different objects glued together: nobody can say which is meant."""
    reply = speech.read([*speech.head, *speech.call(0, "a", "f", ['{"u":1}{"u":2}']), *speech.tail("tool_calls")])
    assert "two different objects" in (reply.calls[0].error or "")


@every
def test_a_call_cut_by_the_length_limit_is_not_run(speech: Speech) -> None:
    """The call before it stands; the cut one carries its error."""
    calls = [*speech.call(0, "a", "read", ['{"p":1}']), *speech.call(1, "b", "write", ['{"p":"a","text":"lo'])]
    reply = speech.read([*speech.head, *calls, *speech.tail("length")])
    assert reply.finish == "length"
    assert [c.error for c in reply.calls] == [None, CUT]
    assert reply.calls[1].arguments == {}


@every
def test_thinking_is_no_text(speech: Speech) -> None:
    """Reasoning and its summaries never reach the text, but are the first token."""
    pieces: list[str] = []
    answer = Answer(speech.draft(), on_delta=pieces.append)
    for chunk in [*speech.head, *speech.thought]:
        answer.feed(chunk)
    assert pieces == []
    for chunk in [speech.text("x"), *speech.tail("stop")]:
        if not answer.done:
            answer.feed(chunk)
    reply = answer.reply()
    assert (reply.text, pieces, reply.first_token_ns) == ("x", ["x"], 7)


@sealing
def test_what_the_model_thought_is_carried(speech: Speech) -> None:
    """Sealed reasoning stands in the turn where it stood, beside text and calls."""
    call = speech.call(60, "a", "f", ["{}"])
    reply = speech.read(
        [*speech.head[:2], *speech.thought, *speech.head[2:], speech.text("x"), *call, *speech.tail("stop")]
    )
    assert reply.carried is not None
    assert reply.carried.route == "shop/m-1"
    sealed, text, number = reply.carried.parts
    assert (
        sealed
        == {
            "responses": {"type": "reasoning", "id": "rs", "encrypted_content": "SEALED==", "summary": []},
            "messages": {"type": "thinking", "thinking": "hm", "signature": "S=="},
        }[speech.name]
    )
    assert (text, number) == ("x", 0)


@every
def test_an_error_inside_a_good_answer(speech: Speech) -> None:
    """An error body inside a 200 stream is an error, in each protocol's own shape."""
    answer = Answer(speech.draft())
    for chunk in [*speech.head, speech.text("a"), speech.error]:
        answer.feed(chunk)
    assert answer.done
    assert answer.refusal is not None
    assert answer.refusal.message == "overloaded"


def test_a_failed_response_is_an_error() -> None:
    """`response.failed` tells its error and what was used."""
    response = {"id": "r1", "status": "failed", "error": {"code": "server_error", "message": "boom"}}
    answer = Answer(RESPONSES.draft())
    answer.feed(event({"type": "response.failed", "response": {**response, "usage": {"input_tokens": 4}}}))
    assert answer.refusal is not None
    assert (answer.refusal.message, answer.refusal.codes) == ("boom", "server_error")
    assert answer.with_usage(Fault("bad-reply", "x")).usage.input_fresh == 4


@every
def test_a_stream_without_its_end_is_no_answer(speech: Speech) -> None:
    """Text alone is not an answer: the end must have come."""
    with pytest.raises(Fault, match="ended before"):
        speech.read([*speech.head, speech.text("a")])


@sealing
def test_events_of_unknown_kinds_are_left_out_and_counted(speech: Speech) -> None:
    """New kinds of events, items and blocks mean nothing here, and the reply says which came."""
    odd = [event({"type": "new.kind", "x": 1})] * 2 + [event({"x": 1})]
    reply = speech.read([*speech.head, *odd, speech.text("hi"), *speech.tail("stop")])
    assert reply.text == "hi"
    assert reply.ignored == {"new.kind": 2, "no type": 1}


def test_chunks_of_unknown_kinds_are_counted_in_chat() -> None:
    """A chunk that holds neither choices nor usage means nothing, and the reply says that it came."""
    odd = [event({"object": "shop.note", "x": 1}), event({"x": 1})]
    reply = CHAT.read([*CHAT.head, *odd, CHAT.text("hi"), *CHAT.tail("stop")])
    assert (reply.text, reply.ignored) == ("hi", {"shop.note": 1, "no type": 1})


@pytest.mark.parametrize(
    ("speech", "chunks", "text", "finish"),
    [
        pytest.param(RESPONSES, RESPONSES.tail("length"), "", "length", id="responses-length"),
        pytest.param(
            RESPONSES,
            [event({"type": "response.refusal.delta", "output_index": 0, "delta": "No."}), *RESPONSES.tail("stop")],
            "No.",
            "content_filter",
            id="responses-refusal",
        ),
        pytest.param(
            RESPONSES,
            [
                event(
                    {
                        "type": "response.incomplete",
                        "response": {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
                    }
                )
            ],
            "",
            "content_filter",
            id="responses-filtered",
        ),
        pytest.param(
            RESPONSES, [event({"type": "response.completed", "response": RESPONSES.whole("late", [])})], "late", "stop",
            id="responses-only-the-end-has-text",
        ),
        pytest.param(
            RESPONSES,
            [RESPONSES.text("once"), event({"type": "response.output_text.done", "output_index": 50, "text": "once"}),
             *RESPONSES.tail("stop")],
            "once", "stop", id="responses-text-told-again",
        ),
        pytest.param(
            RESPONSES,
            [
                event({"type": "response.output_item.added", "item": {"id": "i1", "type": "message", "content": []}}),
                event({"type": "response.output_text.delta", "item_id": "i1", "delta": "by id"}),
                event({"type": "response.completed", "response": {"status": "completed", "output": [
                    {"id": "i1", "type": "message", "content": [{"type": "output_text", "text": "by id"}]}]}}),
            ],
            "by id", "stop", id="responses-items-without-a-place",
        ),
        pytest.param(MESSAGES, MESSAGES.tail("length"), "", "length", id="messages-length"),
        pytest.param(
            MESSAGES,
            [event({"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {}})],
            "", "content_filter", id="messages-refusal-without-stop",
        ),
        pytest.param(
            MESSAGES,
            [event({"type": "message_delta", "delta": {"stop_reason": "pause_turn"}}), event({"type": "message_stop"})],
            "", "other", id="messages-pause",
        ),
        pytest.param(
            MESSAGES, [MESSAGES.text("bare"), *MESSAGES.tail("stop")], "bare", "stop", id="messages-no-block-start"
        ),
    ],
)  # fmt: skip
def test_endings(speech: Speech, chunks: list[bytes], text: str, finish: str) -> None:
    """Text and finish word of each ending."""
    reply = speech.read(chunks)
    assert (reply.text, reply.finish) == (text, finish)


def test_a_schema_answered_through_a_tool_is_text() -> None:
    """Where a schema is given as the one tool, its input is the text of the answer, streamed as it comes."""
    stream = [
        *MESSAGES.head[:2],
        *MESSAGES.call(0, "a", "answer_as_json", ['{"x":', "1}"]),
        *MESSAGES.tail("tool_calls"),
    ]
    reply = MESSAGES.read(stream)
    assert (reply.text, reply.calls, reply.finish) == ('{"x":1}', (), "stop")
    whole = MESSAGES.whole("", [("a", "answer_as_json", '{"x":1}')])
    assert MESSAGES.read([json.dumps(whole).encode()]).text == '{"x":1}'

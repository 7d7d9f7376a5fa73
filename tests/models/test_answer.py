"""One chat answer from its bytes."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slate_lab.models.answer import Answer
from slate_lab.models.chatreply import ChatDraft
from slate_lab.models.faults import Fault
from slate_lab.records import Reply


def read(*chunks: bytes) -> Reply:
    """The reply that these chunks make."""
    answer = Answer(ChatDraft(clock=lambda: 7))
    for chunk in chunks:
        answer.feed(chunk)
        if answer.done:
            break
    else:
        answer.close()
    return answer.reply()


def event(body: object) -> bytes:
    """One event of a stream."""
    return b"data: " + json.dumps(body, ensure_ascii=False).encode() + b"\n\n"


def said(content: Any, finish: str | None = None, **rest: Any) -> bytes:
    """A chunk that says something."""
    return event({"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": finish}], **rest})


RECORDED = b"".join(
    [
        b": keep-alive\n\n",
        event({"id": "r", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}),
        said("Caf\u00e9 \u2028 \U0001f378 \x85 "),
        event({"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]}),
        event(
            {
                "choices": [
                    {
                        "index": 0,
                        "delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}]},
                    }
                ]
            }
        ),
        event({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"k": "ü'}}]}}]}),
        event({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": '"}'}}]}}]}),
        event({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
        event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}}),
        b"data: [DONE]\r\n\r\n",
    ]
)


@settings(deadline=None)
@given(cuts=st.lists(st.integers(0, len(RECORDED)), max_size=30))
def test_any_chunking_gives_the_same_reply(cuts: list[int]) -> None:
    """A recorded stream, cut anywhere, is the same reply."""
    at = [0, *sorted(cuts), len(RECORDED)]
    whole = read(RECORDED)
    assert read(*[RECORDED[a:b] for a, b in itertools.pairwise(at)]) == whole
    assert whole.text == "Caf\u00e9 \u2028 \U0001f378 \x85 "
    assert whole.calls[0].arguments == {"k": "ü"}
    assert whole.usage.output == 4


USAGE = {"prompt_tokens": 3, "completion_tokens": 1}


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param([event({"choices": [], "usage": USAGE})], id="empty-choices"),
        pytest.param([event({"usage": USAGE})], id="no-choices-key"),
        pytest.param([event({"choices": None, "usage": USAGE})], id="null-choices"),
        pytest.param([event({"choices": [{"index": 0, "delta": None}], "usage": USAGE})], id="null-delta"),
        pytest.param([event({"x_groq": {"usage": USAGE}})], id="wrapped"),
        pytest.param([event({"usage": {"prompt_tokens": 3}}), event({"usage": USAGE})], id="cumulative"),
    ],
)
def test_usage_wherever_it_comes(tail: list[bytes]) -> None:
    """The usage chunk in every shape in use; the last one counts."""
    reply = read(said("hi", "stop"), *tail, b"data: [DONE]\n\n")
    assert (reply.text, reply.usage.input_fresh, reply.usage.output) == ("hi", 3, 1)
    assert reply.raw_usage == USAGE


def test_usage_that_never_comes_is_unknown() -> None:
    """No usage chunk: every bucket is None, never 0."""
    reply = read(said("hi", "stop"))
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.raw_usage) == (None, None, None)


@pytest.mark.parametrize(
    ("chunks", "text", "finish"),
    [
        pytest.param([said("a"), said(None, "length")], "a", "length", id="length"),
        pytest.param([said("a", "content_filter")], "a", "content_filter", id="filtered"),
        pytest.param([said("a", "eos")], "a", "stop", id="other-word-for-stop"),
        pytest.param([said("a", "strange")], "a", "other", id="unknown-word"),
        pytest.param([said("a"), b"data: [DONE]\n\n"], "a", "stop", id="done-without-a-word"),
        pytest.param([said("a", "stop")], "a", "stop", id="a-word-without-done"),
        pytest.param([said([{"type": "text", "text": "a"}, {"type": "thinking"}], "stop")], "a", "stop", id="parts"),
        pytest.param(
            [event({"choices": [{"delta": {"refusal": "I will not"}, "finish_reason": "stop"}]})],
            "I will not",
            "content_filter",
            id="refusal",
        ),
        pytest.param(
            [b'data: {"choices":[{"delta":{"content":"\\ud83c"}}]}\n\n', said("", "stop")], "�", "stop", id="lone"
        ),
        pytest.param(
            [
                b'data: {"choices":[{"delta":{"content":"\\ud83c"}}]}\n\n',
                b'data: {"choices":[{"delta":{"content":"\\udf78"},"finish_reason":"stop"}]}\n\n',
            ],
            "\U0001f378",
            "stop",
            id="surrogate-pair-across-chunks",
        ),
        pytest.param([said("a"), b"event: tick\ndata: now\n\n", said("b", "stop")], "ab", "stop", id="unknown-event"),
        pytest.param([said("a"), b"data: 1\n\n", said("b", "stop")], "ab", "stop", id="scalar-event"),
        pytest.param([said("a"), b"data:  [DONE] \n\n", said("b")], "a", "stop", id="nothing-after-done"),
        pytest.param([b"\n\n", b"  \n", said("a", "stop")], "a", "stop", id="leading-blank"),
    ],
)
def test_endings(chunks: list[bytes], text: str, finish: str) -> None:
    """Text and finish word of each stream."""
    reply = read(*chunks)
    assert (reply.text, reply.finish) == (text, finish)


def test_reasoning_is_no_text_but_is_the_first_token() -> None:
    """Reasoning is left out of the text; the time of the first token counts it."""
    reply = read(event({"choices": [{"delta": {"reasoning": "hm"}}]}), said("a", "stop"))
    assert (reply.text, reply.first_token_ns) == ("a", 7)


@pytest.mark.parametrize(
    ("chunks", "says"),
    [
        pytest.param([said("a")], "ended before", id="no-end"),
        pytest.param([said("a"), b'data: {"choi'], "broke off", id="torn"),
        pytest.param([said("a"), b"data: oops\n\n"], "broke off", id="not-json"),
        pytest.param([b"data: [DONE]\n\n"], "no answer", id="only-done"),
        pytest.param([b'{"choices": ['], "broke off", id="torn-document"),
        pytest.param([b'{"a": 1}'], "no answer", id="other-document"),
        pytest.param([b"data: " + b"[" * 100_000 + b"\n\n"], "broke off", id="too-deep"),
    ],
)
def test_broken_answers(chunks: list[bytes], says: str) -> None:
    """What is no whole answer is a `bad-reply`."""
    with pytest.raises(Fault, match=says) as caught:
        read(*chunks)
    assert caught.value.kind == "bad-reply"


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([said("a"), event({"error": {"message": "overloaded", "code": 503}})], id="in-the-stream"),
        pytest.param([event({"error": "overloaded"})], id="as-text"),
        pytest.param([b'event: error\ndata: {"message":"overloaded"}\n\n'], id="as-event"),
        pytest.param([b'error: {"message":"overloaded"}\n\n'], id="as-field"),
        pytest.param([b"event: error\ndata: overloaded\n\n"], id="as-plain-event"),
        pytest.param([b'{"error":{"message":"overloaded"}}'], id="as-document"),
        pytest.param([b'[{"error":{"message":"overloaded"}}]'], id="in-a-list"),
        pytest.param([event({"object": "error", "message": "overloaded"})], id="as-object"),
    ],
)
def test_errors_inside_a_good_answer(chunks: list[bytes]) -> None:
    """An error body inside a 200 answer is found, in every shape in use."""
    answer = Answer(ChatDraft(clock=lambda: 0))
    for chunk in chunks:
        answer.feed(chunk)
    if not answer.done:
        answer.close()
    assert answer.refusal is not None
    assert answer.refusal.message == "overloaded"

"""The three protocols as a server speaks them, so that one test can be put to all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slate_lab.models.answer import Answer
from slate_lab.models.assemble import Draft
from slate_lab.models.chat import ChatModel
from slate_lab.models.chatreply import ChatDraft
from slate_lab.models.messages import MessagesModel
from slate_lab.models.messagesreply import MessagesDraft
from slate_lab.models.plain import Hide, as_is
from slate_lab.models.responses import ResponsesModel
from slate_lab.models.responsesreply import ResponsesDraft
from slate_lab.models.wire import WireModel
from slate_lab.records import Reply, Route

ROUTE = Route("shop", "m-1")


def event(body: dict[str, Any]) -> bytes:
    """One event, named by its type where it has one."""
    name = f"event: {body['type']}\n" if "type" in body else ""
    return f"{name}data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()


@dataclass(frozen=True)
class Speech:
    """How a protocol streams an answer.

    Attributes:
        head: the events before the first content.
        text: one piece of text.
        call: a call whose arguments come in pieces: its place, id, name, pieces.
        tail: the events that end it, with usage: 10 in, 2 out.
        whole: the same answer as one document: text and calls of (id, name, arguments as text).
        error: an error inside the stream.
        thought: reasoning that is no text, and is carried back if `sealed`.
    """

    name: str
    model: type[WireModel]
    draft: Callable[[], Draft]
    head: tuple[bytes, ...]
    text: Callable[[str], bytes]
    call: Callable[[int, str, str, Sequence[str]], list[bytes]]
    tail: Callable[[str], list[bytes]]
    whole: Callable[[str, Sequence[tuple[str, str, str]]], dict[str, Any]]
    error: bytes
    thought: list[bytes]

    def good(self) -> list[bytes]:
        """The answer `hello`."""
        return [*self.head, self.text("hel"), self.text("lo"), *self.tail("stop")]

    def read(self, chunks: Sequence[bytes], *, hide: Hide = as_is) -> Reply:
        """The reply of these chunks."""
        answer = Answer(self.draft(), hide=hide)
        for chunk in chunks:
            answer.feed(chunk)
            if answer.done:
                break
        else:
            answer.close()
        return answer.reply()


# chat
def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    return event({"id": "r1", "model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _chat_call(n: int, call_id: str, name: str, pieces: Sequence[str]) -> list[bytes]:
    head = {"index": n, "id": call_id, "function": {"name": name, "arguments": ""}}
    return [_chunk({"tool_calls": [head]})] + [
        _chunk({"tool_calls": [{"index": n, "function": {"arguments": piece}}]}) for piece in pieces
    ]


def _chat_tail(finish: str) -> list[bytes]:
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    return [_chunk({}, finish), event({"choices": [], "usage": usage}), b"data: [DONE]\n\n"]


def _chat_whole(text: str, calls: Sequence[tuple[str, str, str]]) -> dict[str, Any]:
    made = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in calls]
    message = {"role": "assistant", "content": text, "tool_calls": made}
    return {
        "id": "r1",
        "model": "m-1",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    }


CHAT = Speech(
    name="chat",
    model=ChatModel,
    draft=lambda: ChatDraft(clock=lambda: 7),
    head=(_chunk({"role": "assistant", "content": ""}),),
    text=lambda piece: _chunk({"content": piece}),
    call=_chat_call,
    tail=_chat_tail,
    whole=_chat_whole,
    error=event({"error": {"message": "overloaded", "code": 503}}),
    thought=[_chunk({"reasoning_content": "hm"})],
)

# responses
R_USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 2,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 12,
}


def _response(status: str, output: Sequence[dict[str, Any]] = (), **rest: Any) -> dict[str, Any]:
    made = {"id": "r1", "object": "response", "model": "m-1", "status": status, "error": None, "output": list(output)}
    return {**made, **rest}


def _r_call(n: int, call_id: str, name: str, pieces: Sequence[str]) -> list[bytes]:
    item = {"id": f"fc_{n}", "type": "function_call", "call_id": call_id, "name": name, "arguments": ""}
    place = {"output_index": n, "item_id": f"fc_{n}"}
    return [
        event({"type": "response.output_item.added", "output_index": n, "item": item}),
        *[event({"type": "response.function_call_arguments.delta", **place, "delta": piece}) for piece in pieces],
    ]


def _r_tail(finish: str) -> list[bytes]:
    if finish == "length":
        details = {"incomplete_details": {"reason": "max_output_tokens"}}
        return [event({"type": "response.incomplete", "response": _response("incomplete", usage=R_USAGE, **details)})]
    return [event({"type": "response.completed", "response": _response("completed", usage=R_USAGE)})]


def _r_whole(text: str, calls: Sequence[tuple[str, str, str]]) -> dict[str, Any]:
    said = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    made = [{"type": "function_call", "id": f"fc_{i}", "call_id": i, "name": n, "arguments": a} for i, n, a in calls]
    return _response("completed", [*([said] if text else []), *made], usage=R_USAGE)


RESPONSES = Speech(
    name="responses",
    model=ResponsesModel,
    draft=lambda: ResponsesDraft(route=ROUTE, clock=lambda: 7),
    head=(event({"type": "response.created", "response": _response("in_progress")}),),
    text=lambda piece: event(
        {"type": "response.output_text.delta", "output_index": 50, "item_id": "m", "content_index": 0, "delta": piece}
    ),
    call=_r_call,
    tail=_r_tail,
    whole=_r_whole,
    error=event({"type": "error", "code": "server_overloaded", "message": "overloaded"}),
    thought=[
        event({"type": "response.reasoning_summary_text.delta", "output_index": 49, "item_id": "rs", "delta": "hm"}),
        event(
            {
                "type": "response.output_item.done",
                "output_index": 49,
                "item": {"id": "rs", "type": "reasoning", "summary": [], "encrypted_content": "SEALED=="},
            }
        ),
    ],
)


# messages
def _m_call(n: int, call_id: str, name: str, pieces: Sequence[str]) -> list[bytes]:
    block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return [
        event({"type": "content_block_start", "index": n, "content_block": block}),
        *[
            event({"type": "content_block_delta", "index": n, "delta": {"type": "input_json_delta", "partial_json": p}})
            for p in pieces
        ],
        event({"type": "content_block_stop", "index": n}),
    ]


def _m_tail(finish: str) -> list[bytes]:
    word = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}[finish]
    delta = {"stop_reason": word, "stop_sequence": None}
    return [
        event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 2}}),
        event({"type": "message_stop"}),
    ]


def _m_whole(text: str, calls: Sequence[tuple[str, str, str]]) -> dict[str, Any]:
    made = [{"type": "tool_use", "id": i, "name": n, "input": json.loads(a) if a else {}} for i, n, a in calls]
    return {
        "id": "r1",
        "type": "message",
        "role": "assistant",
        "model": "m-1",
        "content": [*([{"type": "text", "text": text}] if text else []), *made],
        "stop_reason": "tool_use" if calls else "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 2},
    }


MESSAGES = Speech(
    name="messages",
    model=MessagesModel,
    draft=lambda: MessagesDraft(route=ROUTE, clock=lambda: 7),
    head=(
        event(
            {
                "type": "message_start",
                "message": {
                    "id": "r1",
                    "type": "message",
                    "model": "m-1",
                    "content": [],
                    "usage": {"input_tokens": 10, "output_tokens": 1},
                },
            }
        ),
        event({"type": "ping"}),
        event({"type": "content_block_start", "index": 50, "content_block": {"type": "text", "text": ""}}),
    ),
    text=lambda piece: event(
        {"type": "content_block_delta", "index": 50, "delta": {"type": "text_delta", "text": piece}}
    ),
    call=_m_call,
    tail=_m_tail,
    whole=_m_whole,
    error=event({"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}}),
    thought=[
        event({"type": "content_block_start", "index": 49, "content_block": {"type": "thinking", "thinking": ""}}),
        event({"type": "content_block_delta", "index": 49, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
        event({"type": "content_block_delta", "index": 49, "delta": {"type": "signature_delta", "signature": "S=="}}),
        event({"type": "content_block_stop", "index": 49}),
    ],
)

ALL = (CHAT, RESPONSES, MESSAGES)

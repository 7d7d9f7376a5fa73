"""A model that answers from a script: for tests, demos and offline work, by the same door as every other.

In: a list of answers, or a function from the request to an answer. Out: replies whose tokens are counted with the
lab's own counter and marked so in `raw_usage`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from slate_lab import tokens
from slate_lab.errors import ModelError
from slate_lab.models.border import plain_reply
from slate_lab.models.estimate import count_reply, count_request
from slate_lab.models.example import instance_of
from slate_lab.models.plain import plain_text
from slate_lab.models.protocol import Capabilities, Delta
from slate_lab.records import Reply, Request, ToolCall, Usage

__all__ = ["Item", "ScriptedModel"]

Item = str | Reply | ToolCall | Mapping[str, Any] | Sequence[ToolCall | Mapping[str, Any]] | BaseException
"""One answer: text, a whole reply, one or more tool calls (`{"tool": name, "args": {...}}`), or an error to raise."""

Script = Sequence[Item] | Callable[[Request], Item | Awaitable[Item]]

_PIECE = 12  # characters of one streamed piece


class ScriptedModel:
    """Answers requests from a script, in order.

    Args:
        script: a list of answers, or a function (sync or async) that makes one from the request. It is called on the
            lab's loop, where a function that blocks (`time.sleep`, a request) stops every thread: such a function is
            async, or `blocking` is set.
        capabilities: what it claims to be able to do.
        delay_s: seconds before each answer.
        answer_schemas: a list answers requests that carry a JSON Schema with a small valid instance, without using
            up an item, so that a list holds the worker's turns alone. False takes the next item for them too.
        blocking: call the function in a thread of its own, at about 0.1 ms a call. It may then run in several threads
            at once, and goes on to its end when the action is cancelled.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        capabilities: Capabilities | None = None,
        delay_s: float = 0.0,
        answer_schemas: bool = True,
        blocking: bool = False,
    ) -> None:
        self.capabilities = capabilities or Capabilities(window=128_000, max_output=16_000)
        self.requests: list[Request] = []
        self._script = script
        self._delay_s = delay_s
        self._answer_schemas = answer_schemas and not callable(script)
        self._blocking = blocking
        self._next = 0

    async def reply(self, request: Request, *, on_delta: Delta | None = None) -> Reply:
        """The next answer of the script; `requests` remembers what was asked."""
        self.requests.append(request)
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        item = await self._item(request)
        if isinstance(item, BaseException):
            raise item
        reply = _reply(item, n=len(self.requests))
        await _stream(reply.text, on_delta)
        return reply if reply.usage != Usage() else _counted(request, reply)

    async def aclose(self) -> None:
        """Nothing to release."""

    async def _item(self, request: Request) -> Item:
        if callable(self._script):
            made = await asyncio.to_thread(_called, self._script, request) if self._blocking else self._script(request)
            return await made if inspect.isawaitable(made) else made
        if request.schema is not None and self._answer_schemas:
            return msgspec.json.encode(instance_of(request.schema)).decode()
        if self._next >= len(self._script):
            raise ModelError(
                "bad-request",
                f"the script has no answer number {self._next + 1}: it holds {len(self._script)}; add one",
            )
        self._next += 1
        return self._script[self._next - 1]


def _called(script: Callable[[Request], Item | Awaitable[Item]], request: Request) -> Item | Awaitable[Item]:
    """What the function makes; the end of an iterator in it cannot leave a thread as what it is."""
    try:
        return script(request)
    except StopIteration as error:
        raise RuntimeError("the script function raised StopIteration") from error


def _reply(item: Item, *, n: int) -> Reply:
    if isinstance(item, str):
        return Reply(text=plain_text(item))
    if isinstance(item, Reply):
        return plain_reply(item)
    calls = item if isinstance(item, Sequence) else [item]
    made = tuple(_call(call, f"call_{n}_{i}") for i, call in enumerate(calls, start=1))
    return plain_reply(Reply(text="", calls=made, finish="tool_calls"))


def _call(item: object, call_id: str) -> ToolCall:
    if isinstance(item, ToolCall):
        return item
    if isinstance(item, Mapping) and isinstance(item.get("tool"), str) and not set(item) - {"tool", "args"}:
        return ToolCall(id=call_id, name=item["tool"], arguments=dict(item.get("args") or {}))
    raise TypeError(
        f"a script holds text, a Reply, ToolCalls, {{'tool': name, 'args': {{...}}}} or an error, not {item!r}"
    )


async def _stream(text: str, on_delta: Delta | None) -> None:
    if on_delta is None:
        return
    for start in range(0, len(text), _PIECE):
        on_delta(text[start : start + _PIECE])
        await asyncio.sleep(0)


def _counted(request: Request, reply: Reply) -> Reply:
    read, written = count_request(request), count_reply(reply)
    usage = Usage(input_fresh=read, output=written, total_reported=read + written)
    raw = {"counted_by": "slate_lab", "encoding": tokens.ENCODING, "input": read, "output": written}
    return msgspec.structs.replace(reply, usage=usage, raw_usage=raw)

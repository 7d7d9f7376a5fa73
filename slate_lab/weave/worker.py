"""The worker: one conversation of a model with its tools, from the brief to the final message.

It decides nothing about threads, permits or episodes: it returns an `Outcome`, and raises only when it is cancelled
or when the ground gives way (the store cannot be written).
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from slate_lab.errors import LabError, StoreError
from slate_lab.models.protocol import Delta
from slate_lab.records import CallKind, Message, Reply, Request, ToolCall
from slate_lab.weave.facts import FactLog
from slate_lab.weave.meter import Meter
from slate_lab.weave.tools import Kit, Tool, ToolFailed

__all__ = ["STUCK", "Ask", "Live", "Outcome", "Worker"]

STUCK = 3
"""The same calls with the same arguments this many times in a row end a thread."""
TAIL = 400
"""Characters of streamed text kept for live views."""


class Outcome(Struct, frozen=True, kw_only=True):
    """How a conversation ended: `ok`, or not with a code; `final` is the last message of the
    assistant, `fault` the traceback of an error nobody foresaw."""

    ok: bool
    code: str | None = None
    detail: str | None = None
    final: str = ""
    truncated: bool = False
    fault: str | None = None


class Ask(Protocol):
    """One request through the gate, counted and stored under its kind."""

    async def __call__(
        self,
        request: Request,
        *,
        kind: CallKind,
        on_delta: Delta | None = None,
        keep: Callable[[Reply], None] | None = None,
    ) -> Reply:
        """The reply, given to `keep` as it is stored; raises `ModelError`."""
        ...


class Live:
    """What a live view may see of a worker at any moment; written on the loop, read anywhere."""

    def __init__(self) -> None:
        self.doing = ""
        self.text = ""

    def delta(self, piece: str) -> None:
        """A piece of streamed text."""
        self.text = (self.text + piece)[-TAIL:]


class Worker:
    """One action's conversation.

    Args:
        messages: the brief.
        tools: what it may call, by name.
        kit: what the tools work with.
        ask: a request through the gate.
        facts, meter, live: where it writes what it found, used and is doing.
        name: the logical model, for live views.
        max_output_tokens: reserved for one answer.
        steer: messages of a person that wait to be seen.
    """

    def __init__(
        self,
        messages: tuple[Message, ...],
        *,
        tools: Mapping[str, Tool],
        kit: Kit,
        ask: Ask,
        facts: FactLog,
        meter: Meter,
        live: Live,
        name: str,
        effort: str | None,
        max_output_tokens: int | None,
        steer: list[str],
    ) -> None:
        self._messages = list(messages)
        self._tools, self._kit, self._ask = tools, kit, ask
        self._facts, self._meter, self._live = facts, meter, live
        self._name, self._effort, self._max_output_tokens = name, effort, max_output_tokens
        self._steer = steer
        self._specs = tuple(t.spec for t in tools.values())
        self._last = ""
        self._same = 0
        self.final = ""

    async def run(self) -> Outcome:
        """Converse until the model gives its final message, or something ends it."""
        try:
            return await self._converse()
        except StoreError:
            raise
        except LabError as e:
            return Outcome(ok=False, code=e.code, detail=e.message, final=self.final)
        except Exception as e:  # noqa: BLE001  a fault of ours or of a foreign model: what was found is kept
            trace = "".join(traceback.format_exception(e))[-8_000:]
            detail = f"{type(e).__name__}: {e}"
            return Outcome(ok=False, code="internal", detail=detail, final=self.final, fault=trace)

    async def _converse(self) -> Outcome:
        while True:
            self._meter.check()
            reply = await self._next()
            self._meter.turns += 1
            self.final = reply.text.strip() or self.final
            if not reply.calls:
                return self._end(reply)
            if self._stuck(reply.calls):
                return Outcome(ok=False, code="stuck", detail=self._stuck_words(reply.calls), final=self.final)
            self._meter.check_tools(len(reply.calls))
            self._messages.append(Message(role="assistant", text=reply.text, calls=reply.calls))
            self._messages += await self._run_tools(reply.calls)

    async def _next(self) -> Reply:
        offered = self._specs if self._meter.may_call_tools else ()
        self._messages += [Message(role="user", text=text) for text in self._steer]
        self._steer.clear()
        messages = self._messages
        if self._meter.turns and (left := self._meter.left()):
            note = left if offered or not self._specs else f"{left} Answer now, without tools."
            messages = [*messages, Message(role="user", text=note)]
        self._live.doing, self._live.text = f"asking {self._name}", ""
        request = Request(
            messages=tuple(messages),
            tools=offered,
            max_output_tokens=self._max_output_tokens,
            effort=self._effort,
            temperature=0.0,
        )
        return await self._ask(request, kind="worker", on_delta=self._live.delta, keep=self._keep_text)

    def _keep_text(self, reply: Reply) -> None:
        self._facts.text(reply.text)

    def _end(self, reply: Reply) -> Outcome:
        if not reply.text.strip():
            return Outcome(ok=False, code="no_final_message", detail="the model ended without a final message")
        return Outcome(ok=True, final=reply.text.strip(), truncated=reply.finish == "length")

    def _stuck(self, calls: tuple[ToolCall, ...]) -> bool:
        shape = repr([(c.name, sorted(c.arguments.items(), key=str)) for c in calls])
        self._same = self._same + 1 if shape == self._last else 1
        self._last = shape
        return self._same >= STUCK

    def _stuck_words(self, calls: tuple[ToolCall, ...]) -> str:
        return f"the same call of {calls[0].name} was made {STUCK} times in a row"

    async def _run_tools(self, calls: tuple[ToolCall, ...]) -> list[Message]:
        self._live.doing = ", ".join(_doing(c, self._tools.get(c.name)) for c in calls)[:200]
        self._meter.tool_calls += len(calls)
        tasks = [asyncio.ensure_future(self._run_tool(call)) for call in calls]
        messages: list[Message] = []
        try:
            for call, task in zip(calls, tasks, strict=True):  # kept in call order, each once the earlier ones are in
                messages.append(self._keep(call, await task))
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for call, task in list(zip(calls, tasks, strict=True))[len(messages) :]:
                if not task.cancelled() and task.exception() is None:
                    self._keep(call, task.result())
            raise
        return messages

    def _keep(self, call: ToolCall, result: tuple[str, bool]) -> Message:
        text, ok = result
        self._facts.tool(call.name, call.arguments, text, ok=ok)
        return Message(role="tool", text=text, call_id=call.id, name=call.name)

    async def _run_tool(self, call: ToolCall) -> tuple[str, bool]:
        """The result of one call and whether it went well; what goes wrong in a tool is told to the model."""
        if call.error:
            return f"error: {call.error}", False
        tool = self._tools.get(call.name)
        if tool is None:
            return f"error: there is no tool {call.name!r}; the tools are {', '.join(self._tools) or 'none'}", False
        try:
            return await tool.call(self._kit, call.arguments), True
        except ToolFailed as e:
            return f"error: {e.message}", False
        except Exception as e:  # noqa: BLE001  a tool is foreign code: its fault is told, not raised
            return self._kit.bounded(f"error: {call.name} failed: {type(e).__name__}: {e}"), False


def _doing(call: ToolCall, tool: Tool | None) -> str:
    if tool is not None and tool.doing is not None:
        return tool.doing(call.arguments)[:80]
    first = next((str(v) for v in call.arguments.values()), "")
    return f"{call.name} {first}".strip()[:80]

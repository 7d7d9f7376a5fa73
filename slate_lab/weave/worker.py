"""The worker: one conversation of a model with its tools, from the brief to the final message.

It decides nothing about threads, permits or episodes: it returns an `Outcome`, and raises only when it is cancelled.
A tool's error is told to the model; when the ground gives way (the store is locked, the disk is full) the work ends.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from msgspec import Struct

from slate_lab.errors import LabError, LimitExceeded, ModelError, StoreError
from slate_lab.models.protocol import Delta
from slate_lab.records import CallKind, Message, Reply, Request, ToolCall, ToolSpec
from slate_lab.weave.facts import FactLog
from slate_lab.weave.ground import is_ground, plan_ground
from slate_lab.weave.history import History
from slate_lab.weave.meter import Meter
from slate_lab.weave.stuck import Circles
from slate_lab.weave.tools import Kit, Tool, ToolFailed

__all__ = ["Ask", "Live", "Outcome", "Worker"]

TAIL = 400
"""Characters of streamed text kept for live views."""
MOST_CALLS, AT_ONCE = 128, 16
"""Calls of one reply that are run, and how many of them at once; the rest is told that it was not run."""


Note = Callable[[str, dict[str, Any]], None]
"""Keeps an event of the thread."""


class Outcome(Struct, frozen=True, kw_only=True):
    """How a conversation ended: `ok`, or not with a code; `final` is the last message of the
    assistant, `fault` the traceback of an error nobody foresaw, `ground` says that the store or the disk gave way."""

    ok: bool
    code: str | None = None
    detail: str | None = None
    final: str = ""
    truncated: bool = False
    fault: str | None = None
    ground: bool = False


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
        history: the conversation, which begins with the brief.
        tools: what it may call, by name.
        kit: what the tools work with.
        ask: a request through the gate.
        facts, meter, live: where it writes what it found, used and is doing.
        name: the logical model, for live views.
        max_output_tokens: reserved for one answer.
        steer: messages of a person that wait to be seen.
        circles: notices when it goes round in circles.
        note: keeps an event of the thread: its kind and what else is known.
    """

    def __init__(
        self,
        history: History,
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
        circles: Circles,
        note: Note,
    ) -> None:
        self._history = history
        self._tools, self._kit, self._ask = tools, kit, ask
        self._facts, self._meter, self._live = facts, meter, live
        self._name, self._effort, self._max_output_tokens = name, effort, max_output_tokens
        self._steer, self._circles, self._note = steer, circles, note
        kit.call = self._call_from_code
        self.final = ""

    @property
    def _specs(self) -> tuple[ToolSpec, ...]:
        """What is offered now: a unit may add tools while the worker runs."""
        return tuple(tool.spec for tool in self._tools.values())

    async def run(self) -> Outcome:
        """Converse until the model gives its final message, or something ends it."""
        try:
            return await self._converse()
        except LabError as e:
            if isinstance(e, StoreError):
                return self._ground(e)
            return Outcome(ok=False, code=e.code, detail=e.message, final=self.final)
        except Exception as e:  # noqa: BLE001  a fault of ours or of a foreign model: what was found is kept
            if isinstance(e, OSError) and is_ground(e):
                return self._ground(e)
            trace = "".join(traceback.format_exception(e))[-8_000:]
            detail = f"{type(e).__name__}: {e}"
            return Outcome(ok=False, code="internal", detail=detail, final=self.final, fault=trace)

    def _ground(self, error: StoreError | OSError) -> Outcome:
        code, detail = plan_ground(error)
        return Outcome(ok=False, code=code, detail=detail, final=self.final, ground=True)

    async def _converse(self) -> Outcome:
        while True:
            self._meter.check()
            reply = await self._next()
            self._meter.count_turn()
            self.final = reply.text.strip() or self.final
            if not reply.calls:
                if not self._steer:
                    return self._end(reply)
                self._history.add(
                    [Message(role="assistant", text=reply.text, carried=reply.carried)]
                )  # a person has more to say
                continue
            if stuck := self._circles.asks(reply.calls):
                return Outcome(ok=False, code="stuck", detail=stuck, final=self.final)
            self._meter.check_tools(len(reply.calls))
            results = await self._run_tools(reply.calls)
            turn = Message(role="assistant", text=reply.text, calls=reply.calls, carried=reply.carried)
            self._history.add([turn, *results])
            if stuck := self._circles.learns([reply.text, *(m.text for m in results)]):
                return Outcome(ok=False, code="stuck", detail=stuck, final=self.final)

    async def _next(self) -> Reply:
        offered = self._specs if self._meter.may_call_tools else ()
        while self._steer:
            self._history.add([Message(role="user", text=self._steer.pop(0))])
        if self._history.is_long:
            await self._compact()
        self._live.doing, self._live.text = f"asking {self._name}", ""
        try:
            reply = await self._ask(
                self._request(offered), kind="worker", on_delta=self._live.delta, keep=self._keep_text
            )
        except ModelError as e:
            if e.kind != "context-overflow" or not self._meter.turns:
                raise
            await self._compact()  # the provider counts otherwise: once more with a shorter history
            self._meter.check()
            reply = await self._ask(
                self._request(offered), kind="worker", on_delta=self._live.delta, keep=self._keep_text
            )
        self._history.measured(reply.usage)
        return reply

    def _request(self, offered: tuple[ToolSpec, ...]) -> Request:
        messages = self._history.messages
        if self._meter.turns and (left := self._meter.left()):
            note = left if offered or not self._specs else f"{left} Answer now, without tools."
            messages = [*messages, Message(role="user", text=note)]
        return Request(
            messages=tuple(messages),
            tools=offered,
            max_output_tokens=self._max_output_tokens,
            effort=self._effort,
            temperature=0.0,
        )

    async def _compact(self) -> None:
        self._live.doing, self._live.text = "compacting", ""
        await self._history.compact(
            partial(self._ask, kind="compaction"), lambda data: self._note("thread.compacted", data)
        )
        self._meter.check()

    def _keep_text(self, reply: Reply) -> None:
        self._facts.text(reply.text)

    def _end(self, reply: Reply) -> Outcome:
        if not reply.text.strip():
            return Outcome(ok=False, code="no_final_message", detail="the model ended without a final message")
        return Outcome(ok=True, final=reply.text.strip(), truncated=reply.finish == "length")

    async def _run_tools(self, calls: tuple[ToolCall, ...]) -> list[Message]:
        self._live.doing = ", ".join(_doing(c, self._tools.get(c.name)) for c in calls)[:200]
        self._meter.count_tools(len(calls))
        calls, over = calls[:MOST_CALLS], calls[MOST_CALLS:]
        turns = asyncio.Semaphore(AT_ONCE)
        tasks = [asyncio.ensure_future(self._run_in_turn(call, turns)) for call in calls]
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
        return messages + [_not_run(call) for call in over]

    async def _run_in_turn(self, call: ToolCall, turns: asyncio.Semaphore) -> tuple[str, bool]:
        async with turns:
            return await self._run_tool(call)

    def _keep(self, call: ToolCall, result: tuple[str, bool]) -> Message:
        text, ok = result
        self._facts.tool(call.name, call.arguments, text, ok=ok)
        return Message(role="tool", text=text, call_id=call.id, name=call.name)

    async def _call_from_code(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """A call that code of the worker makes: counted and kept like one of the model."""
        try:
            self._meter.check_tools(1)
        except LimitExceeded as e:
            return f"error: {e.message}", False
        self._meter.count_tools(1)
        call = ToolCall(id="", name=name, arguments=arguments)
        text, ok = await self._run_tool(call)
        self._keep(call, (text, ok))
        return text, ok

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
            if e.__cause__ is not None and is_ground(e.__cause__):
                raise e.__cause__ from e
            return f"error: {e.message}", False
        except StoreError:
            raise
        except Exception as e:
            if is_ground(e):
                raise
            return self._kit.bounded(f"error: {call.name} failed: {type(e).__name__}: {e}"), False


def _not_run(call: ToolCall) -> Message:
    text = f"error: not run: make at most {MOST_CALLS} calls at once"
    return Message(role="tool", text=text, call_id=call.id, name=call.name)


def _doing(call: ToolCall, tool: Tool | None) -> str:
    if tool is not None and tool.doing is not None:
        return tool.doing(call.arguments)[:80]
    first = next((str(v) for v in call.arguments.values()), "")
    return f"{call.name} {first}".strip()[:80]

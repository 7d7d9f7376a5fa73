"""Approval: a call that a person must allow waits in the store until someone answers, or its time is up.

In: a call of a tool. Out: nothing if it may be made, `ToolFailed` with the reason if not. `Desk.ask` is awaited on the
lab's loop before the tool runs; `Desk.answer` is called by anyone, in this process or another one with the same store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from slate_lab.errors import LabError
from slate_lab.records.approval import Approval, ApprovalState
from slate_lab.store import Store
from slate_lab.tokens import clean
from slate_lab.weave.tools.workspace import ToolFailed
from slate_lab.weave.worker import Live

__all__ = ["Desk"]

POLL_S = 0.1
"""How often the store is asked for an answer while a call waits."""
MAX_ARGUMENTS = 20_000
"""Characters of arguments that are shown; a call with more says how many it has."""
MAX_WHY = 500


class Desk:
    """Where calls wait.

    Args:
        store: where questions and answers stand.
        seconds: how long a call waits before it is denied.
    """

    def __init__(self, store: Store, *, seconds: float) -> None:
        self._store, self._seconds = store, seconds

    async def ask(self, thread: str, live: Live, tool: str, arguments: Mapping[str, Any]) -> None:
        """Wait for the answer to one call.

        Raises:
            ToolFailed: it was denied, or nobody answered in time.
        """
        id = self._store.approvals.ask(thread, clean(tool), _shown(arguments))
        self._store.events.add("approval.asked", thread=thread, data={"approval": id, "tool": clean(tool)})
        doing, live.doing = live.doing, f"{tool} waits for approval: slate-lab approve {id}"
        try:
            answer = await self._wait(id)
        except BaseException:
            self._store.approvals.answer(id, "withdrawn")
            raise
        finally:
            live.doing = doing
        self._store.events.add(f"approval.{answer.state}", thread=thread, data={"approval": id, "why": answer.why})
        if answer.state == "approved":
            return
        if answer.state == "denied":
            why = f": {answer.why}" if answer.why else ""
            raise ToolFailed(f"a person denied this call of {tool}{why}. Do without it, or say what you need it for")
        raise ToolFailed(f"nobody approved this call of {tool} within {self._seconds:g} s: do without it")

    def pending(self) -> list[Approval]:
        """What waits, oldest first, whichever process asked."""
        return self._store.approvals.pending()

    def answer(self, id: str, *, allow: bool, why: str = "") -> list[Approval]:
        """Approve or deny one call (`a7`), or everything a thread waits for (`t3`); returns what was answered.

        Raises:
            LabError: nothing of that id waits; what does is listed.
        """
        waiting = self.pending()
        found = [a for a in waiting if id in (a.id, a.thread)]
        why = " ".join(clean(why).split())[:MAX_WHY]
        state: ApprovalState = "approved" if allow else "denied"
        answered = [a.id for a in found if self._store.approvals.answer(a.id, state, why)]
        if not answered:
            known = ", ".join(f"{a.id} ({a.thread} {a.tool})" for a in waiting) or "nothing"
            raise LabError(f"no call {id!r} waits for approval; what waits: {known}", code="unknown_approval")
        return [a for a in map(self._store.approvals.get, answered) if a is not None]

    async def _wait(self, id: str) -> Approval:
        until = asyncio.get_running_loop().time() + self._seconds
        while True:
            found = self._store.approvals.get(id)
            assert found is not None
            if found.state != "pending":
                return found
            if asyncio.get_running_loop().time() >= until:
                self._store.approvals.answer(id, "expired")  # an answer that comes now loses or wins, never both
                continue
            await asyncio.sleep(POLL_S)


def _shown(arguments: Mapping[str, Any]) -> str:
    text = clean(msgspec.json.encode(arguments, enc_hook=str).decode("utf-8", "replace"))
    if len(text) <= MAX_ARGUMENTS:
        return text
    return f"{text[:MAX_ARGUMENTS]} (... {len(text)} characters, the rest is not shown)"

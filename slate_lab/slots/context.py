"""`ctx`: everything a slot is handed. What it contributes is staged; what it may not do raises at the call.

In: the draft of the turn, the slot, the ports. Out: a `Staged` that `pipeline` takes over when the slot has finished.
Calls that wait (`ctx.tools.call`, `ctx.threads.run`) are awaited in an `async def` slot and simply return in a `def`
slot, which runs in a thread of its own.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal

from slate_lab.errors import LabError
from slate_lab.records import HistoryEntry
from slate_lab.slots.draft import USER, Draft, Part, Staged
from slate_lab.slots.manifest import HistoryPolicy
from slate_lab.slots.outside import Slates, Threads, Tools
from slate_lab.slots.pipelines import Lane
from slate_lab.slots.ports import Ports
from slate_lab.slots.sending import Sending, read_policy, read_text
from slate_lab.slots.state import Scope
from slate_lab.slots.surface import Slot

__all__ = ["Context"]

Audit = Callable[[str, bool], None]
"""Told of every capability that was asked for, and whether it is granted."""


class Context(Sending):
    """What one run of one slot may see and do.

    Attributes:
        session_id: the session, `c2`.
        turn: the number of the turn; 0 in bootstrap.
        slot_id, slot_path: the slot's name and folder.
        workspace: the folder shared with workers.
        capability, state, history: in every phase.
        tools, threads, slate: what lies outside the turn, by capability.
    """

    def __init__(self, slot: Slot, lane: Lane, draft: Draft, ports: Ports, *, audit: Audit, loop: Any) -> None:
        super().__init__(slot, lane, draft, ports, Staged())
        self.session_id, self.turn = draft.session, draft.turn
        self.slot_id, self.slot_path, self.workspace = slot.id, slot.folder, draft.workspace
        self._loop = loop
        self._waiting: set[concurrent.futures.Future[Any]] = set()
        self._audit = audit

    @property
    def capability(self) -> Capability:
        """`can(name)` and `require(name)`."""
        return Capability(self)

    @property
    def bootstrap(self) -> Bootstrap:
        """`add(text)`: for every turn of the session."""
        self._check_phase("bootstrap")
        return Bootstrap(self)

    @property
    def input(self) -> Input:
        """The prompt that is being made."""
        self._check_phase("input")
        return Input(self)

    @property
    def output(self) -> Output:
        """The answer of the model."""
        self._check_phase("output")
        return Output(self._draft)

    @property
    def result(self) -> Result:
        """`set(value)`: what the turn returns beside its text."""
        self._check_phase("output")
        return Result(self)

    @property
    def history(self) -> History:
        """`recent(limit, roles)`: what was said."""
        return History(self)

    @property
    def state(self) -> States:
        """`session` and `project`."""
        return self._once("state", lambda: States(self))

    @property
    def tools(self) -> Tools:
        """`call(name, args)`."""
        return Tools(self._ports.tools, self.capability.require, self.wait)

    @property
    def threads(self) -> Threads:
        """`run(task)` and `spawn(task)`."""
        return Threads(self._ports.threads, self.capability.require, self.wait)

    @property
    def slate(self) -> Slates:
        """Declared memory."""
        return Slates(self._ports.slates, self.capability.require, f"slot:{self.slot_id}")

    # for the phases

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """`work` itself where it can be awaited, its result where the slot runs in a thread."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            return work
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future.result()

    def close(self) -> Staged:
        """End the run: what comes later raises, what still waits is given up. Returns what was staged."""
        self._open, self._audit = False, _deaf
        for future in list(self._waiting):
            future.cancel()
        return self._staged

    @property
    def changes(self) -> dict[str, list[Any]]:
        """Staged changes of the state by scope."""
        made = self._made.get("state")
        if made is None:
            return {}
        scopes = {self.session_id: made.session.changes, "project": made.project.changes}
        return {scope: changes for scope, changes in scopes.items() if changes}


class Capability:
    """`ctx.capability`: what the slot is granted; every question is noted."""

    def __init__(self, context: Context) -> None:
        self._context, self._slot = context, context._slot

    def can(self, name: str) -> bool:
        """Whether `name` is granted."""
        self._context._check_open()
        granted = self._slot.grants.can(name)
        self._context._audit(name, granted)
        return granted

    def require(self, name: str) -> None:
        """Raises unless `name` is granted."""
        if self.can(name):
            return
        asked = [p for p in self._slot.grants.asked if p == name or (p.endswith("*") and name.startswith(p[:-1]))]
        hint = (
            "slots.capabilities in slate.yaml does not allow it"
            if asked
            else f"add it to capabilities in {self._slot.folder.name}/slot.yaml"
        )
        raise LabError(f"the slot {self._slot.id} may not use {name}: {hint}", code="capability_denied")


class Bootstrap:
    """`ctx.bootstrap`."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def add(self, text: str) -> None:
        """A fragment of the system message, for every turn of the session."""
        self._context.stage().fragments.append(read_text("a fragment", text))


class Input:
    """`ctx.input`: what was typed, and the prompt that comes of it.

    Attributes:
        raw_text: what was asked, as it was typed.
        attachments: paths that came with it.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.raw_text = context._draft.raw_text
        self.attachments = context._draft.attachments

    def add(self, section: str, content: str, history_policy: HistoryPolicy | None = None) -> None:
        """Add to a section of the prompt: `user` is the user's text of this turn, others stand before it.

        What is added is stored in the session as its history policy says.
        """
        context = self._context
        staged = context.stage(serial="change the prompt")
        section, content = read_text("a section", section), read_text("content", content)
        policy = read_policy(history_policy, context.policy)
        staged.parts.append(Part(slot=context.slot_id, text=content, section=section))
        if policy != "transient":
            said = content if section == USER else f"[{section}]\n{content}"
            entry = HistoryEntry(
                turn=context.turn, role="user", text=said, slot=context.slot_id, visible=policy == "persist"
            )
            staged.history.append(entry)

    def add_context(self, content: str, role: Literal["system", "user"] = "system") -> None:
        """Context for this turn only: at the end of the system message, or before the user's text."""
        if role not in ("system", "user"):
            raise LabError(f"the role of context is system or user, not {role!r}", code="bad_value")
        context = self._context
        staged = context.stage(serial="change the prompt")
        staged.parts.append(Part(slot=context.slot_id, text=read_text("context", content), role=role))


class Output:
    """`ctx.output`.

    Attributes:
        response_text: what the model answered.
        metadata: what is known of the answer: model, route, finish, tokens, cost.
    """

    def __init__(self, draft: Draft) -> None:
        self.response_text = draft.response_text
        self.metadata = dict(draft.metadata)


class Result:
    """`ctx.result`."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def set(self, value: Any) -> None:
        """What the turn returns beside its text; the last one counts. JSON only."""
        self._context.stage(serial="set the result").results.append(self._context.plain(value))


class History:
    """`ctx.history`."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def recent(self, limit: int = 20, roles: Sequence[str] | None = None) -> list[HistoryEntry]:
        """The newest entries of the session, oldest first, this turn's included; `roles` are user and assistant."""
        draft = self._context._draft
        stored = self._context._ports.history.recent(draft.session, limit=limit, roles=roles)
        now = [e for e in draft.history if roles is None or e.role in roles]
        return [*stored, *now][-limit:] if limit > 0 else []


class States:
    """`ctx.state`.

    Attributes:
        session: kept for this session.
        project: kept for all sessions of the project.
    """

    def __init__(self, context: Context) -> None:
        self.session = self._scope(context, "session", context.session_id)
        self.project = self._scope(context, "project", "project")

    @staticmethod
    def _scope(context: Context, name: str, scope: str) -> Scope:
        state, require = context._ports.state, context.capability.require
        return Scope(lambda: state.read(scope), lambda what: require(f"state.{name}.{what}"))


def _deaf(name: str, allowed: bool) -> None:
    """The run is over."""

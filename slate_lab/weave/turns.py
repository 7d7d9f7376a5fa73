"""Slots around a worker: before it converses they change its brief, afterwards they see what it says.

In: a job whose thread type carries slots, its brief, its outcome. Out: the brief and the outcome that count. Called by
`run`. Each such worker is a session of one turn; a hard failure ends the action as failed, with its code.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from slate_lab import tokens
from slate_lab.errors import DispatchError, LabError
from slate_lab.records import Delivery, Turn
from slate_lab.slots.draft import Draft
from slate_lab.slots.ports import Ports
from slate_lab.slots.watch import Seen
from slate_lab.weave.brief import Brief
from slate_lab.weave.job import Job
from slate_lab.weave.slotroom import SlotRoom, chosen
from slate_lab.weave.worker import Outcome

__all__ = ["WorkerTurns", "with_slots"]


class _Going(Struct):
    """A turn between its input and its output."""

    seen: Seen
    draft: Draft
    ports: Ports


class WorkerTurns:
    """The turns of workers."""

    def __init__(self, room: SlotRoom) -> None:
        self._room = room
        self._going: dict[str, _Going] = {}

    async def input(self, job: Job, brief: Brief) -> Brief:
        """The brief with what input slots made of it.

        Raises:
            LabError: a hard slot failed, no slot wrote the user's text, or it does not fit the window.
        """
        slots = job.admitted.kind.slots
        if slots is None or job.kit is None:
            return brief
        room, turns = self._room, self._room.store.turns
        seen = room.look(chosen(slots))
        session = turns.open(job.id)
        n = turns.begin(session.id, job.id)
        job.kit.on_close(lambda: self._give_up(job, session.id, n))

        def live(delivery: Delivery) -> None:
            if delivery.kind in ("progress", "notice"):
                job.live.doing = f"{delivery.slot}: {delivery.text}"[:200]

        ports = room.ports(job.kit, waits=False, live=live)
        draft = Draft(session=session.id, turn=n, workspace=room.workspace, raw_text=job.admitted.action.task)
        self._going[job.id] = _Going(seen, draft, ports)
        job.live.doing = "slots before the worker"
        draft.fragments += await room.start(session, seen, ports)
        await room.pipeline.run("input", seen, draft, ports)
        return _fitting(with_slots(brief, draft), job)

    async def output(self, job: Job, outcome: Outcome) -> Outcome:
        """The outcome with what output slots made of it: what they delivered as text is the final message."""
        going = self._going.get(job.id)
        if going is None or not outcome.ok:
            return outcome
        draft = going.draft
        draft.response_text, draft.metadata = outcome.final, _metadata(job, outcome)
        job.live.doing = "slots after the worker"
        try:
            await self._room.pipeline.run("output", going.seen, draft, going.ports)
        except LabError as e:
            return replace(outcome, ok=False, code=e.code, detail=e.message)
        final = draft.delivered or outcome.final
        if final != outcome.final:
            job.found.text(final)  # what was delivered is found too: an episode without a model is made of facts
        turn = Turn(
            session=draft.session,
            n=draft.turn,
            thread=job.id,
            prompt=draft.raw_text,
            text=final,
            response=outcome.final,
            result=draft.result,
            deliveries=tuple(draft.deliveries),
            started_ns=job.started_ns or 0,
            ended_ns=job.clock(),
        )
        self._room.store.turns.end(turn, draft.history)
        del self._going[job.id]
        return replace(outcome, final=final)

    def _give_up(self, job: Job, session: str, n: int) -> None:
        """The conversation is over: a turn that has not ended well by now never will."""
        if self._going.pop(job.id, None) is not None:
            state: Literal["cancelled", "failed"] = "cancelled" if job.cancelled else "failed"
            self._room.store.turns.fail(session, n, state=state, code=state, detail=f"its worker {state}")


def with_slots(brief: Brief, draft: Draft) -> Brief:
    """`brief` with the draft's system parts, and its user's text in the place of the task.

    Raises:
        LabError: no slot wrote the user's text.
    """
    system, user = brief.messages[0], brief.messages[-1]
    head = user.text[: len(user.text) - len(draft.raw_text)].rstrip("\n")
    said = "\n\n".join(filter(None, [head, *draft.before, draft.user]))
    added = [*draft.system, *draft.before]
    parts = [
        {**p, "tokens": tokens.count(draft.user)} if p["source"] == "task" and draft.user != draft.raw_text else p
        for p in brief.parts
    ]
    if added:
        parts.append({"source": "slots", "tokens": tokens.count("\n\n".join(added)), "exact": False})
    told = "\n\n".join([system.text, *draft.system])
    return replace(
        brief,
        messages=(replace(system, text=told), *brief.messages[1:-1], replace(user, text=said)),
        parts=tuple(parts),
    )


def _fitting(brief: Brief, job: Job) -> Brief:
    room = job.admitted.room
    if room is not None and brief.tokens > room:
        told = f"with what slots added the brief takes about {brief.tokens} tokens, and there is room for {room}"
        raise DispatchError.of("brief_too_large", f"{told}: let the slots add less, or cite fewer episodes")
    return brief


def _metadata(job: Job, outcome: Outcome) -> dict[str, Any]:
    grant = job.admitted.grant
    return {
        "thread": job.id,
        "model": grant.logical,
        "route": str(grant.route),
        "truncated": outcome.truncated,
        "tool_calls": job.used.tool_calls,
        "tokens": job.used.tokens,
        "artifacts": [dict(a) for a in (job.kit.artifacts if job.kit else ())],
    }

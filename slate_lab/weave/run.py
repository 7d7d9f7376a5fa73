"""One job from its permit to its one terminal record: conversation, settlement, episode, store.

The outer coroutine is never cancelled; what may be cancelled is the phase inside it (the conversation, then the
compression). The store's compare-and-set decides a race, not the order in which tasks happen to run.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from slate_lab.config import LabConfig
from slate_lab.errors import DispatchError, LabError, LimitExceeded, StoreError
from slate_lab.models.gate import Gate
from slate_lab.records import Episode, Reply, Request, episode_id
from slate_lab.routing.policy import Grant
from slate_lab.slates import Slates
from slate_lab.store import Store, seal
from slate_lab.weave.admission import write_brief
from slate_lab.weave.approval import Desk
from slate_lab.weave.ask import Asker
from slate_lab.weave.conclude import conclude
from slate_lab.weave.facts import FactLog
from slate_lab.weave.ground import plan_ground
from slate_lab.weave.history import History
from slate_lab.weave.job import Job
from slate_lab.weave.meter import Meter
from slate_lab.weave.outcome import Settlement, plan_settlement, plan_unstored
from slate_lab.weave.purse import Purse
from slate_lab.weave.recall import touch
from slate_lab.weave.recover import Ways, compressors, remember
from slate_lab.weave.stuck import Circles
from slate_lab.weave.toolbox import Toolbox
from slate_lab.weave.tools import Kit
from slate_lab.weave.tools.workspace import Workspace
from slate_lab.weave.turns import WorkerTurns
from slate_lab.weave.worker import Outcome, Worker

__all__ = ["GRACE_S", "Runner"]

GRACE_S = 5.0
"""Seconds a cancelled worker has before it is left behind and its permit goes on."""
COMPRESS_S, COMPRESS_MIN_S = 900.0, 60.0
"""Seconds for one request of the compression: as many as the action had, within these bounds."""
RESULT_CHARS = 8_000
"""Characters of one tool result; routes with a small window get fewer."""

T = TypeVar("T")


class Runner:
    """Carries jobs on the lab's loop.

    Attributes:
        turns: the slots around workers; None where a lab has none.

    Args:
        store, gate, purse, routes, config, workspace: what the lab wired.
        nonce: a fence word for a source.
        toolbox: starts the units of a worker; what fails there fails the action before it begins.
        desk: where calls of tools wait for a person.
        slates: declared memory, for the targets an action names; None where there is none.
    """

    def __init__(
        self,
        *,
        store: Store,
        gate: Gate,
        purse: Purse,
        routes: Ways,
        config: LabConfig,
        workspace: Workspace,
        nonce: Callable[[str], str],
        toolbox: Toolbox,
        desk: Desk,
        slates: Slates | None = None,
    ) -> None:
        self._store, self._gate, self._routes, self._purse = store, gate, routes, purse
        self._config, self._workspace, self._nonce = config, workspace, nonce
        self._toolbox, self._desk = toolbox, desk
        self._slates = slates
        self.turns: WorkerTurns | None = None

    async def run(self, job: Job) -> None:
        """Carry `job` to its terminal record; raises nothing."""
        try:
            await self._work(job)
        except Exception as e:  # noqa: BLE001  the last line of defence: a job always settles
            self._fail(job, e)

    def drop(self, job: Job, code: str, detail: str) -> None:
        """Settle an action that never started."""
        try:
            self._settle(job, Settlement(state="cancelled", form="none", code=code, detail=detail), None, None)
        except LabError as e:
            self._fail(job, e)

    async def _work(self, job: Job) -> None:
        if not self._store.threads.start(job.id):
            raise DispatchError.of("settled_elsewhere", "it was settled elsewhere before it could start")
        kept = self._config.worker.facts
        log = FactLog(job.id, self._store.facts, job.clock, fact_chars=kept.characters, total_chars=kept.total)
        job.own_model = partial(self._toolbox.model, job)
        job.begin(log, Meter(job.admitted.limits, job.clock, blocks=job.blocks))
        seconds = job.used.seconds_left
        try:
            outcome = None if job.cancelled else await self._phase(job, self._converse(job), seconds=seconds)
        finally:
            job.listens = False
            if job.steer:
                self._note(job, "steer.unseen", {"texts": list(job.steer)})
            await self._close_tools(job)  # what was changed until now is what the episode says
        if outcome and outcome.fault:
            self._store.events.add("worker.fault", thread=job.id, data={"traceback": outcome.fault})
        if outcome is None and job.timed_out:
            over = job.used.out_of_time
            outcome = Outcome(ok=False, code=over.code, detail=over.message)
        settlement = plan_settlement(
            ok=bool(outcome and outcome.ok),
            code=outcome.code if outcome else None,
            detail=outcome.detail if outcome else None,
            cancelled=outcome is None,
            facts=len(job.found.facts) + len(job.kit.artifacts if job.kit else ()),
            compress=job.compress and not (outcome and outcome.ground),
        )
        episode = await self._episode(job, settlement, outcome)
        try:
            self._settle(job, settlement, episode, outcome)
        except StoreError as e:
            raise StoreError(plan_unstored(settlement, e), code=e.code) from e

    def asker(self, job: Job, grant: Grant) -> Asker:
        """The way of `job` to its model, beginning at a granted route."""
        return self._asker(job, grant)

    def _asker(self, job: Job, grant: Grant, **more: Any) -> Asker:
        return Asker(job, grant, ways=self._routes, gate=self._gate, store=self._store, purse=self._purse, **more)

    async def _close_tools(self, job: Job) -> None:
        """The conversation is over: no tool changes anything any more, and what tools hold open is closed."""
        faults = await job.kit.aclose() if job.kit else ()
        if faults:
            self._note(job, "tools.close_failed", {"faults": list(faults)})

    async def _converse(self, job: Job) -> Outcome:
        """Start up and converse; a start-up that fails ends the action with its code."""
        try:
            worker = await self._start_up(job)
        except StoreError as e:
            code, detail = plan_ground(e)
            return Outcome(ok=False, code=code, detail=detail, ground=True)
        except LabError as e:
            return Outcome(ok=False, code=e.code, detail=e.message)
        outcome = await worker.run()
        return await self.turns.output(job, outcome) if self.turns else outcome

    async def _start_up(self, job: Job) -> Worker:
        admitted, brief = job.admitted, job.admitted.brief
        if brief is None:
            stored = [self._store.episodes.get(id) for id in admitted.action.context]
            brief = write_brief(
                admitted,
                [e for e in stored if e],
                facts=self._store.facts.list,
                slates=self._slates,
                nonce=self._nonce,
            )
            self._store.threads.brief(job.id, brief.parts)
        touch(admitted.action.slates, brief.read, self._slates, cause=job.id)
        window = admitted.grant.capabilities.window
        job.kit = Kit(
            self._workspace,
            thread=job.id,
            kind=admitted.kind.name,
            context=admitted.action.context,
            tools=admitted.tools,
            writable=any(name in admitted.kind.tools for name in ("write", "edit")),
            approve=partial(self._desk.ask, job.id, job.live),
            approved=admitted.kind.approve,
            note=partial(self._note, job),
            max_chars=min(RESULT_CHARS, window) if window else RESULT_CHARS,
        )
        job.crew = self._toolbox.crew(job.kit, admitted)
        await job.crew.start()
        if self.turns and admitted.kind.slots is not None:
            brief = await self.turns.input(job, brief)
            self._store.threads.brief(job.id, brief.parts)
        spec = self._config.worker
        history = History(
            brief.messages,
            task=admitted.action.task,
            schemas=sum(int(p["tokens"]) for p in brief.parts if p["source"] == "tools"),
            room=admitted.room,
            spec=spec,
        )
        return Worker(
            history,
            tools=job.crew.tools,
            kit=job.kit,
            ask=self._asker(job, admitted.grant),
            facts=job.found,
            meter=job.used,
            live=job.live,
            name=admitted.grant.logical,
            effort=admitted.grant.effort,
            max_output_tokens=admitted.reserved,
            steer=job.steer,
            circles=Circles(same_calls=spec.stuck.same_calls, no_news=spec.stuck.no_news),
            note=lambda kind, data: self._note(job, kind, data),
        )

    def _note(self, job: Job, kind: str, data: dict[str, Any]) -> None:
        self._store.events.add(kind, thread=job.id, data=data)

    async def _phase(self, job: Job, work: Coroutine[Any, Any, T], *, seconds: float | None = None) -> T | None:
        """Run `work` as the part of the job that may be cancelled; None if it was, or if its time was up."""
        task: asyncio.Task[T] = asyncio.get_running_loop().create_task(work)
        both: set[asyncio.Future[Any]] = {task, job.enter(task)}
        try:
            done, _ = await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                job.timed_out = True
                task.cancel()
                await asyncio.wait({task}, timeout=GRACE_S)
            if not task.done():
                self._store.events.add("worker.abandoned", thread=job.id, data={"after_s": GRACE_S})
                return None
            return None if task.cancelled() else task.result()
        finally:
            job.phase = None

    async def _episode(self, job: Job, settlement: Settlement, outcome: Outcome | None) -> Episode | None:
        if settlement.form == "none":
            return None
        job.live.doing, job.live.text = "compressing", ""
        base, spec = self._base(job, settlement, outcome), self._config.compressor
        episode = base
        routes: Iterable[tuple[Grant, int, str]] = [(job.ran or job.admitted.grant, 0, "")]
        if settlement.form == "compress" and spec.mode == "model":  # else no model is asked
            priced = partial(self._purse.payable, job)
            routes = compressors(job, self._routes, self._store, spec.models, priced=priced)
        for grant, hop, cause in routes:
            ask = self._asker(job, grant, recover=False, hop=hop, cause=cause)
            episode = await self._conclude(job, base, settlement, outcome, ask)
            if not ask.exhausted:
                break
        done = episode.compression == "compressed" and ask.grant.logical in spec.models
        job.compressor = ask.grant.logical if done else None
        return replace(episode, ended_ns=job.clock(), hops=tuple(job.hops))

    async def _conclude(
        self, job: Job, base: Episode, settlement: Settlement, outcome: Outcome | None, ask: Asker
    ) -> Episode:
        """The episode, its compression asked of one route."""
        seconds = max(COMPRESS_MIN_S, job.admitted.limits.seconds or COMPRESS_S)

        async def compress(request: Request) -> Reply | None:
            if job.cancelled and not job.compress:
                return None
            reply = await self._phase(job, ask(request, kind="compressor"), seconds=seconds)
            if reply is None and not job.cancelled:
                raise LimitExceeded("seconds", used=seconds, limit=seconds)
            return reply

        return await conclude(
            base,
            form=settlement.form,
            final=outcome.final if outcome else "",
            facts=job.found.facts,
            action=job.admitted.action,
            capabilities=ask.grant.capabilities,
            spec=self._config.compressor,
            ask=compress,
            spent=lambda: (dict(job.usage), job.cost_nusd),
        )

    def _base(self, job: Job, settlement: Settlement, outcome: Outcome | None) -> Episode:
        action, grant = job.admitted.action, job.admitted.grant
        return Episode(
            id=episode_id(job.id),
            thread=job.id,
            name=action.name,
            type=action.type,
            task=action.task,
            status="ok" if settlement.state == "successful" else "failed",
            code=settlement.code,
            detail=settlement.detail,
            reason=action.reason,
            truncated=bool(outcome and outcome.truncated),
            artifacts=job.kit.artifacts if job.kit else (),
            context=tuple((id, self._hash(id)) for id in action.context),
            slates=action.slates,
            logical=grant.logical,
            requested_route=str(grant.route),
            ran_route=str((job.ran or grant).route),
            fact_count=len(job.found.facts),
            omitted=job.found.omitted,
            created_ns=job.thread.created_ns,
            started_ns=job.started_ns or 0,
        )

    def _hash(self, id: str) -> str:
        episode = self._store.episodes.get(id)
        return episode.hash if episode else ""

    def _settle(self, job: Job, settlement: Settlement, episode: Episode | None, outcome: Outcome | None) -> None:
        episode = None if episode is None else seal(episode)
        won = self._store.threads.settle(
            job.id,
            state=settlement.state,
            code=settlement.code,
            detail=settlement.detail,
            truncated=bool(outcome and outcome.truncated),
            episode=episode,
            facts_omitted=job.facts.omitted if job.facts else 0,
        )
        job.end(settlement.state)
        if won and settlement.state == "successful":
            remember(job, self._store)
        if not won:
            late = f"{job.id} was settled elsewhere; its late result was dropped"
            job.future.set_exception(DispatchError.of("settled_elsewhere", late))
        elif episode is None:
            detail = f"{job.id}: {settlement.detail}"
            job.future.set_exception(DispatchError.of(settlement.code or "cancelled", detail))
        else:
            job.future.set_result(replace(episode, facts=self._store.episodes.facts(job.id)))

    def _fail(self, job: Job, error: Exception) -> None:
        """Settle a job whose ground gave way: no episode, and both reasons if the store refuses too."""
        if job.future.done():
            return
        known = isinstance(error, LabError)
        code = error.code if isinstance(error, LabError) else "internal"
        detail = str(error) if known else f"{type(error).__name__}: {error}"
        try:
            job.end("failed")
            if not known:
                trace = "".join(traceback.format_exception(error))
                self._store.events.add("worker.fault", thread=job.id, data={"traceback": trace[-8_000:]})
            self._store.threads.settle(job.id, state="failed", code=code, detail=detail)
        except LabError as e:
            detail = f"{detail}; and the store could not note it: {e.message}"
        finally:
            job.future.set_exception(DispatchError.of(code, f"{job.id}: {detail}"))

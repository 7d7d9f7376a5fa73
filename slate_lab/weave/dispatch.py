"""The dispatcher: admits actions, keeps the queue, grants permits in order, cancels.

`dispatch` may be called from any thread; the queue itself lives on the lab's own loop. A permit covers the
conversation, the compression and the end of the worker; a freed one goes straight to the next waiter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from threading import Lock
from typing import Any

from msgspec.structs import replace

from slate_lab.config import LabConfig
from slate_lab.errors import DispatchError, Problem
from slate_lab.records import Action, Episode, Fact, Limits, Route
from slate_lab.routing.policy import Grant
from slate_lab.slates import Slates
from slate_lab.store import Store
from slate_lab.weave.admission import Admitted, admit, claims_held
from slate_lab.weave.batch import BatchPlan, plan_batch, told, with_ids
from slate_lab.weave.checks import Dispatched
from slate_lab.weave.handle import Handle
from slate_lab.weave.job import Job
from slate_lab.weave.limit import meters_here
from slate_lab.weave.perspectives import read_perspective
from slate_lab.weave.purse import Purse
from slate_lab.weave.recover import Ways
from slate_lab.weave.run import GRACE_S, Runner
from slate_lab.weave.schedule import Queue, caps_of, refuse_full
from slate_lab.weave.standing import standing
from slate_lab.weave.toolbox import Toolbox
from slate_lab.weave.types import ThreadType, limits_of, thread_types
from slate_lab.weave.uninterrupted import Uninterrupted, passing

__all__ = ["Dispatcher"]

POLL_S = 0.5
"""Seconds between two looks at a thread of another kernel."""


class Dispatcher:
    """Runs the actions of one lab.

    Args:
        loop: the lab's own event loop, running in its own thread.
        root: the project's folder.
        store, routes, config: what the lab wired.
        runner: carries a job once it has its permit.
        tools: all tools of this lab, by name; a thread type grants some of them.
        clock: nanoseconds since the epoch.
        nonce: a fence word for a source.
        priced: whether the price of a route is known.
        purse: sets money aside for what is admitted.
        slates: declared memory, None where there is none.
    """

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        root: Path,
        store: Store,
        routes: Ways,
        runner: Runner,
        config: LabConfig,
        tools: Toolbox,
        clock: Callable[[], int],
        nonce: Callable[[str], str],
        priced: Callable[[Route], bool],
        purse: Purse,
        slates: Slates | None = None,
    ) -> None:
        self.types = thread_types(config)
        self.tools = tools
        self.limits: Limits = limits_of(config.limits.thread)
        self.nonce, self.priced, self._purse = nonce, priced, purse
        self.slates = slates
        scopes = config.limits
        self._capped = any(scope.usd is not None for scope in (scopes.session, scopes.day, scopes.project))
        self._root = root
        self._loop, self._store, self._routes, self._runner = loop, store, routes, runner
        self._config, self._clock = config, clock
        self._queue = Queue(config.max_concurrent, caps=caps_of(config))
        self._jobs: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._door = Lock()
        self._closed = False

    # what admission asks

    @property
    def closed(self) -> bool:
        """Whether it takes no more actions."""
        return self._closed

    @property
    def capped(self) -> bool:
        """Whether the session, the day, the project or the block of the caller has a cap in dollars."""
        return self._capped or any(meter.limits.usd is not None for meter in meters_here())

    def added(self, kind: ThreadType) -> tuple[str, ...]:
        """Tools that a type gets beside its own."""
        return self.tools.added(kind)

    def review(self, perspective: str) -> str | None:
        """The project's text of a review perspective."""
        return read_perspective(self._root, perspective)

    def facts(self, id: str) -> Sequence[Fact]:
        """The facts of a thread."""
        return self._store.facts.list(id)

    def claims(self, *, beside: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
        """The claims of everything that waits or runs on this store, but for what the threads `beside` wait for."""
        live = {thread.id: thread for thread in self._store.threads.list(states=("queued", "running"))}
        apart = set(beside)
        for id in sorted(live, key=lambda id: -int(id[1:])):  # a thread only waits for older ones
            if id in apart:
                apart.update(live[id].action.after)
        own = self._store.session
        return {
            f"{id} ({thread.state}, {'here' if thread.session == own else 'in another kernel'})": thread.action.claims
            for id, thread in live.items()
            if thread.action.claims and id not in apart
        }

    def grant(self, logical: str | None) -> Grant:
        """The route of a logical model; raises `DispatchError`."""
        return self._routes.grant(logical)

    def episode(self, id: str) -> Episode | None:
        """A stored episode."""
        return self._store.episodes.get(id)

    def known(self) -> list[str]:
        """Ids of all episodes."""
        return self._store.episodes.ids()

    def is_thread(self, id: str) -> bool:
        """Whether the thread exists."""
        return self._store.threads.get(id) is not None

    def succeeded(self, id: str) -> bool:
        """Whether the thread has ended well."""
        thread = self._store.threads.get(id)
        return thread is not None and thread.state == "successful"

    # the door

    def dispatch(self, action: Action, *, problems: Sequence[Problem] = (), by: Dispatched = "person") -> Handle:
        """Admit `action`, store it as queued and put it in line; from any thread.

        Args:
            problems: what was wrong with the way it was written; listed with all others.
            by: who dispatches it; a model must name a logical model and give a reason.

        Raises:
            DispatchError: it was refused; every problem is listed and nothing was stored.
        """
        return self.batch([action], problems=[problems], by=by)[0]

    def batch(
        self, actions: Sequence[Action], *, problems: Sequence[Sequence[Problem]] = (), by: Dispatched = "person"
    ) -> list[Handle]:
        """Admit `actions`, store and put them in line, all of them or none; they may come after each other.

        Raises:
            DispatchError: some were refused; every problem of every one is listed and nothing was stored.
        """
        if not actions:
            return []
        plan = plan_batch(actions)
        with passing():
            admitted = self._admit(plan, problems or [()] * len(actions), by)
        jobs: list[Job] = []
        try:
            with Uninterrupted():  # from the first record to the last job in line
                self._enter(plan, admitted, jobs)
        except KeyboardInterrupt:
            for job in reversed(jobs):
                job.request_cancel(compress=False)
            raise
        placed = dict(zip(plan.order, jobs, strict=True))
        return [Handle(placed[i]) for i in range(len(actions))]

    def _admit(self, plan: BatchPlan, given: Sequence[Sequence[Problem]], by: Dispatched) -> list[Admitted]:
        found: list[Problem] = []
        admitted: list[Admitted] = []
        for i, action in enumerate(plan.actions):
            try:
                noted = [*given[i], *plan.problems[i]]
                admitted.append(admit(action, self, problems=noted, by=by, labels=plan.labels))
                found += told(noted, i, plan.actions)
            except DispatchError as e:
                found += told(e.problems, i, plan.actions)
        if found:
            raise DispatchError(found)
        return admitted

    def _enter(self, plan: BatchPlan, admitted: Sequence[Admitted], jobs: list[Job]) -> None:
        """Store the actions in one commit and put them in line."""
        ids: dict[str, str] = {}
        claims = any(one.action.claims for one in admitted)
        with self._door:  # ids and the queue keep the same order
            if self._closed:
                raise DispatchError.of("lab_closed", "the lab is closed: open it again with Lab.open")
            if self._store.read_only:
                raise DispatchError.of("read_only", f"the store {self._store.path} is open to look at only")
            refuse_full(self._queue, len(self._jobs), len(admitted), depth=self._config.queue.depth)
            made: list[Job] = []
            with self._store.batch() if claims or len(admitted) > 1 or self._purse.shared else nullcontext():
                if claims:  # no other kernel writes between this look and the commit
                    self._refuse_claims(admitted, plan)
                for i in plan.order:
                    job = self._job(admitted[i], ids)
                    ids[f"#{i + 1}"] = job.id
                    made.append(job)
            jobs += made
            for job in jobs:
                self._jobs[job.id] = job
            self._loop.call_soon_threadsafe(self._join, tuple(jobs))

    def _refuse_claims(self, admitted: Sequence[Admitted], plan: BatchPlan) -> None:
        actions = [one.action for one in admitted]
        found = [told(claims_held(a, self, plan.labels), i, actions) for i, a in enumerate(actions)]
        if any(found):
            raise DispatchError([problem for each in found for problem in each])

    def _job(self, admitted: Admitted, ids: Mapping[str, str]) -> Job:
        """The job of an action that is stored now, its labels replaced by the `ids` of those before it."""
        if ids:
            pending = tuple(ids.get(word, word) for word in admitted.pending)
            admitted = replace(admitted, action=with_ids(admitted.action, ids), pending=pending)
        grant = admitted.grant
        thread = self._store.threads.queue(
            admitted.action,
            logical=grant.logical,
            provider=grant.route.provider,
            model=grant.route.model,
            window=grant.capabilities.window,
            brief=admitted.brief.parts if admitted.brief else None,
        )
        reserved = self._purse.admit(thread.id, admitted)
        job = Job(
            thread,
            admitted,
            clock=self._clock,
            loop=self._loop,
            queue=self._queue,
            blocks=meters_here(),
            cancel=self._ask_cancel,
        )
        job.reserved_nusd = reserved
        return job

    def handle(self, id: str) -> Handle | None:
        """The handle of an action that has not settled."""
        job = self._jobs.get(id)
        return Handle(job) if job else None

    def live(self) -> list[Handle]:
        """Handles of everything that waits or runs, in order of dispatch."""
        return [Handle(job) for job in self.jobs()]

    def jobs(self) -> list[Job]:
        """Everything that waits or runs, in order of dispatch."""
        return list(self._jobs.values())

    @property
    def waiting(self) -> tuple[str, ...]:
        """Ids that wait for a permit, next first."""
        return self._queue.waiting

    @property
    def holding(self) -> tuple[str, ...]:
        """Ids that hold a permit."""
        return self._queue.holding

    def line(self) -> dict[str, Any]:
        """The queue as plain values: permits, who holds them, who waits where and for how long, and under which cap."""
        return standing(self._queue, self._jobs, now_ns=self._clock())

    def refuse(self) -> None:
        """Close admission; what was admitted goes on."""
        with self._door:
            self._closed = True

    def cancel_all(self, *, compress: bool) -> list[str]:
        """Ask everything to end; returns the ids asked."""
        jobs = list(self._jobs.values())
        for job in reversed(jobs):  # the last in line first, so that no freed permit starts work that is to end
            job.request_cancel(compress=compress)
        return [job.id for job in jobs]

    def give_up(self) -> None:
        """The loop has ended: whoever still waits on a handle is told."""
        for job in list(self._jobs.values()):
            if not job.future.done():
                job.future.set_exception(DispatchError.of("lab_closed", f"{job.id}: the lab was closed while it ran"))

    async def settled(self) -> None:
        """Wait, on the loop, until everything has settled and left."""
        while self._jobs or self._tasks:
            await asyncio.sleep(0)
            if self._tasks:
                await asyncio.wait(self._tasks)

    # on the loop

    def _join(self, jobs: tuple[Job, ...]) -> None:
        for job in jobs:
            if job.future.done():
                continue
            if job.admitted.pending:
                self._spawn(self._wait_for_others(job))
            else:
                self._enqueue(job)

    def _enqueue(self, job: Job) -> None:
        timeout = self._config.queue.timeout_s
        if timeout is not None:
            self._loop.call_later(timeout, self._expire, job, timeout)
        route = job.admitted.grant.route
        self._begin(self._queue.join(job.id, route.provider, str(route)))

    def _expire(self, job: Job, timeout: float) -> None:
        if job.state == "queued" and not job.future.done():
            self._begin(self._queue.leave(job.id))
            self._drop(job, "queue_timeout", f"no permit was free within queue.timeoutSeconds={timeout:g}")

    def _begin(self, ids: list[str]) -> None:
        for id in ids:
            job = self._jobs[id]
            job.state = "running"
            self._spawn(self._run(job))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, job: Job) -> None:
        try:
            await self._runner.run(job)
        finally:
            self._jobs.pop(job.id, None)
            self._begin(self._queue.leave(job.id))

    async def _wait_for_others(self, job: Job) -> None:
        for id in job.admitted.pending:
            other = self._jobs.get(id)
            if other:
                end = asyncio.wrap_future(other.future)
                await asyncio.wait([end])
                end.exception()  # noted: how it ended stands in the store
            thread = self._store.threads.get(id)
            while thread is not None and not thread.ended and not job.future.done():  # it runs in another kernel
                await asyncio.sleep(POLL_S)
                thread = self._store.threads.get(id)
            if job.future.done():
                return
            if thread is None or thread.state != "successful":
                state = thread.state if thread else "unknown"
                self._drop(job, "skipped", f"skipped: {id}, which it comes after, is {state}")
                return
        self._enqueue(job)

    def _drop(self, job: Job, code: str, detail: str) -> None:
        self._jobs.pop(job.id, None)
        self._runner.drop(job, code, detail)

    def _ask_cancel(self, job: Job, compress: bool) -> None:
        self._loop.call_soon_threadsafe(self._cancel, job, compress)

    def _cancel(self, job: Job, compress: bool) -> None:
        if job.future.done():
            return
        if job.state == "queued":
            self._begin(self._queue.leave(job.id))
            self._drop(job, "cancelled", "cancelled while it waited")
            return
        job.compress = job.compress and compress and not job.cancelled
        job.cancelled = True
        if job.phase:
            job.phase.cancel()
            self._loop.call_later(GRACE_S, job.abandon, job.phase)

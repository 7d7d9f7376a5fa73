"""The dispatcher: admits actions, keeps the queue, grants permits in order, cancels.

`dispatch` may be called from any thread; the queue itself lives on the lab's own loop. A permit covers the
conversation, the compression and the end of the worker; a freed one goes straight to the next waiter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from threading import Lock
from typing import Any

from slate_lab.config import LabConfig
from slate_lab.errors import DispatchError
from slate_lab.records import Action, Episode, Limits, Route
from slate_lab.routing.policy import Grant
from slate_lab.store import Store
from slate_lab.weave.admission import admit
from slate_lab.weave.handle import Handle
from slate_lab.weave.job import Job
from slate_lab.weave.run import GRACE_S, Routes, Runner
from slate_lab.weave.schedule import Queue
from slate_lab.weave.tools import Tool
from slate_lab.weave.types import limits_of, thread_types

__all__ = ["Dispatcher"]

POLL_S = 0.5
"""Seconds between two looks at a thread of another kernel."""


class Dispatcher:
    """Runs the actions of one lab.

    Args:
        loop: the lab's own event loop, running in its own thread.
        store, routes, config: what the lab wired.
        runner: carries a job once it has its permit.
        tools: all tools of this lab, by name; a thread type grants some of them.
        clock: nanoseconds since the epoch.
        nonce: a fence word for a source.
        priced: whether the price of a route is known.
    """

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        store: Store,
        routes: Routes,
        runner: Runner,
        config: LabConfig,
        tools: Mapping[str, Tool],
        clock: Callable[[], int],
        nonce: Callable[[str], str],
        priced: Callable[[Route], bool],
    ) -> None:
        self.types = thread_types(config)
        self.tools = tools
        self.limits: Limits = limits_of(config.limits.thread)
        self.nonce, self.priced = nonce, priced
        scopes = config.limits
        self.capped = any(scope.usd is not None for scope in (scopes.session, scopes.day, scopes.project))
        self._loop, self._store, self._routes, self._runner = loop, store, routes, runner
        self._config, self._clock = config, clock
        self._queue = Queue(config.max_concurrent, caps=_caps(config))
        self._jobs: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._door = Lock()
        self._closed = False

    # what admission asks

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

    def dispatch(self, action: Action) -> Handle:
        """Admit `action`, store it as queued and put it in line; from any thread.

        Raises:
            DispatchError: it was refused; every problem is listed and nothing was stored.
        """
        self._refuse_closed()
        admitted = admit(action, self)
        grant = admitted.grant
        with self._door:  # ids and the queue keep the same order
            self._refuse_closed()
            self._refuse_full()
            thread = self._store.threads.queue(
                admitted.action,
                logical=grant.logical,
                provider=grant.route.provider,
                model=grant.route.model,
                window=grant.capabilities.window,
            )
            job = Job(
                thread,
                admitted,
                clock=self._clock,
                loop=self._loop,
                place=self._queue.position,
                cancel=self._ask_cancel,
            )
            self._jobs[job.id] = job
            self._loop.call_soon_threadsafe(self._join, job)
        return Handle(job)

    def handle(self, id: str) -> Handle | None:
        """The handle of an action that has not settled."""
        job = self._jobs.get(id)
        return Handle(job) if job else None

    def live(self) -> list[Handle]:
        """Handles of everything that waits or runs, in order of dispatch."""
        return [Handle(job) for job in list(self._jobs.values())]

    @property
    def waiting(self) -> tuple[str, ...]:
        """Ids that wait for a permit, next first."""
        return self._queue.waiting

    @property
    def holding(self) -> tuple[str, ...]:
        """Ids that hold a permit."""
        return self._queue.holding

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

    def _join(self, job: Job) -> None:
        if job.future.done():
            return
        if job.admitted.pending:
            self._spawn(self._wait_for_others(job))
        else:
            self._enqueue(job)

    def _enqueue(self, job: Job) -> None:
        timeout = self._config.queue.timeout_s
        if timeout is not None:
            self._loop.call_later(timeout, self._expire, job, timeout)
        self._begin(self._queue.join(job.id, job.admitted.grant.route.provider))

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
                await asyncio.wait([asyncio.wrap_future(other.future)])
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

    def _refuse_closed(self) -> None:
        if self._closed:
            raise DispatchError.of("lab_closed", "the lab is closed: open it again with Lab.open")

    def _refuse_full(self) -> None:
        depth = self._config.queue.depth
        waiting = max(len(self._queue), len(self._jobs) - self._queue.permits)  # the loop may not have seen all yet
        if depth is not None and waiting >= depth:
            raise DispatchError.of("queue_full", f"{depth} actions wait already: wait for some, or raise queue.depth")


def _caps(config: LabConfig) -> Mapping[str, int]:
    """Most workers per provider; an embedded model answers one at a time unless told otherwise."""
    local = {name: 1 for name, p in config.providers.items() if p.protocol == "local"}
    return local | {name: p.max_concurrent for name, p in config.providers.items() if p.max_concurrent is not None}

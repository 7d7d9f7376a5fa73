"""A handle on a dispatched action: look, wait, cancel, steer. Usable from any thread and any event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Generator

from slate_lab.errors import LabError
from slate_lab.records import Episode, Progress, ThreadState
from slate_lab.tokens import clean
from slate_lab.weave.job import Job
from slate_lab.weave.loop import refuse_on

__all__ = ["Handle", "NotSteered"]

MAX_STEER = 100_000
"""Characters of one steering message."""


class NotSteered(LabError, ValueError):
    """A steering message that nobody will see."""


class Handle:
    """One dispatched action. `await handle` and `handle.result()` give its episode."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def __repr__(self) -> str:
        p = self.progress
        place = f", place {p.position}" if p.position else ""
        return f"<Handle {p.id} {p.state}{place}: {p.label}>"

    @property
    def id(self) -> str:
        """The thread's id."""
        return self._job.id

    @property
    def state(self) -> ThreadState:
        """The thread's state now."""
        return self._job.state

    @property
    def position(self) -> int | None:
        """Place in the queue, 1 is next; None once it runs."""
        return self._job.position()

    @property
    def waited_s(self) -> float:
        """Seconds it has waited for its start."""
        return self._job.waited_s

    @property
    def holders(self) -> tuple[str, ...]:
        """The threads that hold the permits now, the longest holder first."""
        return self._job.queue.holding

    @property
    def progress(self) -> Progress:
        """What it is doing now."""
        return self._job.progress()

    def done(self) -> bool:
        """Whether it has settled."""
        return self._job.future.done()

    def result(self, timeout: float | None = None) -> Episode:
        """Wait for the episode; `timeout` in seconds.

        Raises:
            DispatchError: it was cancelled and has no episode, or the episode could not be stored.
            LabError: called on the lab's own loop, where it would wait for itself.
            TimeoutError: it has not settled in time; it goes on.
        """
        if not self.done():
            refuse_on(self._job.loop, "handle.result()")
        try:
            return self._job.future.result(timeout)
        except concurrent.futures.TimeoutError as e:
            raise TimeoutError(f"{self.id} has not settled in {timeout} s; it goes on") from e

    def __await__(self) -> Generator[object, None, Episode]:
        return asyncio.shield(asyncio.wrap_future(self._job.future)).__await__()

    def cancel(self, *, compress: bool = True) -> None:
        """Stop it: at once while it waits, within a second while it runs.

        What it found is kept: with `compress` a model is still asked for the episode, else the episode is made without.
        A second call stops the compression too.
        """
        self._job.request_cancel(compress=compress)

    def steer(self, text: str) -> None:
        """A message the worker sees before its next call of the model.

        One that comes with the final message keeps the conversation going.

        Raises:
            NotSteered: the text is blank or cannot be sent, or the action has settled.
        """
        if not text.strip() or clean(text) != text:
            raise NotSteered("a steering message must be text and not blank", code="bad_text")
        if len(text) > MAX_STEER:
            raise NotSteered(f"the message has {len(text)} characters: give at most {MAX_STEER}", code="bad_text")
        if not self._job.listens and not self.done():
            raise NotSteered(f"{self.id} has given its final answer: wait for its episode and cite it", code="not_live")
        if self.done():
            raise NotSteered(f"{self.id} has settled: dispatch a new thread that cites its episode", code="not_live")
        self._job.steer.append(text)

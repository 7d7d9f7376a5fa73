"""What a lab does: dispatch, wait, cancel, ask, approve. One half of `Lab`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from slate_lab.errors import DispatchError, LabError
from slate_lab.lab.rooms import Rooms
from slate_lab.records import Action, Approval, Episode, Thread, Turn, thread_of
from slate_lab.slots.listing import SlotListing
from slate_lab.weave.handle import Handle
from slate_lab.weave.intake import again, read_action
from slate_lab.weave.loop import refuse_on
from slate_lab.weave.uninterrupted import Uninterrupted

if TYPE_CHECKING:
    pass


__all__ = ["Working"]


class Working:
    """The verbs that start, steer and end work."""

    _rooms: Rooms

    def dispatch(self, task: str, **options: Any) -> Handle:
        """Dispatch an action and return at once; the options are those of `thread`.

        Raises:
            DispatchError: refused; every problem is listed.
        """
        action, problems = read_action(task, options)
        return self._rooms.dispatcher.dispatch(action, problems=problems)

    def thread(self, task: str, **options: Any) -> Episode:
        """Dispatch an action, wait, return its episode.

        Args:
            task: the request, passed to the model byte for byte.
            **options: `type, model, reason, name, context, slates, variables, tools, limits, after, claims,
                facts_of, review_perspectives, track, fit`:
                the fields of `Action`; `context` takes ids or episodes.

        Raises:
            DispatchError: refused, or cancelled before anything was found.
        """
        return self._wait_for(lambda: self.dispatch(task, **options))

    def _wait_for(self, start: Callable[[], Handle]) -> Episode:
        """The episode of what `start` dispatches; Ctrl-C cancels it, whenever it comes."""
        with Uninterrupted() as held:
            handle = start()
            try:
                held.end()
                return handle.result()
            except KeyboardInterrupt:
                handle.cancel(compress=False)
                raise

    async def athread(self, task: str, **options: Any) -> Episode:
        """`thread` for asynchronous code, on any event loop; cancelling it cancels the thread."""
        handle = self.dispatch(task, **options)
        try:
            return await handle
        except BaseException:
            handle.cancel(compress=False)
            raise

    def ask(self, prompt: str, **options: Any) -> Turn:
        """One turn of a stored session, through the slots of the project; `str(turn)` is what was delivered.

        Args:
            prompt: what is asked.
            **options: `session` (an id, `new`, or the newest), `model` (a logical model), `attachments` (paths that
                slots are told of), `live` (called with each delivery as it comes).

        Raises:
            SlotFailed: a slot with `failure_policy: hard` failed.
            LabError: the turn failed; the session is as it was before.
        """
        refuse_on(self._rooms.loop.loop, "lab.ask()")
        with Uninterrupted() as held:
            future = self._turn(prompt, options)
            try:
                held.end()
                return future.result()
            except KeyboardInterrupt:
                future.cancel()
                raise

    async def aask(self, prompt: str, **options: Any) -> Turn:
        """`ask` for asynchronous code, on any event loop; cancelling it cancels the turn."""
        return await asyncio.wrap_future(self._turn(prompt, options))

    def _turn(self, prompt: str, options: Mapping[str, Any]) -> Future[Turn]:
        if self._rooms.closed:
            raise DispatchError.of("lab_closed", "the lab is closed: open it again with Lab.open")
        return self._rooms.loop.run(self._rooms.asking.ask(prompt, **options))

    def turns(self, session: str | None = None) -> list[Turn]:
        """The turns that ended well, oldest first; of one session or of all."""
        return self._rooms.store.turns.list(session)

    def slots(self, *, check: bool = False) -> SlotListing:
        """The slots of the project: phase, lane, order, policies, capabilities; with `check` each is imported too.

        Raises:
            ConfigError: the surface has problems; all of them are listed.
            LabError: `check`, and the slots are held back.
        """
        return self._rooms.slots.listing(check=check)

    def batch(self, actions: Iterable[Action]) -> list[Handle]:
        """Dispatch several actions, all of them or none; handles come in the order given.

        `after` and `context` may name actions of the same list, by their place (`#1` is the first) or by their name;
        what is cited is waited for. Dependents of one that fails are skipped and say why.

        Raises:
            DispatchError: every problem of every action, also circles and ambiguous names; nothing was stored.
        """
        return self._rooms.dispatcher.batch(list(actions))

    def retry(self, id: str, **changes: Any) -> Episode:
        """Do a thread's action again, as a new thread that cites the old one's facts; wait, return its episode.

        Args:
            id: a thread that has ended, however it ended, or its episode.
            **changes: options that differ from the old action's, as for `thread`; `task` too.

        Raises:
            LabError: there is no such thread, or it has not ended (code `not_ended`).
            DispatchError: refused, or cancelled before anything was found.
        """
        return self._wait_for(lambda: self.redispatch(id, **changes))

    def redispatch(self, id: str, **changes: Any) -> Handle:
        """`retry` that returns at once."""
        thread = self._rooms.require_thread(thread_of(id))
        if not thread.ended:
            raise LabError(f"{thread.id} has not ended: wait for it, or cancel it first", code="not_ended")
        action, problems = again(thread, changes)
        return self._rooms.dispatcher.dispatch(action, problems=problems)

    def steer(self, id: str, text: str) -> None:
        """A message that the worker of a live thread sees before its next call of the model.

        Raises:
            LabError: the thread is not live in this lab, or the text is blank.
        """
        self._live_handle(thread_of(id)).steer(text)

    def handle(self, id: str) -> Handle | None:
        """The handle of a thread of this lab that has not settled."""
        return self._rooms.dispatcher.handle(id)

    def live(self) -> list[Handle]:
        """Handles of everything that waits or runs here."""
        return self._rooms.dispatcher.live()

    def cancel(self, id: str = "all", *, compress: bool = True) -> list[str]:
        """Cancel one thread or all; returns the ids that were asked to end.

        Raises:
            LabError: the thread is not live in this lab.
        """
        if id == "all":
            return self._rooms.dispatcher.cancel_all(compress=compress)
        self._live_handle(id).cancel(compress=compress)
        return [id]

    def _live_handle(self, id: str) -> Handle:
        handle = self._rooms.dispatcher.handle(id)
        if handle is None:
            self._rooms.require_thread(id)
            raise LabError(f"{id} has ended, or runs in another kernel: nothing to reach here", code="not_live")
        return handle

    def wait(self, timeout: float | None = None) -> list[Thread]:
        """Wait until everything dispatched here has settled; returns those threads.

        Raises:
            TimeoutError: `timeout` seconds were not enough.
        """
        handles = self.live()
        until = None if timeout is None else time.monotonic() + timeout
        for handle in handles:
            try:
                handle.result(None if until is None else max(0.0, until - time.monotonic()))
            except DispatchError:
                continue  # cancelled ones are settled too
        return [thread for handle in handles if (thread := self._rooms.store.threads.get(handle.id))]

    def approvals(self) -> list[Approval]:
        """Calls of tools that wait for a person, oldest first, also those of another kernel on this store."""
        return self._rooms.desk.pending()

    def approve(self, id: str) -> list[Approval]:
        """Let a call be made: one (`a7`), or all that a thread waits for (`t3`); returns what was answered.

        Raises:
            LabError: nothing of that id waits.
        """
        return self._rooms.desk.answer(id, allow=True)

    def deny(self, id: str, why: str = "") -> list[Approval]:
        """Refuse a call, or all that a thread waits for; `why` is told to the worker.

        Raises:
            LabError: nothing of that id waits.
        """
        return self._rooms.desk.answer(id, allow=False, why=why)

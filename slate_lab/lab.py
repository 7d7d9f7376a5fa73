"""Lab: an opened project. The one place where the rooms are wired; it owns lifetimes and decides nothing."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from slate_lab import tokens
from slate_lab.config import HeldBack, Trust, load_config
from slate_lab.errors import ConfigError, DispatchError, LabError
from slate_lab.models.cassette import Cassette
from slate_lab.models.gate import Gate
from slate_lab.models.prices import PriceBook
from slate_lab.models.protocol import Model
from slate_lab.records import Action, Approval, Call, Episode, Event, Fact, Thread, Turn, near, thread_of
from slate_lab.routing.listing import model_rows
from slate_lab.routing.pacing import Pacer
from slate_lab.routing.policy import Grant, Policy
from slate_lab.routing.shelf import Shelf
from slate_lab.slates import Hit, Slates, TargetLike, WriteResult
from slate_lab.slates.read import Order
from slate_lab.slates.write import Mode
from slate_lab.slots.listing import SlotListing
from slate_lab.store import Store
from slate_lab.weave.admission import room_of
from slate_lab.weave.approval import Desk
from slate_lab.weave.asking import Asking
from slate_lab.weave.brief import random_fence, seeded_fence
from slate_lab.weave.conclude import interrupted
from slate_lab.weave.dispatch import Dispatcher
from slate_lab.weave.functions import Functions, check_names
from slate_lab.weave.handle import Handle
from slate_lab.weave.intake import again, read_action
from slate_lab.weave.loop import LoopThread, refuse_on
from slate_lab.weave.mcp import Servers
from slate_lab.weave.purse import Purse
from slate_lab.weave.recall import memory_tools
from slate_lab.weave.run import Runner
from slate_lab.weave.slotroom import Dispatch, SlotRoom
from slate_lab.weave.toolbox import Toolbox
from slate_lab.weave.tools import BUILT_IN
from slate_lab.weave.tools.commanding import command_tools
from slate_lab.weave.tools.facts_tool import facts_tools
from slate_lab.weave.tools.sandbox import find_sandbox
from slate_lab.weave.tools.workspace import Workspace
from slate_lab.weave.turns import WorkerTurns
from slate_lab.weave.uninterrupted import Uninterrupted
from slate_lab.weave.units import Units

if TYPE_CHECKING:
    from slate_lab.jupyter.board import CostBoard
    from slate_lab.jupyter.budget import BudgetBar
    from slate_lab.jupyter.graph import WeaveGraph
    from slate_lab.jupyter.panel import SlatePanel
    from slate_lab.reports.frames import Frames

__all__ = ["Lab"]


class Lab:
    """An opened project: configuration, store, models and dispatcher. Made by `Lab.open`, closed once."""

    def __init__(
        self,
        root: Path,
        *,
        policy: Policy,
        trust: Trust,
        store: Store,
        models: Model | Mapping[str, Model] | None,
        env: Mapping[str, str],
        notes: Sequence[str],
        clock: Callable[[], int],
    ) -> None:
        config = policy.config
        self.root, self.policy, self.config, self.store = root, policy, config, store
        self.trust = trust
        self.starting: tuple[str, float | None] = ("", None)
        self._env, self._clock = env, clock
        self._cassette = Cassette.open_for(config.replay, root)
        looking = store.read_only  # then nothing is laid over what is kept
        keep_days = None if looking else config.ledger.keep_days
        self.slates = Slates(() if looking else config.slates, store.blocks, clock=clock, keep_days=keep_days)
        self.warnings = (
            *notes,
            *(() if looking else self.slates.notes),
            *(self._cassette.warnings if self._cassette else ()),
        )
        workspace = Workspace.of_project(root, config.workspace)
        base = {**BUILT_IN, **command_tools(config.tools, root), **facts_tools(store.facts)}
        base.update(memory_tools(self.slates, config))
        functions = config.tools.functions
        check_names(functions, base)
        self._shelf = Shelf(
            self.policy,
            env=env,
            given=models,
            replay=self._cassette,
            progress=self._progress,
            remembered=store.preferences.providers,
        )
        self._loop = LoopThread()
        nonce = seeded_fence if self._cassette else random_fence
        prices = PriceBook.from_config(config)
        taken = (*base, *(f.partition(":")[2] for f in functions))
        self.units = Units(trust, patterns=config.worker_extensions, taken=taken)
        servers = Servers(config.mcp_servers, root=root, env=env)
        self._toolbox = Toolbox(base, self.units, Functions(trust, functions), servers)
        self._desk = Desk(store, seconds=config.tools.approve_s)
        purse = Purse(store, config.limits, prices, clock=clock)
        runner = Runner(
            store=store,
            purse=purse,
            gate=Gate(
                prices,
                pace=Pacer(config, clock=clock),
                routes=config.routes,
                most=config.max_concurrent,
                clock=clock,
            ),
            routes=self._shelf,
            config=config,
            workspace=workspace,
            nonce=nonce,
            toolbox=self._toolbox,
            desk=self._desk,
            slates=self.slates,
        )
        self._dispatcher = Dispatcher(
            loop=self._loop.loop,
            root=root,
            store=store,
            routes=self._shelf,
            runner=runner,
            config=config,
            tools=self._toolbox,
            clock=clock,
            nonce=nonce,
            priced=lambda route: prices.knows(route, at_ns=clock()),
            purse=purse,
            slates=self.slates,
        )
        self._slots = SlotRoom(
            root=root,
            config=config,
            store=store,
            trust=trust,
            workspace=workspace.root,
            tools=self._toolbox,
            dispatch=Dispatch(self.athread, lambda task, **options: self.dispatch(task, **options).id),
            slates=self.slates,
            clock=clock,
        )
        runner.turns = WorkerTurns(self._slots)
        self._asking = Asking(
            self._slots,
            grounds=self._dispatcher,
            asker=runner.asker,
            workspace=workspace,
            loop=self._loop.loop,
        )
        self._closing = threading.Lock()
        self._closed = False
        threading.Thread(target=self._warm, name="slate-lab-warm", daemon=True).start()

    @classmethod
    def open(
        cls,
        path: str | Path = ".",
        *,
        store: str | Path | None = None,
        config: Mapping[str, Any] | None = None,
        models: Model | Mapping[str, Model] | None = None,
        env: Mapping[str, str] | None = None,
        clock: Callable[[], int] = time.time_ns,
        trust: bool | None = None,
    ) -> Lab:
        """Open the project in the folder `path`.

        Args:
            path: the project; `slate.yaml` is read from it if it is there.
            store: the database, default `<path>/.slate/slate.db`; `":memory:"` keeps nothing.
            config: a mapping merged over `slate.yaml`.
            models: one model that answers every route, or models by logical name or by exact route
                (`openai/gpt-6-luna`).
            env: where keys are found, default the process's environment.
            clock: nanoseconds since the epoch.
            trust: True lets everything the project brings count for this opening, False nothing; None asks the record
                of `slate-lab trust`. What is held back is a `HeldBack` warning; `config` always counts.

        Raises:
            ConfigError: the folder is not there, or the configuration has problems (all of them are listed).
            StoreError: the store cannot be opened.
        """
        env = os.environ if env is None else env
        root = Path(path).expanduser().resolve()
        trusted = Trust.of(root, vouched=trust)
        try:
            loaded = load_config(root, overrides=_overrides(config, env), trust=trusted)
            policy = Policy.resolve(loaded.config, places=loaded.places)
        except ConfigError as e:
            raise trusted.explained(e) from None
        if trusted.warning:
            warnings.warn(trusted.warning, HeldBack, stacklevel=2)
        where = store if store is not None else root / ".slate" / "slate.db"
        opened = Store.open(
            ":memory:" if str(where) == ":memory:" else Path(where),
            clock=clock,
            durability=loaded.config.durability,
            interrupted=interrupted,
        )
        try:
            return cls(
                root,
                policy=policy,
                trust=trusted,
                store=opened,
                models=models,
                env=env,
                notes=(*loaded.warnings, *filter(None, (trusted.warning,))),
                clock=clock,
            )
        except BaseException:
            opened.close()
            raise

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(wait=kind is None)

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._dispatcher.live())} live"
        return f"<Lab {self.root.name} {state}>"

    def close(self, *, wait: bool = False) -> None:
        """Close admission, cancel what runs (or wait for it), then close models and store. A second call does nothing.

        Args:
            wait: let what was dispatched come to its end first.
        """
        if self._loop.forked:
            return  # the child of a fork has neither the loop's thread nor a claim on the store
        refuse_on(self._loop.loop, "lab.close()")
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._dispatcher.refuse()
            if not wait:
                self._dispatcher.cancel_all(compress=False)
            with ExitStack() as ending:  # each step is taken whatever becomes of the ones before it
                ending.callback(self.store.close)
                if self._cassette:
                    ending.callback(_save, self._cassette)
                ending.callback(self._dispatcher.give_up)
                ending.callback(self._slots.close)
                ending.callback(self._loop.stop)
                ending.callback(lambda: self._loop.run(self._shelf.aclose()).result())
                ending.callback(self._toolbox.close)
                ending.callback(lambda: self._loop.run(self.units.aclose()).result())
                ending.callback(lambda: self._loop.run(self._asking.close()).result())
                try:
                    self._loop.run(self._dispatcher.settled()).result()
                except KeyboardInterrupt:
                    self._dispatcher.cancel_all(compress=False)
                    self._loop.run(self._dispatcher.settled()).result()

    # dispatching

    def dispatch(self, task: str, **options: Any) -> Handle:
        """Dispatch an action and return at once; the options are those of `thread`.

        Raises:
            DispatchError: refused; every problem is listed.
        """
        action, problems = read_action(task, options)
        return self._dispatcher.dispatch(action, problems=problems)

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
        refuse_on(self._loop.loop, "lab.ask()")
        future = self._turn(prompt, options)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    async def aask(self, prompt: str, **options: Any) -> Turn:
        """`ask` for asynchronous code, on any event loop; cancelling it cancels the turn."""
        return await asyncio.wrap_future(self._turn(prompt, options))

    def _turn(self, prompt: str, options: Mapping[str, Any]) -> Future[Turn]:
        if self._closed:
            raise DispatchError.of("lab_closed", "the lab is closed: open it again with Lab.open")
        return self._loop.run(self._asking.ask(prompt, **options))

    def turns(self, session: str | None = None) -> list[Turn]:
        """The turns that ended well, oldest first; of one session or of all."""
        return self.store.turns.list(session)

    def slots(self, *, check: bool = False) -> SlotListing:
        """The slots of the project: phase, lane, order, policies, capabilities; with `check` each is imported too.

        Raises:
            ConfigError: the surface has problems; all of them are listed.
            LabError: `check`, and the slots are held back.
        """
        return self._slots.listing(check=check)

    def batch(self, actions: Iterable[Action]) -> list[Handle]:
        """Dispatch several actions, all of them or none; handles come in the order given.

        `after` and `context` may name actions of the same list, by their place (`#1` is the first) or by their name;
        what is cited is waited for. Dependents of one that fails are skipped and say why.

        Raises:
            DispatchError: every problem of every action, also circles and ambiguous names; nothing was stored.
        """
        return self._dispatcher.batch(list(actions))

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
        thread = self._require_thread(thread_of(id))
        if not thread.ended:
            raise LabError(f"{thread.id} has not ended: wait for it, or cancel it first", code="not_ended")
        action, problems = again(thread, changes)
        return self._dispatcher.dispatch(action, problems=problems)

    def steer(self, id: str, text: str) -> None:
        """A message that the worker of a live thread sees before its next call of the model.

        Raises:
            LabError: the thread is not live in this lab, or the text is blank.
        """
        self._live_handle(thread_of(id)).steer(text)

    def handle(self, id: str) -> Handle | None:
        """The handle of a thread of this lab that has not settled."""
        return self._dispatcher.handle(id)

    def live(self) -> list[Handle]:
        """Handles of everything that waits or runs here."""
        return self._dispatcher.live()

    def cancel(self, id: str = "all", *, compress: bool = True) -> list[str]:
        """Cancel one thread or all; returns the ids that were asked to end.

        Raises:
            LabError: the thread is not live in this lab.
        """
        if id == "all":
            return self._dispatcher.cancel_all(compress=compress)
        self._live_handle(id).cancel(compress=compress)
        return [id]

    def _live_handle(self, id: str) -> Handle:
        handle = self._dispatcher.handle(id)
        if handle is None:
            self._require_thread(id)
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
        return [thread for handle in handles if (thread := self.store.threads.get(handle.id))]

    def approvals(self) -> list[Approval]:
        """Calls of tools that wait for a person, oldest first, also those of another kernel on this store."""
        return self._desk.pending()

    def approve(self, id: str) -> list[Approval]:
        """Let a call be made: one (`a7`), or all that a thread waits for (`t3`); returns what was answered.

        Raises:
            LabError: nothing of that id waits.
        """
        return self._desk.answer(id, allow=True)

    def deny(self, id: str, why: str = "") -> list[Approval]:
        """Refuse a call, or all that a thread waits for; `why` is told to the worker.

        Raises:
            LabError: nothing of that id waits.
        """
        return self._desk.answer(id, allow=False, why=why)

    # looking

    def threads(self) -> list[Thread]:
        """All threads of the store, oldest first."""
        return self.store.threads.list()

    def replay(self, mode: str | None = None) -> dict[str, Any]:
        """What is recorded and what was answered from the record; `mode` changes what happens from now on.

        Args:
            mode: `auto`, `record` or `replay`; None only tells.

        Raises:
            LabError: `replay_off`, this lab was opened without a recording.
        """
        if self._cassette is None:
            if mode is None:
                return {"mode": "off", "file": None, "recordings": 0, "answered": 0, "recorded": 0}
            raise LabError("nothing is recorded here: set replay.mode in slate.yaml, and open anew", code="replay_off")
        return self._cassette.turn_to(mode).describe() if mode else self._cassette.describe()

    def episodes(self) -> list[Episode]:
        """All episodes of the store, oldest first."""
        return self.store.episodes.list()

    def episode(self, id: str) -> Episode:
        """One episode, by its id or its thread's.

        Raises:
            LabError: there is none; near ids are listed.
        """
        wanted = id if "." in id else f"{id}.e1"
        found = self.store.episodes.get(wanted)
        if found is None:
            known = self.store.episodes.ids()
            close = near(wanted, known) or known[-3:]
            hint = f"near it are {', '.join(close)}" if close else "the store has none yet"
            raise LabError(f"there is no episode {id!r}: {hint}", code="unknown_episode")
        return found

    def facts(self, id: str) -> list[Fact]:
        """The facts of a thread, by its id or its episode's; also of one that still runs or was cancelled."""
        thread = thread_of(id)
        self._require_thread(thread)
        return self.store.facts.list(thread)

    def calls(self, thread: str | None = None) -> list[Call]:
        """Requests made to models, oldest first."""
        return self.store.calls.list(thread)

    def events(self, thread: str | None = None) -> list[Event]:
        """What else happened, oldest first."""
        return self.store.events.list(thread)

    # memory

    def write(
        self,
        target: TargetLike,
        content: str,
        *,
        mode: Mode = "append",
        key: str | None = None,
        tags: Mapping[str, Any] | None = None,
        gated: bool = False,
    ) -> WriteResult:
        """Write to a file of a slate, `Title/folder/file.md`; see `Slates.write`.

        Raises:
            SlateWriteRefused: refused, and `gated`; else a refusal is the code of the result.
        """
        return self.slates.write(target, content, mode=mode, key=key, tags=tags, gated=gated)

    def read(
        self,
        target: TargetLike,
        *,
        max_tokens: int | None = None,
        order: Order = "oldest",
        where: Mapping[str, Any] | None = None,
        fallback: str | None = None,
    ) -> str:
        """The text of a file or folder of a slate; in an LRU folder, exactly what is returned is touched.

        Raises:
            SlateError: no such slate, folder or tag; no such file and no fallback.
        """
        return self.slates.read(target, max_tokens=max_tokens, order=order, where=where, fallback=fallback).text

    def peek(self, target: TargetLike) -> str:
        """The whole text of a file or folder of a slate; touches nothing."""
        return self.slates.peek(target).text

    def search(self, text: str, *, slate: str | None = None, folder: str | None = None, limit: int = 20) -> list[Hit]:
        """Live blocks of slates that hold every word of `text`, best first; touches nothing."""
        return self.slates.search(text, slate=slate, folder=folder, limit=limit)

    def models(self) -> list[dict[str, Any]]:
        """One row per permitted route: ratings, route, whether its key is there (never the key), price, guidance."""
        return list(model_rows(self.policy, self._env, remembered=self.store.preferences.providers()))

    def status(self) -> dict[str, Any]:
        """Where the lab stands: project, store, default model, permits, queue, spend, warnings."""
        spent, default = self.store.calls.spent_nusd(), self._grant(None)
        return {
            "project": self.root.name,
            "store": str(self.store.path),
            "session": self.store.session,
            "model": default.logical if default else None,
            "max_concurrent": self.config.max_concurrent,
            "running": list(self._dispatcher.holding),
            "waiting": list(self._dispatcher.waiting),
            "queue": self._dispatcher.line(),
            "threads": self.store.threads.count(),
            "episodes": self.store.episodes.count(),
            "spent_usd": f"{spent / 10**9:.6f}",
            "replay": self.config.replay.mode,
            "sandbox": find_sandbox(self.config.tools.sandbox).status,
            "starting": self.starting[0],
            "trusted": self.trust.trusted,
            "held_back": list(self.trust.held),
            "units": self._toolbox.rows(),
            "warnings": list(self.warnings),
        }

    @property
    def frames(self) -> Frames:
        """The store as pandas frames: `lab.frames.threads()`, `.episodes()`, `.calls()`, `.costs()`, ..."""
        from slate_lab.reports.frames import Frames

        return Frames(self.store)

    def graph(self) -> WeaveGraph:
        """The weave: threads as lanes, episodes as knots, references as edges."""
        from slate_lab.jupyter.graph import WeaveGraph

        graph = WeaveGraph(self.threads(), self.episodes())
        if self.live():
            graph.follow(lambda: (self.threads(), self.episodes()))
        return graph

    def budget(self, id: str | None = None) -> BudgetBar:
        """The brief of a thread (default the newest) by source, against its model's window."""
        from slate_lab.jupyter.budget import BudgetBar

        thread = self._require_thread(thread_of(id)) if id else next(reversed(self.threads()), None)
        if thread is None:
            raise LabError("no thread has run yet: dispatch one first", code="no_thread")
        reserved = None if thread.window is None else self._reserved(thread)
        return BudgetBar(list(thread.brief), thread.window, reserved, label=f"{thread.id} {thread.label}")

    def board(self) -> CostBoard:
        """Spend by thread, model and kind."""
        from slate_lab.jupyter.board import CostBoard

        return CostBoard(self.calls())

    def panel(self) -> SlatePanel:
        """The folders of memory: fill, blocks in the order they would leave, what left and why. Touches nothing."""
        from slate_lab.jupyter.folders import panel_of

        return panel_of(self.store, now_ns=self._clock())

    def _require_thread(self, id: str) -> Thread:
        thread = self.store.threads.get(id)
        if thread is None:
            close = near(id, self.store.threads.ids())
            hint = f"near it are {', '.join(close)}" if close else "see the threads with lab.threads()"
            raise LabError(f"there is no thread {id!r}: {hint}", code="unknown_thread")
        return thread

    def _reserved(self, thread: Thread) -> int | None:
        """Tokens kept for one answer on the route the thread was granted, if that route still stands."""
        grants = (self._grant(thread.logical), self._grant(None))
        route = f"{thread.provider}/{thread.model}"
        return next((room_of(g)[1] for g in grants if g and str(g.route) == route), None)

    def _warm(self) -> None:
        """Load what the first dispatch needs, off the loop."""
        tokens.warm()
        grant = self._grant(None)
        if grant and grant.provider.protocol not in ("local", "scripted"):
            PriceBook.warm()

    def _grant(self, logical: str | None) -> Grant | None:
        """The route a name has now, None if it has none."""
        try:
            return self._shelf.grant(logical)
        except LabError:
            return None

    def _progress(self, text: str, share: float | None) -> None:
        self.starting = (text, share)


def _save(cassette: Cassette) -> None:
    """Save the recordings; what could not be kept is a Python warning, for the lab is closing."""
    known = len(cassette.warnings)
    cassette.save()
    for text in cassette.warnings[known:]:
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def _overrides(config: Mapping[str, Any] | None, env: Mapping[str, str]) -> dict[str, Any]:
    """What is merged over the files: `SLATE_LAB_REPLAY` sets replay.mode, so that a notebook is recorded unchanged."""
    merged = dict(config or {})
    if mode := env.get("SLATE_LAB_REPLAY"):
        merged["replay"] = {**merged.get("replay", {}), "mode": mode}
    return merged

"""The rooms of one lab, wired: who is made of whom, and in which order they are closed. Decides nothing.

In: a resolved project and an open store. Out: `Rooms`, whose parts the lab's verbs use. Called by `Lab` only.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from slate_lab import tokens
from slate_lab.config import Trust
from slate_lab.errors import LabError
from slate_lab.models.cassette import Cassette
from slate_lab.models.gate import Gate
from slate_lab.models.prices import PriceBook
from slate_lab.models.protocol import Model
from slate_lab.records import Thread, near
from slate_lab.routing.pacing import Pacer
from slate_lab.routing.policy import Grant, Policy
from slate_lab.routing.shelf import Shelf
from slate_lab.slates import Slates
from slate_lab.store import Store
from slate_lab.weave.approval import Desk
from slate_lab.weave.asking import Asking
from slate_lab.weave.brief import random_fence, seeded_fence
from slate_lab.weave.dispatch import Dispatcher
from slate_lab.weave.functions import Functions, check_names
from slate_lab.weave.loop import AT_END_S, LoopThread, refuse_on
from slate_lab.weave.mcp import Servers
from slate_lab.weave.purse import Purse
from slate_lab.weave.recall import memory_tools
from slate_lab.weave.run import Runner
from slate_lab.weave.slotroom import Dispatch, SlotRoom
from slate_lab.weave.toolbox import Toolbox
from slate_lab.weave.tools import BUILT_IN
from slate_lab.weave.tools.commanding import command_tools
from slate_lab.weave.tools.facts_tool import facts_tools
from slate_lab.weave.tools.workspace import Workspace
from slate_lab.weave.turns import WorkerTurns
from slate_lab.weave.units import Units

__all__ = ["Rooms"]


class Rooms:
    """Every part of an opened lab, made once and closed once."""

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
        dispatch: Dispatch,
    ) -> None:
        config = policy.config
        self.root, self.policy, self.config, self.store = root, policy, config, store
        self.trust = trust
        self.starting: tuple[str, float | None] = ("", None)
        self.env, self.clock = env, clock
        self.cassette = Cassette.open_for(config.replay, root)
        looking = store.read_only  # then nothing is laid over what is kept
        keep_days = None if looking else config.ledger.keep_days
        self.slates = Slates(config.slates, store.blocks, clock=clock, keep_days=keep_days, read_only=looking)
        self.warnings = (
            *notes,
            *self.slates.notes,
            *(self.cassette.warnings if self.cassette else ()),
        )
        kept = None if str(store.path) == ":memory:" else Path(store.path)
        workspace = Workspace.of_project(root, config.workspace, store=kept)
        base = {**BUILT_IN, **command_tools(config.tools, root), **facts_tools(store.facts)}
        base.update(memory_tools(self.slates, config))
        functions = config.tools.functions
        check_names(functions, base)
        self.shelf = Shelf(
            self.policy,
            env=env,
            given=models,
            replay=self.cassette,
            progress=self.progress,
            remembered=store.preferences.providers,
        )
        self.loop = LoopThread()
        nonce = seeded_fence if self.cassette else random_fence
        prices = PriceBook.from_config(config)
        taken = (*base, *(f.partition(":")[2] for f in functions))
        self.units = Units(trust, patterns=config.worker_extensions, taken=taken)
        servers = Servers(config.mcp_servers, root=root, env=env)
        self.toolbox = Toolbox(base, self.units, Functions(trust, functions), servers)
        self.desk = Desk(store, seconds=config.tools.approve_s)
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
            routes=self.shelf,
            config=config,
            workspace=workspace,
            nonce=nonce,
            toolbox=self.toolbox,
            desk=self.desk,
            slates=self.slates,
        )
        self.dispatcher = Dispatcher(
            loop=self.loop.loop,
            root=root,
            store=store,
            routes=self.shelf,
            runner=runner,
            config=config,
            tools=self.toolbox,
            clock=clock,
            nonce=nonce,
            priced=lambda route: prices.knows(route, at_ns=clock()),
            purse=purse,
            slates=self.slates,
        )
        self.slots = SlotRoom(
            root=root,
            config=config,
            store=store,
            trust=trust,
            workspace=workspace.root,
            tools=self.toolbox,
            dispatch=dispatch,
            slates=self.slates,
            clock=clock,
        )
        runner.turns = WorkerTurns(self.slots)
        self.asking = Asking(
            self.slots,
            grounds=self.dispatcher,
            asker=runner.asker,
            workspace=workspace,
            loop=self.loop.loop,
        )
        self.closing = threading.Lock()
        self.closed = False
        threading.Thread(target=self.warm, name="slate-lab-warm", daemon=True).start()

    def close(self, *, wait: bool = False) -> None:
        """Close admission, cancel what runs (or wait for it), then close models and store. A second call does nothing.

        Args:
            wait: let what was dispatched come to its end first.
        """
        if self.loop.forked:
            return  # the child of a fork has neither the loop's thread nor a claim on the store
        refuse_on(self.loop.loop, "lab.close()")
        with self.closing:
            if self.closed:
                return
            self.closed = True
            self.dispatcher.refuse()
            if not wait:
                self.dispatcher.cancel_all(compress=False)
            with ExitStack() as ending:  # each step is taken whatever becomes of the ones before it
                ending.callback(self.store.close)
                if self.cassette:
                    ending.callback(_save, self.cassette)
                ending.callback(self.dispatcher.give_up)
                ending.callback(self.slots.close)
                ending.callback(self._stop)
                ending.callback(lambda: self.loop.run(self.shelf.aclose()).result())
                ending.callback(self.toolbox.close)
                ending.callback(lambda: self.loop.run(self.units.aclose()).result())
                ending.callback(lambda: self.loop.run(self.asking.close()).result())
                try:
                    self.loop.run(self.dispatcher.settled()).result()
                except KeyboardInterrupt:
                    self.dispatcher.cancel_all(compress=False)
                    self.loop.run(self.dispatcher.settled()).result()

    def _stop(self) -> None:
        """End the loop; a blocking call that goes on all the same is an event and a Python warning."""
        if not self.loop.stop():
            text = f"a blocking call still runs {AT_END_S:g} s after its lab was closed: it was left behind"
            if not self.store.read_only:
                self.store.events.add("lab.left_behind", data={"after_s": AT_END_S})
            warnings.warn(f"{text}, and Python waits for it when the program ends", RuntimeWarning, stacklevel=2)

    def require_thread(self, id: str) -> Thread:
        """The thread of that id; raises `LabError` with near ids if there is none."""
        thread = self.store.threads.get(id)
        if thread is None:
            close = near(id, self.store.threads.ids())
            hint = f"near it are {', '.join(close)}" if close else "see the threads with lab.threads()"
            raise LabError(f"there is no thread {id!r}: {hint}", code="unknown_thread")
        return thread

    def warm(self) -> None:
        """Load what the first dispatch needs, off the loop."""
        tokens.warm()
        grant = self.grant(None)
        if grant and grant.provider.protocol not in ("local", "scripted"):
            PriceBook.warm()

    def grant(self, logical: str | None) -> Grant | None:
        """The route a name has now, None if it has none."""
        try:
            return self.shelf.grant(logical)
        except LabError:
            return None

    def progress(self, text: str, share: float | None) -> None:
        """Note how far the embedded model's start is."""
        self.starting = (text, share)


def _save(cassette: Cassette) -> None:
    """Save the recordings; what could not be kept is a Python warning, for the lab is closing."""
    known = len(cassette.warnings)
    cassette.save()
    for text in cassette.warnings[known:]:
        warnings.warn(text, RuntimeWarning, stacklevel=2)

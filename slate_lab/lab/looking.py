"""What a lab shows: records, views, frames, where it stands. The other half of `Lab`; nothing here changes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slate_lab.errors import LabError
from slate_lab.lab.rooms import Rooms
from slate_lab.records import Call, Episode, Event, Fact, Thread, near, thread_of
from slate_lab.routing.listing import model_rows
from slate_lab.weave.admission import room_of
from slate_lab.weave.tools.sandbox import find_sandbox

if TYPE_CHECKING:
    from slate_lab.jupyter.board import CostBoard
    from slate_lab.jupyter.budget import BudgetBar
    from slate_lab.jupyter.graph import WeaveGraph
    from slate_lab.jupyter.panel import SlatePanel
    from slate_lab.reports.frames import Frames


__all__ = ["Looking"]


class Looking:
    """The verbs that only look."""

    _rooms: Rooms

    def threads(self) -> list[Thread]:
        """All threads of the store, oldest first."""
        return self._rooms.store.threads.list()

    def replay(self, mode: str | None = None) -> dict[str, Any]:
        """What is recorded and what was answered from the record; `mode` changes what happens from now on.

        Args:
            mode: `auto`, `record` or `replay`; None only tells.

        Raises:
            LabError: `replay_off`, this lab was opened without a recording.
        """
        if self._rooms.cassette is None:
            if mode is None:
                return {"mode": "off", "file": None, "recordings": 0, "answered": 0, "recorded": 0}
            raise LabError("nothing is recorded here: set replay.mode in slate.yaml, and open anew", code="replay_off")
        return self._rooms.cassette.turn_to(mode).describe() if mode else self._rooms.cassette.describe()

    def episodes(self) -> list[Episode]:
        """All episodes of the store, oldest first."""
        return self._rooms.store.episodes.list()

    def episode(self, id: str) -> Episode:
        """One episode, by its id or its thread's.

        Raises:
            LabError: there is none; near ids are listed.
        """
        wanted = id if "." in id else f"{id}.e1"
        found = self._rooms.store.episodes.get(wanted)
        if found is None:
            known = self._rooms.store.episodes.ids()
            close = near(wanted, known) or known[-3:]
            hint = f"near it are {', '.join(close)}" if close else "the store has none yet"
            raise LabError(f"there is no episode {id!r}: {hint}", code="unknown_episode")
        return found

    def facts(self, id: str) -> list[Fact]:
        """The facts of a thread, by its id or its episode's; also of one that still runs or was cancelled."""
        thread = thread_of(id)
        self._rooms.require_thread(thread)
        return self._rooms.store.facts.list(thread)

    def calls(self, thread: str | None = None) -> list[Call]:
        """Requests made to models, oldest first."""
        return self._rooms.store.calls.list(thread)

    def events(self, thread: str | None = None) -> list[Event]:
        """What else happened, oldest first."""
        return self._rooms.store.events.list(thread)

    def models(self) -> list[dict[str, Any]]:
        """One row per permitted route: ratings, route, whether its key is there (never the key), price, guidance."""
        return list(
            model_rows(self._rooms.policy, self._rooms.env, remembered=self._rooms.store.preferences.providers())
        )

    def verify(self) -> list[str]:
        """What is wrong with the store, a sentence each: the file, its references, every episode, every counter.

        Reads all of it.
        """
        return self._rooms.store.verify()

    def status(self) -> dict[str, Any]:
        """Where the lab stands: project, store, default model, permits, queue, spend, warnings."""
        spent, default = self._rooms.store.calls.spent_nusd(), self._rooms.grant(None)
        return {
            "project": self._rooms.root.name,
            "store": str(self._rooms.store.path),
            "session": self._rooms.store.session,
            "model": default.logical if default else None,
            "max_concurrent": self._rooms.config.max_concurrent,
            "running": list(self._rooms.dispatcher.holding),
            "waiting": list(self._rooms.dispatcher.waiting),
            "queue": self._rooms.dispatcher.line(),
            "threads": self._rooms.store.threads.count(),
            "episodes": self._rooms.store.episodes.count(),
            "spent_usd": f"{spent / 10**9:.6f}",
            "replay": self._rooms.config.replay.mode,
            "sandbox": find_sandbox(self._rooms.config.tools.sandbox).status,
            "starting": self._rooms.starting[0],
            "trusted": self._rooms.trust.trusted,
            "held_back": list(self._rooms.trust.held),
            "units": self._rooms.toolbox.rows(),
            "warnings": list(self._rooms.warnings),
        }

    @property
    def frames(self) -> Frames:
        """The store as pandas frames: `lab.frames.threads()`, `.episodes()`, `.calls()`, `.costs()`, ..."""
        from slate_lab.reports.frames import Frames

        return Frames(self._rooms.store)

    def graph(self) -> WeaveGraph:
        """The weave: threads as lanes, episodes as knots, references as edges."""
        from slate_lab.jupyter.graph import WeaveGraph

        graph = WeaveGraph(self.threads(), self.episodes())
        if self._rooms.dispatcher.live():
            graph.follow(lambda: (self.threads(), self.episodes()))
        return graph

    def budget(self, id: str | None = None) -> BudgetBar:
        """The brief of a thread (default the newest) by source, against its model's window."""
        from slate_lab.jupyter.budget import BudgetBar

        thread = self._rooms.require_thread(thread_of(id)) if id else next(reversed(self.threads()), None)
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

        return panel_of(self._rooms.store, now_ns=self._rooms.clock())

    def _reserved(self, thread: Thread) -> int | None:
        """Tokens kept for one answer on the route the thread was granted, if that route still stands."""
        grants = (self._rooms.grant(thread.logical), self._rooms.grant(None))
        route = f"{thread.provider}/{thread.model}"
        return next((room_of(g)[1] for g in grants if g and str(g.route) == route), None)

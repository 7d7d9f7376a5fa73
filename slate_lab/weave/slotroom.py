"""The slots of one lab: the surface as it is now, whether its code may run, and what its slots are plugged into.

In: what the lab wired. Out: a permitted `Seen`, `Ports`, and sessions whose bootstrap has run. Called by `turns`
(workers whose type carries slots) and `asking` (a person's session).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from slate_lab.config import LabConfig, Trust
from slate_lab.errors import LabError
from slate_lab.records import Episode, near
from slate_lab.slots.draft import Draft
from slate_lab.slots.listing import SlotListing, import_all, list_slots
from slate_lab.slots.pipeline import Pipeline
from slate_lab.slots.ports import Live, Ports, Slates
from slate_lab.slots.surface import BASE, Surface, load_surface
from slate_lab.slots.watch import Seen, Watch
from slate_lab.store import Store
from slate_lab.store.turns import TurnSession
from slate_lab.weave.tools import Kit, Tool

__all__ = ["Dispatch", "SlotRoom", "chosen"]


class Dispatch(Struct, frozen=True):
    """How slots dispatch threads: to wait for one, and to let one go on."""

    run: Callable[..., Awaitable[Episode]]
    spawn: Callable[..., str]


class SlotRoom:
    """One for a lab.

    Args:
        root, config, store: what the lab opened.
        trust: what the person said of the project when the lab was opened.
        workspace: the folder that slots and workers share.
        tools: all tools of the lab, by name.
        dispatch: how a slot dispatches threads.
        slates: declared memory, None where there is none.
        clock: nanoseconds since the epoch.
    """

    def __init__(
        self,
        *,
        root: Path,
        config: LabConfig,
        store: Store,
        trust: Trust,
        workspace: Path,
        tools: Mapping[str, Tool],
        dispatch: Dispatch,
        slates: Slates | None,
        clock: Callable[[], int],
    ) -> None:
        self.workspace, self.store, self.clock = workspace, store, clock
        self._root, self._trust, self._tools, self._dispatch, self._slates = root, trust, tools, dispatch, slates
        self._config, runtime = config, config.runtime
        allowed = config.slots.capabilities
        self._watch = Watch(root, runtime.surface_root, allowed=allowed, permit=self._permit)
        self.pipeline = Pipeline(enforce_timeouts=runtime.enforce_slot_timeouts, clock=clock)

    def look(self, ids: Sequence[str] | None = None) -> Seen:
        """The surface now, or only these slots of it.

        Raises:
            ConfigError: it has problems.
            LabError: its code must not run (`held_back`), or it has no such slot.
        """
        seen = self._watch.look()
        if ids is None:
            return seen
        surface = seen.surface
        for id in ids:
            if id not in {slot.id for slot in surface.active}:
                close = near(id, [slot.id for slot in surface.active])
                hint = f"did you mean {close[0]}?" if close else "list it in pipelines.yaml"
                raise LabError(f"there is no active slot {id}: {hint}", code="unknown_slot")
        return replace(seen, surface=surface.only(ids))

    def listing(self, *, check: bool = False) -> SlotListing:
        """The slots of the project, for people; nothing is run unless `check` asks for every import."""
        surface = load_surface(self._root, self._config.runtime.surface_root, allowed=self._config.slots.capabilities)
        found = list_slots(surface, enforced=self._config.runtime.enforce_slot_timeouts)
        return import_all(found, self.look()) if check and surface.active else found

    def ports(self, kit: Kit, *, waits: bool, live: Live) -> Ports:
        """What the slots of one turn are connected to.

        Args:
            kit: what tools work with.
            waits: whether a slot may wait for a thread; one that runs inside a worker would hold its permit.
            live: where deliveries go.
        """
        turns = self.store.turns
        return Ports(
            state=turns,
            history=turns,
            events=turns.add,
            live=live,
            tools=_Tools(self._tools, kit),
            threads=_Threads(self._dispatch, waits=waits),
            slates=self._slates,
        )

    async def start(self, session: TurnSession, seen: Seen, ports: Ports) -> tuple[str, ...]:
        """What bootstrap added to `session`: run now if it has not run yet, else as it was stored.

        Raises:
            SlotFailed: a hard slot failed: nothing is stored, and the session has not started.
        """
        if session.fragments is not None:
            return session.fragments
        draft = Draft(session=session.id, turn=0, workspace=self.workspace)
        await self.pipeline.bootstrap(seen, draft, ports)
        self.store.turns.snapshot(session.id, draft.fragments)
        return tuple(draft.fragments)

    def close(self) -> None:
        """Take out the code of slots."""
        self.pipeline.close()

    def _permit(self, surface: Surface) -> None:
        if not surface.slots:
            return
        now = Trust.of(self._root, vouched=self._trust.vouched)
        outside = [s for s in surface.active if s.entrypoint.module is None and not now.allows(s.entrypoint.file)]
        if now.trusted and not outside:
            return
        why = now.reason or f"{outside[0].entrypoint.file.name} lies where trust does not look: put it into the surface"
        raise LabError(
            f"the slots of {self._root.name} are held back: {why}; read them, then `slate-lab trust` or `%slate trust`",
            code="held_back",
        )


def chosen(slots: str | Sequence[str]) -> Sequence[str] | None:
    """The slots that `all`, `base` or a list of ids mean; None is every listed one."""
    if slots == "all":
        return None
    return BASE if slots == "base" else list(slots)


class _Tools:
    """The lab's tools, as slots call them."""

    def __init__(self, tools: Mapping[str, Tool], kit: Kit) -> None:
        self._tools, self._kit = tools, kit

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The result of one call."""
        tool = self._tools.get(name)
        if tool is None:
            close = near(name, self._tools)
            hint = f"did you mean {close[0]}?" if close else f"the tools are {', '.join(self._tools)}"
            raise LabError(f"there is no tool {name!r}: {hint}", code="unknown_tool")
        return await tool.call(self._kit, dict(arguments))


class _Threads:
    """The lab's dispatcher, as slots use it."""

    def __init__(self, dispatch: Dispatch, *, waits: bool) -> None:
        self._dispatch, self._waits = dispatch, waits

    async def run(self, task: str, **options: Any) -> Episode:
        """The episode of a new thread."""
        if not self._waits:
            text = "a slot of a worker cannot wait for a thread, its worker holds a permit: use ctx.threads.spawn"
            raise LabError(text, code="would_wait")
        return await self._dispatch.run(task, **options)

    def spawn(self, task: str, **options: Any) -> str:
        """The id of a new thread."""
        return self._dispatch.spawn(task, **options)

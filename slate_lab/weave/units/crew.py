"""The units of one worker: registered anew, started before the action, shut down once after it.

In: the frozen resolution, the worker's kit, what the action was granted. Out: the worker's tools, as they are at any
moment, and the models its units registered. Made by `Units.crew` for the runner, which closes it with the kit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any

from msgspec.structs import replace

from slate_lab.errors import LabError
from slate_lab.models.protocol import Model
from slate_lab.weave.tools.function import call_foreign
from slate_lab.weave.tools.kit import Kit, Tool, ToolFailed
from slate_lab.weave.units.names import collisions, guarded, same_name
from slate_lab.weave.units.resolving import LoadUnit, Resolution
from slate_lab.weave.units.unit import Handler, Provider, Unit, UnitFailed

__all__ = ["SHUTDOWN_S", "Crew", "Late", "compose"]

SHUTDOWN_S = 3.0
"""How long all shutdown handlers of a worker may take together."""

Late = Callable[[str, bool], bool]
"""Whether the action may use a tool that was registered after admission: its name, and whether it only looks."""


class Crew:
    """The started units of one worker.

    Args:
        resolution: the lab's, frozen.
        providers: the lab's registrations: those of its units and its own.
        kit: the worker's.
        granted: the tools admission gave to the action; a unit's are replaced by this worker's own.
        taken: names of the lab's other tools.
        late: decides on tools that were not known then.
        live: the workers that may go on; this one is in it until its end begins.
    """

    def __init__(
        self,
        resolution: Resolution,
        *,
        providers: Mapping[str, Provider],
        kit: Kit,
        granted: Mapping[str, Tool],
        taken: Iterable[str],
        late: Late,
        live: set[Crew],
    ) -> None:
        self._resolution, self._inherited, self._kit = resolution, providers, kit
        self._granted, self._late, self._live = granted, late, live
        self._taken = taken
        self._units: list[Unit] = []
        self._faults: list[UnitFailed] = []
        self._models: dict[str, Model] = {}
        self._made: list[Model] = []
        self._ending: asyncio.Task[None] | None = None
        self._tools: dict[str, Tool] = {}
        self.tools: Mapping[str, Tool] = _Live(lambda: self._tools)
        self._changed()
        if not self.idle:
            live.add(self)

    @property
    def idle(self) -> bool:
        """Whether no unit runs in it: there is nothing to start and nothing to end."""
        return not (self._resolution.selected or self._inherited)

    @cached_property
    def _foreign(self) -> frozenset[str]:
        known = self._resolution.tools
        return frozenset(same_name(n) for n in (*self._taken, *self._granted) if n not in known)

    async def start(self) -> None:
        """Register every unit, await its start-up handlers, look at the names again, take over providers.

        Raises:
            UnitFailed: the action must not begin; `close` is still to be called.
        """
        for selected in self._resolution.selected:
            await self._register(selected)
        self._refuse_faults()
        for unit in self._units:
            for handler in list(unit.start):
                await self._guarded(unit, handler, "unit_start", "start-up failed")
        self._refuse_faults()
        self._take_providers()

    def model(self, provider: str) -> Model | None:
        """The model that answers on a provider in this worker, if a unit or the lab registered one."""
        return self._models.get(provider)

    async def close(self) -> None:
        """End the worker's units once: nothing of them runs any more, then handlers, then disposal whatever they did.

        Raises:
            UnitFailed: a handler failed or was left behind; everything is disposed of all the same.
        """
        self._live.discard(self)
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
            self._ending.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._ending)

    # start-up

    async def _register(self, selected: LoadUnit) -> None:
        unit = Unit(
            selected.name,
            thread=self._kit.thread,
            workspace=self._kit.workspace.root,
            check=self._check,
            changed=self._changed,
        )
        self._units.append(unit)
        for register in selected.registrars:
            await self._guarded(unit, partial(register, unit), "unit_start", "registering failed")

    async def _guarded(self, unit: Unit, handler: Callable[[], Any], code: str, what: str) -> None:
        try:
            await call_foreign(handler, unit.name)
        except UnitFailed:
            raise
        except Exception as e:
            said = e.message if isinstance(e, LabError) else f"{type(e).__name__}: {e}"
            raise UnitFailed(f"the unit {unit.name}: {what}: {said[:500]}", code=code) from e

    def _check(self, unit: Unit, name: str) -> None:
        """A name that a unit wants in this worker; a refusal is kept, for the unit may swallow it."""
        others = {same_name(n) for u in self._units if u is not unit for n in u.tools}
        if collisions([name], self._foreign | others):
            fault = UnitFailed(
                f"the unit {unit.name} registers {name}, the name of a tool that is not its own", code="tool_collision"
            )
            self._faults.append(fault)
            raise fault

    def _refuse_faults(self) -> None:
        if self._faults:
            raise self._faults[0]

    def _changed(self) -> None:
        """The tool set anew: what was granted, what units have now and the action may use, less the lab's own."""
        known = self._resolution.tools
        tools = {name: tool for name, tool in self._granted.items() if name not in known}
        for unit in self._units:
            for name, tool in list(unit.tools.items()):
                if name in self._granted or (name not in known and self._late(name, name in unit.reads)):
                    tools[name] = replace(tool, run=self._while_live(tool))
        order = [*(n for n in self._granted if n in tools), *(n for n in tools if n not in self._granted)]
        self._tools = guarded({name: tools[name] for name in order})
        self._kit.tools = self.tools

    def _while_live(self, tool: Tool) -> Callable[[Kit, dict[str, Any]], Any]:
        async def run(kit: Kit, arguments: dict[str, Any]) -> str:
            if self not in self._live:
                raise ToolFailed("the worker has ended")
            result = tool.run(kit, arguments)
            return result if isinstance(result, str) else str(await result)

        return run

    def _take_providers(self) -> None:
        """The units' own models, then the lab's whose ids this worker lacks."""
        own = {id: model for unit in self._units for id, model in unit.providers.items()}
        for id, given in {**self._inherited, **own}.items():
            model = compose(id, given)
            if model is not given:
                self._made.append(model)
            self._models[id] = model

    # the end

    async def _end(self) -> None:
        faults: list[str] = []
        for unit in self._units:
            unit.close()
        try:
            until = time.monotonic() + SHUTDOWN_S
            for unit in reversed(self._units):
                for handler in reversed(unit.shutdown):
                    fault = await _ended(unit, handler, max(0.0, until - time.monotonic()))
                    faults += [fault] if fault else []
        finally:
            await self._dispose(faults)
        if faults:
            raise UnitFailed("; ".join(faults), code="unit_shutdown")

    async def _dispose(self, faults: list[str]) -> None:
        self._tools, self._models = {}, {}
        for model in self._made:
            fault = await _within(model.aclose, 1.0)
            faults += [f"a model of a unit was not closed: {fault}"] if fault else []


class _Live(Mapping[str, Tool]):
    """The tools of a worker, looked up where they are now."""

    def __init__(self, now: Callable[[], dict[str, Tool]]) -> None:
        self._now = now

    def __getitem__(self, name: str) -> Tool:
        return self._now()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


def compose(id: str, given: Provider) -> Model:
    """The model that was registered, or that its maker makes.

    Raises:
        UnitFailed: it is none, or cannot be made.
    """
    if isinstance(given, Model):
        return given
    try:
        made = given()
    except (Exception, SystemExit) as e:
        raise UnitFailed(f"the provider {id} cannot be taken over: {type(e).__name__}: {e}", code="provider") from e
    if not isinstance(made, Model):
        raise UnitFailed(f"the provider {id} cannot be taken over: {type(made).__name__} is no model", code="provider")
    return made


async def _ended(unit: Unit, handler: Handler, seconds: float) -> str:
    fault = await _within(handler, seconds)
    return f"the unit {unit.name}: shutdown {fault}" if fault else ""


async def _within(handler: Callable[[], Any], seconds: float) -> str:
    """Await a handler for so long, and leave it behind if it takes longer; says what went wrong."""
    task = asyncio.ensure_future(call_foreign(handler, "it"))
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if not done:
        task.cancel()
        task.add_done_callback(lambda t: t.cancelled() or t.exception())
        return f"took more than {SHUTDOWN_S:g} s and was left behind"
    error = None if task.cancelled() else task.exception()
    return f"failed: {type(error).__name__}: {str(error)[:300]}" if error else ""

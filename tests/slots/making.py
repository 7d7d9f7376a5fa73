"""A project with a surface, written file by file, and turns of it on a store in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from slate_lab.records import Delivery, SlotEvent
from slate_lab.slots.draft import Draft
from slate_lab.slots.pipeline import Pipeline
from slate_lab.slots.ports import Ports
from slate_lab.slots.surface import Surface, load_surface
from slate_lab.slots.watch import Watch
from slate_lab.store import Store

BASE_INPUT = 'def process(ctx):\n    ctx.input.add("user", ctx.input.raw_text)\n'
BASE_OUTPUT = "def process(ctx):\n    ctx.send_text(ctx.output.response_text)\n"


class Core:
    """A project whose surface is written by a test."""

    def __init__(self, root: Path, name: str = "agent") -> None:
        self.root, self.name, self.folder = root, name, root / name
        self.folder.mkdir(parents=True, exist_ok=True)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the surface."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def slot(self, where: str, code: str = "def process(ctx):\n    pass\n", **manifest: Any) -> None:
        """Write `phase/id` with its code and manifest."""
        self.write(f"{where}/module.py", code)
        self.write(f"{where}/slot.yaml", yaml.safe_dump(manifest) if manifest else "")

    def pipelines(self, text: str | None = None, **phases: Any) -> None:
        """Write pipelines.yaml: `input=[...]` is its serial lane, `input_parallel=[...]` the other."""
        if text is None:
            table: dict[str, Any] = {"schema_version": 1}
            for key, ids in phases.items():
                phase, _, lane = key.partition("_")
                table.setdefault(phase, {})[lane or "serial"] = ids
            text = yaml.safe_dump(table)
        self.write("pipelines.yaml", text)

    def base(self) -> None:
        """The two seed slots, listed."""
        self.slot("input/base_input", BASE_INPUT, failure_policy="hard")
        self.slot("output/base_output", BASE_OUTPUT)
        self.pipelines(input=["base_input"], output=["base_output"])

    def load(self, allowed: tuple[str, ...] = ("*",)) -> Surface:
        """The checked surface."""
        return load_surface(self.root, self.name, allowed=allowed)


class Bench:
    """Runs phases of a core's surface; what was delivered, stored and noted can be looked at."""

    def __init__(self, core: Core, *, allowed: tuple[str, ...] = ("*",), enforce: bool = False, **ports: Any) -> None:
        self.store = Store.open(":memory:")
        self.watch = Watch(core.root, core.name, allowed=allowed)
        self.pipeline = Pipeline(enforce_timeouts=enforce)
        self.live: list[Delivery] = []
        self.session = self.store.turns.open().id
        self.core, turns = core, self.store.turns
        self.ports = Ports(state=turns, history=turns, events=turns.add, live=self.live.append, **ports)

    def draft(self, text: str = "What broke?", *, turn: int = 1, response: str = "") -> Draft:
        """A turn that begins."""
        return Draft(session=self.session, turn=turn, workspace=self.core.root, raw_text=text, response_text=response)

    async def run(self, phase: Any, draft: Draft | None = None, **options: Any) -> Draft:
        """Run one phase."""
        draft = self.draft(**options) if draft is None else draft
        await self.pipeline.run(phase, self.watch.look(), draft, self.ports)
        return draft

    def events(self, *what: str) -> list[SlotEvent]:
        """What happened, or only some of it."""
        return [e for e in self.store.turns.events() if not what or e.what in what]

    def close(self) -> None:
        """Give everything back."""
        self.pipeline.close()
        self.store.close()

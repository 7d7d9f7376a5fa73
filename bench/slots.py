"""Slots: a turn through ten trivial slots, beside calling ten functions in one run.

One turn = a look at the surface, the input phase, the output phase, every event stored. The model is left out.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from slate_lab.slots.draft import Draft
from slate_lab.slots.pipeline import Pipeline
from slate_lab.slots.ports import Ports
from slate_lab.slots.watch import Watch
from slate_lab.store import Store

N = 500
SLOTS = 10


def surface(root: Path, kind: str, lane: str) -> None:
    """Ten slots that do nothing, half before and half after the model."""
    lanes: dict[str, list[str]] = {"input": [], "output": []}
    for n in range(SLOTS):
        phase = "input" if n < SLOTS // 2 else "output"
        folder = root / "agent" / phase / f"s{n}"
        folder.mkdir(parents=True)
        (folder / "module.py").write_text(f"{kind} process(ctx):\n    pass\n")
        (folder / "slot.yaml").write_text("")
        lanes[phase].append(f"s{n}")
    phases = "".join(f"{phase}: {{{lane}: [{', '.join(ids)}]}}\n" for phase, ids in lanes.items())
    (root / "agent" / "pipelines.yaml").write_text(f"schema_version: 1\n{phases}")


async def turns(root: Path, store: Store) -> tuple[float, float]:
    """Microseconds a turn: the median by the wall, the mean of the processor."""
    watch, pipeline, session = Watch(root, "agent", allowed=("*",)), Pipeline(), store.turns.open().id
    ports = Ports(state=store.turns, history=store.turns, events=store.turns.add, live=lambda delivery: None)

    async def turn(n: int) -> None:
        seen, draft = watch.look(), Draft(session=session, turn=n, workspace=root, raw_text="x")
        await pipeline.run("input", seen, draft, ports)
        await pipeline.run("output", seen, draft, ports)

    await turn(0)
    await asyncio.sleep(0.1)  # past the time in which a file counts as just changed
    walls, cpu = [], time.process_time()
    for n in range(1, N + 1):
        began = time.perf_counter()
        await turn(n)
        walls.append(time.perf_counter() - began)
    spent = (time.process_time() - cpu) / N * 1e6
    pipeline.close()
    return median(walls) * 1e6, spent


async def bare() -> float:
    """Microseconds for ten functions that do nothing, awaited one after the other."""

    async def process(ctx: None) -> None: ...

    began = time.perf_counter()
    for _ in range(N):
        for _ in range(SLOTS):
            await process(None)
    return (time.perf_counter() - began) / N * 1e6


async def hops() -> float:
    """Microseconds for two threads that do nothing, awaited one after the other: the least a blocking turn can cost."""
    walls = []
    for _ in range(N):
        began = time.perf_counter()
        for _ in range(2):
            await asyncio.to_thread(int)
        walls.append(time.perf_counter() - began)
    return median(walls) * 1e6


def rows() -> Iterator[str]:
    yield f"{N} turns through {SLOTS} slots that do nothing; microseconds a turn"
    yield f"bare: ten awaits             {asyncio.run(bare()):>9,.1f} us"
    yield f"bare: two asyncio.to_thread  {asyncio.run(hops()):>9,.1f} us"
    for kind in ("async def", "def"):
        for lane in ("serial", "parallel"):
            with tempfile.TemporaryDirectory() as name:
                root = Path(name)
                surface(root, kind, lane)
                with Store.open(root / "slate.db") as store:
                    took, cpu = asyncio.run(turns(root, store))
            yield f"{kind:<9} {lane:<8}           {took:>9,.1f} us  {cpu:>9,.1f} us of CPU   (mark: 1,000 us)"

"""Dispatch: scripted actions through the whole corridor, persisted, beside a bare asyncio loop in the same run.

One action = one answer of the scripted model, captured as a fact, an episode without a model call, thread, call and
attempt stored. The bare loop runs the same number of tasks under a semaphore: once appending to a list, once with one
SQLite commit each.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import slate_lab as sl
from slate_lab.records import Action, Episode, Fact, Request
from slate_lab.store import Store
from slate_lab.weave.loss import check

N = 2_000


async def bare(permits: int, keep: Callable[[int], Awaitable[None]]) -> None:
    """`N` tasks under a semaphore."""
    gate = asyncio.Semaphore(permits)

    async def one(i: int) -> None:
        async with gate:
            await asyncio.sleep(0)
            await keep(i)

    await asyncio.gather(*(one(i) for i in range(N)))


def measure(work: Callable[..., None], *arguments: object) -> tuple[float, float]:
    """Actions a second, and CPU microseconds per action."""
    wall, cpu = time.perf_counter(), time.process_time()
    work(*arguments)
    return N / (time.perf_counter() - wall), (time.process_time() - cpu) / N * 1e6


def bare_list(permits: int) -> None:
    kept: list[int] = []

    async def keep(i: int) -> None:
        kept.append(i)

    asyncio.run(bare(permits, keep))


def bare_sqlite(permits: int, folder: Path) -> None:
    base = sqlite3.connect(folder / "bare.db", isolation_level=None)
    base.execute("PRAGMA journal_mode=WAL")
    base.execute("PRAGMA synchronous=NORMAL")
    base.execute("CREATE TABLE IF NOT EXISTS record (id INTEGER PRIMARY KEY, body TEXT)")

    async def keep(i: int) -> None:
        base.execute("INSERT INTO record (body) VALUES (?)", ("x" * 1_700,))

    asyncio.run(bare(permits, keep))
    base.close()


def lab_open(folder: Path, permits: int) -> sl.Lab:
    """A lab on disk whose only model answers at once."""
    config = {"maxConcurrent": permits, "compressor": {"mode": "fixed"}}
    return sl.Lab.open(folder, config=config, models=sl.ScriptedModel(lambda request: "The answer is 42."))


def corridor(lab: sl.Lab) -> None:
    for handle in [lab.dispatch(f"Task {i}.", type="query") for i in range(N)]:
        handle.result()


def rows() -> Iterator[str]:
    yield f"{N} actions; threads a second, CPU per thread, CPU beside the loop with one commit, memory kept"
    for permits in (8, 64, 1_000):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            plain = measure(bare_list, permits)
            commit = measure(bare_sqlite, permits, folder)
            with lab_open(folder, permits) as lab:
                lab.thread("Warm up.", type="query")
                before = resident_mb()
                whole = measure(corridor, lab)
                kept = (resident_mb() - before) / N * 1_000
        yield f"{permits:>5} permits  bare loop, a list     {plain[0]:>9,.0f}/s  {plain[1]:>7.1f} us"
        yield f"{permits:>5} permits  bare loop, one commit {commit[0]:>9,.0f}/s  {commit[1]:>7.1f} us   1.0x"
        yield (
            f"{permits:>5} permits  slate_lab, everything {whole[0]:>9,.0f}/s  {whole[1]:>7.1f} us "
            f"{whole[1] / commit[1]:>5.1f}x  {kept:>5.1f} MB per 1,000 threads   (mark: 2,000/s)"
        )
    yield from flat()
    yield from memory()
    yield from parts()


def resident_mb() -> float:
    """Megabytes this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def flat() -> Iterator[str]:
    """Memory after each thousand of 5,000 settled threads, their handles let go."""
    model = sl.ScriptedModel(lambda request: "The answer is 42.")
    config = {"maxConcurrent": 64, "compressor": {"mode": "fixed"}}
    with tempfile.TemporaryDirectory() as name, sl.Lab.open(name, config=config, models=model) as lab:
        at = []
        for _ in range(5):
            for handle in [lab.dispatch(f"Task {i}.", type="query") for i in range(1_000)]:
                handle.result()
            model.requests.clear()  # the double remembers what it was asked
            gc.collect()
            at.append(resident_mb())
    steps = " ".join(f"{mb:.0f}" for mb in at)
    grown = f"{(at[-1] - at[0]) / 4:+.2f} MB per 1,000"
    yield f"MB after 1,000 to 5,000 threads  {steps}   {grown}   (mark: flat once SQLite's cache holds its 16 MB)"


def memory() -> Iterator[str]:
    """Memory of waiting actions."""
    free = threading.Event()

    async def answer(request: Request) -> str:
        while not free.is_set():
            await asyncio.sleep(0.01)
        return "The answer is 42."

    config = {"maxConcurrent": 1, "compressor": {"mode": "fixed"}}
    with (
        tempfile.TemporaryDirectory() as name,
        sl.Lab.open(name, config=config, models=sl.ScriptedModel(answer)) as lab,
    ):
        lab.dispatch("Hold the permit.", type="query")
        lab.dispatch("Warm up.", type="query")
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        handles = [lab.dispatch(f"Wait {i}.", type="query") for i in range(1_000)]
        used = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        free.set()
        for handle in handles:
            handle.result()
    yield f"1,000 waiting actions hold {used / 1e6:.1f} MB   (mark: 5 MB)"


def parts() -> Iterator[str]:
    """What the end of an action costs: its settlement in the store, and the check of its episode."""
    with tempfile.TemporaryDirectory() as name, Store.open(Path(name) / "s.db") as store:
        with store.batch():
            made = [
                store.threads.queue(Action(task="x"), logical="l", provider="p", model="m").id for _ in range(1_000)
            ]
        before = time.process_time()
        for id in made:
            store.threads.settle(id, state="successful", episode=Episode(id=f"{id}.e1", thread=id, intent="x" * 500))
        settle = (time.process_time() - before) / len(made) * 1e6
    yield f"settle with its episode          {settle:7.1f} us"
    line = "2026-01-02T10:11:12 worker-{0} took 13.{0} ms for /srv/app/part_{0}/file.py at commit 9f8e7d{0}\n"
    for what, text in (
        ("all different", "".join(line.format(i) for i in range(1_100))),
        ("repeating", "".join(line.format(i % 50) for i in range(1_100))),
        ("prose", "the quick brown fox jumps over the lazy dog and runs away\n" * 1_750),
    ):
        facts = [Fact(n=n, kind="tool", text=text[at : at + 8_000]) for n, at in enumerate(range(0, len(text), 8_000))]
        before = time.process_time()
        for _ in range(5):
            check("## Intent\nlook\n\n## Key Findings\n- part_3 took 13.3 ms", facts, "look")
        took = (time.process_time() - before) / 5 * 1e3 / len(text) * 1e5
        yield f"loss check of 100 KB, {what:<13} {took:5.1f} ms   (mark: 5 ms)"

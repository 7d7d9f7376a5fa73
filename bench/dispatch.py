"""Dispatch: scripted actions through the whole corridor, persisted, beside a bare asyncio loop in the same run.

One action = one answer of the scripted model, captured as a fact, an episode without a model call, thread, call and
attempt stored. The bare loop runs the same number of tasks under a semaphore: once appending to a list, once with one
SQLite commit each.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import slate_lab as sl

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
    yield f"{N} actions; threads a second, CPU per thread, and CPU beside the loop with one commit"
    for permits in (8, 64):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            plain = measure(bare_list, permits)
            commit = measure(bare_sqlite, permits, folder)
            with lab_open(folder, permits) as lab:
                lab.thread("Warm up.", type="query")
                whole = measure(corridor, lab)
        yield f"{permits:>3} permits  bare loop, a list     {plain[0]:>9,.0f}/s  {plain[1]:>7.1f} us"
        yield f"{permits:>3} permits  bare loop, one commit {commit[0]:>9,.0f}/s  {commit[1]:>7.1f} us   1.0x"
        yield (
            f"{permits:>3} permits  slate_lab, everything {whole[0]:>9,.0f}/s  {whole[1]:>7.1f} us "
            f"{whole[1] / commit[1]:>5.1f}x   (mark: 2,000/s)"
        )
    yield from memory()


def memory() -> Iterator[str]:
    """Memory of waiting actions."""
    with tempfile.TemporaryDirectory() as name, lab_open(Path(name), 1) as lab:
        lab.thread("Warm up.", type="query")
        blocker = lab.dispatch("Hold the permit.", type="query")
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        handles = [lab.dispatch(f"Wait {i}.", type="query", after=[blocker.id]) for i in range(1_000)]
        used = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        for handle in handles:
            handle.result()
    yield f"1,000 dispatched actions hold about {used / 1e6:.1f} MB   (mark: 5 MB)"

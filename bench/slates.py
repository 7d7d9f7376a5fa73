"""Slates: appends of about 46 tokens into a 10,000-token folder, counted and persisted, one commit each.

Run: python -m bench.slates [--appends 100000]
Beside them in the same run: plain SQLite writing the same rows by hand, the least that could be kept by hand, and
cachetools and diskcache where they are installed (`pip install slate-lab[bench]`). Then the same folder with room for
1,000 to 100,000 blocks: the cost of an append must not grow with what the folder holds.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from slate_lab import tokens
from slate_lab.config import LabConfig
from slate_lab.slates import Slates
from slate_lab.store import Store
from slate_lab.store.block_tables import BLOCKS

LIMIT = 10_000
_LEDGER = "INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
POLICIES = ("FIFO", "LRU")
_WORDS = [
    "queue",
    "depth",
    "error",
    "deploy",
    "gateway",
    "worker",
    "restart",
    "latency",
    "memory",
    "disk",
    "version",
    "rollback",
    "timeout",
    "region",
]


def texts(count: int, seed: int = 7) -> list[str]:
    """Facts of about 46 tokens, no two the same."""
    draw = random.Random(seed)
    return [
        f"fact {n}: at {draw.randrange(24):02}:{draw.randrange(60):02} the "
        + " ".join(draw.choice(_WORDS) for _ in range(32))
        + f" rose to {draw.randrange(10**5)}"
        for n in range(count)
    ]


@contextmanager
def slates(policy: str, limit: int) -> Iterator[Slates]:
    """A store on disk with one folder."""
    spec = {"title": "M", "folders": [{"name": "f", "tokenLimit": limit, "evictionPolicy": policy}]}
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "slate.db") as store:
        declared = LabConfig.model_validate({"slates": [spec]}).slates
        yield Slates(declared, store.blocks, clock=time.time_ns)


def ours(policy: str, facts: list[str], limit: int = LIMIT) -> float:
    """Appends a second through the one choke point, ledger included."""
    with slates(policy, limit) as memory:
        return rate(lambda text: memory.write("M/f/log.md", text), facts)


def plain(policy: str, facts: list[str], limit: int = LIMIT) -> float:
    """The same rows by hand: an ordered dict decides, SQLite (WAL, NORMAL) keeps blocks, counters and what happened.

    Tables, columns and indexes are ours, for what is kept is the same; nothing is read, shared or checked.
    """
    with tempfile.TemporaryDirectory() as folder:
        db = sqlite3.connect(Path(folder) / "plain.db", isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        for statement in BLOCKS:
            db.execute(statement)
        db.execute("INSERT INTO folder VALUES (1, 'M', 'f', ?, ?, 'readWrite', 1, 0, 0)", (limit, policy))
        db.execute("INSERT INTO file VALUES (1, 1, 'log.md', 'text')")
        held: OrderedDict[int, int] = OrderedDict()
        total = 0

        def append(text: str) -> None:
            nonlocal total
            size, now = tokens.count(text), time.time_ns()
            db.execute("BEGIN IMMEDIATE")
            row = (None, now, "write", 1, 1, None, size, policy, "api", None, "append", None, text)
            n = db.execute(_LEDGER, row).lastrowid or 0
            db.execute("INSERT INTO block VALUES (?, ?, ?, ?, ?, ?, ?)", (1, n, n, 1, n, size, "o200k_base"))
            held[n] = size
            total += size
            while total > limit:
                gone, size = held.popitem(last=False)
                total -= size
                row = (None, now, "evict", 1, 1, gone, size, policy, "api", n, None, None, None)
                db.execute(_LEDGER, row)
                db.execute("DELETE FROM block WHERE file = 1 AND pos = ?", (gone,))
            db.execute("UPDATE folder SET total = ?, blocks = ? WHERE n = 1", (total, len(held)))
            db.execute("COMMIT")

        found = rate(append, facts)
        db.close()
        return found


def bare(policy: str, facts: list[str], limit: int = LIMIT) -> float:
    """The least that could be kept by hand: a table of texts, four columns of what happened, no counters."""
    with tempfile.TemporaryDirectory() as folder:
        db = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("CREATE TABLE block (id INTEGER PRIMARY KEY, tokens INTEGER, touched INTEGER, text TEXT)")
        db.execute("CREATE TABLE ledger (seq INTEGER PRIMARY KEY, at_ns INTEGER, kind TEXT, block INTEGER)")
        if policy == "LRU":
            db.execute("CREATE INDEX turn ON block (touched)")
        held: OrderedDict[int, int] = OrderedDict()
        total = 0

        def append(text: str) -> None:
            nonlocal total
            size = tokens.count(text)
            db.execute("BEGIN IMMEDIATE")
            n = db.execute("INSERT INTO ledger (at_ns, kind) VALUES (?, 'write')", (time.time_ns(),)).lastrowid or 0
            db.execute("INSERT INTO block VALUES (?, ?, ?, ?)", (n, size, n, text))
            held[n] = size
            total += size
            while total > limit:
                gone, size = held.popitem(last=False)
                total -= size
                now = time.time_ns()
                db.execute("INSERT INTO ledger (at_ns, kind, block) VALUES (?, 'evict', ?)", (now, gone))
                db.execute("DELETE FROM block WHERE id = ?", (gone,))
            db.execute("COMMIT")

        found = rate(append, facts)
        db.close()
        return found


def cachetools_(policy: str, facts: list[str]) -> float:
    """cachetools with token sizes: in memory only."""
    import cachetools

    kind = cachetools.LRUCache if policy == "LRU" else cachetools.FIFOCache
    cache = kind(LIMIT, getsizeof=tokens.count)
    n = iter(range(10**9))
    return rate(lambda text: cache.__setitem__(next(n), text), facts)


def diskcache_(policy: str, facts: list[str]) -> float:
    """diskcache with a limit in bytes (it knows no tokens), one commit each."""
    import diskcache

    name = "least-recently-used" if policy == "LRU" else "least-recently-stored"
    with tempfile.TemporaryDirectory() as folder:
        cache = diskcache.Cache(folder, size_limit=LIMIT * 5, eviction_policy=name, cull_limit=10)
        n = iter(range(10**9))
        found = rate(lambda text: cache.set(next(n), text), facts)
        cache.close()
        return found


def rate(append: Callable[[str], object], facts: list[str]) -> float:
    """Appends a second, by processor time of this process."""
    before = time.process_time()
    for text in facts:
        append(text)
    return len(facts) / (time.process_time() - before)


def rows(appends: int = 20_000, *, growth: bool = False) -> list[str]:
    """The table, a line each."""
    tokens.warm()
    facts, found = texts(appends), []
    mean = sum(map(tokens.count, facts[:1000])) / min(appends, 1000)
    found.append(f"{appends:,} appends of {mean:.0f} tokens into {LIMIT:,}; a second of one core")
    for policy in POLICIES:
        floor, least, mine = plain(policy, facts), bare(policy, facts), ours(policy, facts)
        found.append(f"{policy:5} slates {mine:8,.0f}   plain SQLite, same rows {floor:8,.0f}   {floor / mine:.2f}x")
        found.append(f"{policy:5} plain SQLite, four columns of a ledger {least:8,.0f}   {least / mine:.2f}x")
        for name, peer in (("cachetools, in memory", cachetools_), ("diskcache, bytes", diskcache_)):
            try:
                found.append(f"{policy:5} {name:22} {peer(policy, facts):8,.0f}")
            except ModuleNotFoundError:
                found.append(f"{policy:5} {name:22} not installed: pip install slate-lab[bench]")
    if growth:
        found += [grown(policy, blocks) for policy in POLICIES for blocks in (1_000, 10_000, 100_000)]
    return found


def grown(policy: str, blocks: int, sample: int = 5_000) -> str:
    """The rate of appends into a folder that is full of so many blocks."""
    facts = texts(blocks + sample)
    with slates(policy, sum(map(tokens.count, facts[:blocks]))) as memory:
        for text in facts[:blocks]:
            memory.write("M/f/log.md", text)
        found = rate(lambda text: memory.write("M/f/log.md", text), facts[blocks:])
        held = memory.rows()[0].blocks
    return f"{policy:5} a folder of {held:7,} blocks: {found:8,.0f}"


def main() -> None:
    """Print the table, also how an append grows with the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--appends", type=int, default=100_000)
    print("\n".join(rows(parser.parse_args().appends, growth=True)))


if __name__ == "__main__":
    main()

"""What a kernel was told, from its lines, and whether its store still holds all of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from slate_lab.records import Thread
from slate_lab.store import Store

TABLE: dict[str, Counter[str]] = {}
"""Counts by drill, printed when the session ends."""
COLUMNS = ("rounds", "killed", "threads", "facts", "episodes", "calls", "refused", "missing", "left")


class Told:
    """The acknowledgements of all kernels that worked on one store."""

    def __init__(self) -> None:
        self.threads: dict[str, str] = {}
        self.facts: dict[str, int] = {}
        self.settled: dict[str, tuple[str, int]] = {}
        self.refused: Counter[str] = Counter()

    def hear(self, line: str) -> str:
        """Take in one line; returns its first word. A line cut by a kill says nothing."""
        if not line.endswith("\n"):
            return ""
        word, *rest = line.split()
        if word == "queued":
            self.threads[rest[1]] = rest[0]
        elif word == "fact":
            self.facts[rest[0]] = max(int(rest[1]), self.facts.get(rest[0], 0))
        elif word == "settled":
            self.settled[rest[0]] = (rest[1], int(rest[2]))
        elif word == "refused":
            self.refused[rest[0]] += 1
        return word

    def missing(self, store: Store) -> list[str]:
        """What was told and is not there, a sentence each."""
        threads = {thread.id: thread for thread in store.threads.list()}
        by_name = {thread.action.task.split()[-1]: thread for thread in threads.values()}
        lost = [f"thread {id}" for id in self.threads.values() if id not in threads]
        for name, told in self.facts.items():
            lost += self._missing_work(store, by_name.get(name), name, told)
        for id, (digest, calls) in self.settled.items():
            episode = store.episodes.get(f"{id}.e1")
            kept = store.calls.list(id)
            if episode is None or episode.hash != digest:
                lost.append(f"episode of {id}")
            if len(kept) < calls or (episode and sum(c.cost.nusd or 0 for c in kept) != episode.cost_nusd):
                lost.append(f"calls of {id}: {len(kept)} of {calls}")
        rows = store.query("SELECT coalesce(sum(cost_nusd), 0) FROM calls")[1][0][0]
        if rows != store.calls.spent_nusd():
            lost.append(f"spend: {rows} in rows, {store.calls.spent_nusd()} in sums")
        return lost

    def _missing_work(self, store: Store, thread: Thread | None, name: str, told: int) -> list[str]:
        if thread is None:
            return [f"the thread of {name}"]
        facts, calls = len(store.facts.list(thread.id)), len(store.calls.list(thread.id))
        lost = [f"facts of {name}: {facts} of {told}"] if facts < told else []
        return lost + ([f"calls of {name}: {calls} of {told}"] if calls < told else [])

    def count(self, drill: str, **more: int) -> None:
        """Put what was told into the table."""
        row = TABLE.setdefault(drill, Counter())
        row.update(threads=len(self.threads), facts=sum(self.facts.values()), episodes=len(self.settled))
        row.update(calls=sum(calls for _, calls in self.settled.values()), refused=sum(self.refused.values()))
        row.update(**more)


def start(project: Path, name: str, count: int, permits: int = 8, compressor: str = "fixed") -> subprocess.Popen[str]:
    """A kernel of its own, leading its own session."""
    command = [sys.executable, "-m", "tests.drill.child", str(project), name, str(count), str(permits), compressor]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=Path(__file__).parents[2],
    )


def left_of(session: int) -> list[str]:
    """The processes of a session that still live, by their command."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except (OSError, IndexError):
            continue
    return found


def alive(marker: str) -> list[str]:
    """The commands of living processes that carry `marker`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if marker in command and int(folder.name) != os.getpid():
            found.append(command)
    return found


def unfinished(store: Store) -> list[Any]:
    """Threads that a dead kernel left open."""
    return store.threads.list(states=("queued", "running"))

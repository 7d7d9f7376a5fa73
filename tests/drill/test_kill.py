"""SIGKILL at random points: whatever a kernel was told is there when the store is opened again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

import slate_lab as sl
from slate_lab.store import Store

from .told import Told, left_of, start, unfinished

pytestmark = pytest.mark.drill

ACTIONS, ROUNDS = 200, 20
LINES = ACTIONS * 4  # queued, two facts, settled


def kill_after(process: subprocess.Popen[str], told: Told, lines: int, seconds: float) -> None:
    """Listen for `lines` lines (or wait `seconds` where `lines` is 0), kill, and hear what is still in the pipe."""
    assert process.stdout is not None
    if lines == 0:
        time.sleep(seconds)
    for _ in range(lines):
        if told.hear(process.stdout.readline()) in ("", "end"):
            break
    os.kill(process.pid, signal.SIGKILL)
    for line in process.stdout:
        told.hear(line)
    process.communicate()


@pytest.mark.parametrize("compressor", ["fixed", "model"])
def test_a_kill_at_any_point_loses_nothing_that_was_acknowledged(project: Path, compressor: str) -> None:
    """20 rounds of 200 dispatches on one store, killed at a random line; nothing told is missing, nothing lives on."""
    seed = random.SystemRandom().randrange(10**6)
    chance, told, missing, left, slowest = random.Random(seed), Told(), [], 0, 0.0
    for number in range(ROUNDS):
        at = chance.randrange(1, LINES)
        process = start(project, f"r{number}", ACTIONS, permits=chance.choice([1, 8, 64]), compressor=compressor)
        kill_after(process, told, at, 0.0)
        left += len(left_of(process.pid))
        begun = time.monotonic()
        with sl.Lab.open(project, models=sl.ScriptedModel(["again"]), config={"compressor": {"mode": "fixed"}}) as lab:
            slowest = max(slowest, time.monotonic() - begun)
            missing += [f"round {number}, line {at}: {text}" for text in told.missing(lab.store)]
            missing += [f"round {number}: {text}" for text in lab.store.verify()]
            assert unfinished(lab.store) == []
            assert lab.thread("Go on.", type="query").status == "ok"
    told.count(f"SIGKILL, {compressor} episodes", rounds=ROUNDS, killed=ROUNDS, missing=len(missing), left=left)
    print(f"\nSIGKILL at a random line, seed {seed}: slowest open afterwards {slowest:.2f} s")
    assert missing == []
    assert left == 0


def test_a_kill_while_a_store_opens_or_migrates_loses_nothing(project: Path) -> None:
    """Killed at a random moment of its first seconds, 20 times, over what earlier kernels left behind."""
    chance, told, missing = random.Random(7), Told(), []
    for number in range(ROUNDS):
        process = start(project, f"o{number}", 50)
        kill_after(process, told, 0, chance.uniform(0.2, 4.0))
        with Store.open(project / ".slate" / "slate.db") as store:
            missing += told.missing(store) + store.verify()
            assert unfinished(store) == []
    told.count("SIGKILL in the first seconds", rounds=ROUNDS, killed=ROUNDS, missing=len(missing))
    assert missing == []

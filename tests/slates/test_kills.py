"""A kernel that dies amid writes: counters, blocks and ledger agree when the store opens again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .making import opened, words

WRITE = """
import itertools, os, sys
from tests.slates.making import opened, sized
folders = {name: {"tokenLimit": 60, "evictionPolicy": name} for name in ("FIFO", "LRU", "reject")}
store, slates = opened(sys.argv[1], **folders)
start = int(sys.argv[2])
for n in itertools.count(start):
    name = ("FIFO", "LRU", "reject")[n % 3]
    mode = "append" if n % 7 else "replace"
    done = slates.write(f"M/{name}/f{n % 4}", sized(f"b{n}", 1 + n % 9), mode=mode)
    slates.read(f"M/LRU/f{n % 4}", max_tokens=5, fallback="")
    os.write(1, f"{n} {int(done.ok)}\\n".encode())
"""


@pytest.mark.drill
def test_a_killed_kernel_leaves_memory_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After each of 50 kills every acknowledged write is a block or has left, and all counters are right."""
    draw, told, path = random.Random(5), set[int](), tmp_path / "s.db"
    folders = {name: {"tokenLimit": 60, "evictionPolicy": name} for name in ("FIFO", "LRU", "reject")}
    for kill in range(50):
        start = kill * 1_000_000
        process = subprocess.Popen(
            [sys.executable, "-c", WRITE, str(path), str(start)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(draw.uniform(0.01, 0.3))
        os.kill(process.pid, signal.SIGKILL)
        rest, _ = process.communicate(timeout=60)
        acknowledged = [line.split() for line in rest.splitlines() if line.endswith((" 0", " 1"))]
        told.update(f"b{n}" for n, ok in acknowledged if ok == "1")
        store, slates = opened(path, **folders)
        with store:
            assert store.verify() == []
            for row in slates.rows():
                sizes = [words(block.text) for block in slates.blocks(f"M/{row.folder}")]
                assert (sum(sizes), len(sizes)) == (row.total, row.blocks)
                assert row.total <= 60
    store, slates = opened(path, **folders)
    with store:
        live = {block.text.split()[0] for name in folders for block in slates.blocks(f"M/{name}")}
        gone = {(lost.text or "").split()[0] for lost in slates.evicted()}
    assert told <= live | gone
    assert not live & gone
    with capsys.disabled():
        print(f"\n  50 kills, {len(told):,} acknowledged writes, {len(live)} live, {len(gone):,} left: none lost")

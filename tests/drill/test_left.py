"""Nothing is left: workers that ignore their cancellation, tools that fork and sleep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import slate_lab as sl

from .told import Told, alive, left_of

pytestmark = pytest.mark.drill

DEAF = """
import asyncio, os, sys
import slate_lab as sl

async def answer(request):
    if len(request.messages) == 2:
        return {"tool": "read", "args": {"path": "notes/a.md"}}
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

lab = sl.Lab.open(sys.argv[1], models=sl.ScriptedModel(answer), config={"maxConcurrent": 8})
handles = [lab.dispatch(f"deaf-{i}", type="researcher") for i in range(8)]
while not all(lab.facts(h.id) for h in handles):
    pass
for h in handles:
    h.cancel(compress=False)
for h in handles:
    e = h.result(30)
    os.write(1, f"settled {h.id} {e.hash} {len(lab.calls(h.id))}\\n".encode())
lab.close()
os.write(1, b"end\\n")
"""


def test_a_worker_that_ignores_its_cancellation_holds_nobody_up(project: Path) -> None:
    """Eight of them: each settles with what it found, the lab closes, the process ends."""
    told = Told()
    process = subprocess.Popen(
        [sys.executable, "-c", DEAF, str(project)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    out, _ = process.communicate(timeout=120)
    words = [told.hear(line) for line in out.splitlines(keepends=True)]
    left = left_of(process.pid)
    with sl.Lab.open(project, models=sl.ScriptedModel(["x"])) as lab:
        missing = told.missing(lab.store) + lab.store.verify()
    told.count("cancellation ignored", rounds=1, missing=len(missing), left=len(left))
    assert (words.count("settled"), words[-1], process.returncode) == (8, "end", 0)
    assert missing == []
    assert left == []


FORKS = """
import os, sys, time
import slate_lab as sl
mark, how = sys.argv[2:]

def answer(request):
    name = request.messages[-1].text
    seen = [m for m in request.messages if m.role == "tool"]
    if not seen:
        script = f"(sleep 3{mark} &) ; nohup setsid sleep 3{mark} >/dev/null 2>&1 & trap '' TERM HUP INT; "
        return {"tool": "bash", "args": {"command": script + ("echo started" if how == "ends" else f"sleep 3{mark}")}}
    return "done"

lab = sl.Lab.open(sys.argv[1], models=sl.ScriptedModel(answer), config={"compressor": {"mode": "fixed"}})
handles = [lab.dispatch(f"forks-{i}", type="implementer") for i in range(4)]
os.write(1, b"going\\n")
if how == "cancelled":
    time.sleep(3)
    lab.cancel()
if how == "killed":
    time.sleep(600)
for h in handles:
    try:
        e = h.result(60)
        os.write(1, f"settled {h.id} {e.hash} {len(lab.calls(h.id))}\\n".encode())
    except sl.DispatchError as error:
        os.write(1, f"refused {error.code}\\n".encode())
lab.close()
"""


@pytest.mark.parametrize("how", ["ends", "cancelled", "killed"])
def test_a_tool_that_forks_and_sleeps_leaves_no_process(project: Path, how: str) -> None:
    """Sleepers in the background, in their own session, deaf to signals, go with the tool, a cancel, the kernel."""
    told, mark = Told(), f"{os.getpid() % 10_000:04d}{('ends', 'cancelled', 'killed').index(how)}"
    process = subprocess.Popen(
        [sys.executable, "-c", FORKS, str(project), mark, how], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    started = 0
    until = time.monotonic() + 20
    while how != "ends" and not started and time.monotonic() < until:
        started = len(alive(f"sleep 3{mark}"))
    if how == "killed":
        time.sleep(1)
        os.kill(process.pid, signal.SIGKILL)
    out, _ = process.communicate(timeout=120)
    for line in out.splitlines(keepends=True):
        told.hear(line)
    until = time.monotonic() + 10
    while (left := alive(f"sleep 3{mark}")) and time.monotonic() < until:
        time.sleep(0.1)
    with sl.Lab.open(project, models=sl.ScriptedModel(["x"])) as lab:
        missing = told.missing(lab.store) + lab.store.verify()
    told.count(
        f"tool forks and sleeps, {how}", rounds=1, killed=int(how == "killed"), missing=len(missing), left=len(left)
    )
    assert missing == []
    assert left == []
    assert started or how == "ends"

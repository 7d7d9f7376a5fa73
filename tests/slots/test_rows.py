"""Blocking slots in a row share one thread, and nothing else: order, staging, policies, cancelling, timeouts."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from slate_lab.errors import LabError, SlotFailed
from tests.slots.making import Bench, Core

Make = Callable[..., Bench]
THREAD = "import threading\n{} process(ctx):\n    ctx.notice(threading.current_thread().name)\n"


async def warm(core: Core, bench: Make, **options: Any) -> Bench:
    """A bench whose slots are loaded, so that the next turn runs them in rows; what was shown is forgotten."""
    here = bench(**options)
    await here.run("input", turn=1)
    here.live.clear()
    return here


async def test_blocking_slots_in_a_row_share_a_thread(core: Core, bench: Make) -> None:
    """An async slot between them ends the row; order stays."""
    for id, kind in {"a": "def", "b": "def", "c": "async def", "d": "def"}.items():
        core.slot(f"input/{id}", THREAD.format(kind))
    core.pipelines(input=["a", "b", "c", "d"])
    here = await warm(core, bench)
    await here.run("input", turn=2)
    names = [d.text for d in here.live]
    assert [d.slot for d in here.live] == ["a", "b", "c", "d"]
    assert names[0] == names[1]
    assert names[2] == threading.current_thread().name
    assert [e.slot for e in here.events("completed")][4:] == ["a", "b", "c", "d"]


async def test_each_sees_what_those_before_it_contributed(core: Core, bench: Make) -> None:
    """History, state and context of the earlier ones stand when the next one begins."""
    core.slot("input/a", "def process(ctx):\n    ctx.input.add('user', 'hi')\n    ctx.state.session.set('n', 1)\n",
              capabilities=["state.*"])  # fmt: skip
    core.slot(
        "input/b",
        "def process(ctx):\n    said = [e.text for e in ctx.history.recent()]\n"
        "    ctx.notice(f\"{said} {ctx.state.session.get('n')}\")\n",
        capabilities=["state.*"],
    )
    core.pipelines(input=["a", "b"])
    here = await warm(core, bench)
    await here.run("input", turn=2)
    assert [d.text for d in here.live] == ["['hi'] 1"]


async def test_a_soft_failure_drops_only_its_own(core: Core, bench: Make) -> None:
    """Those before and behind it in the row contribute."""
    for id, code in {"a": "", "b": "; 1 / 0", "c": ""}.items():
        core.slot(f"input/{id}", f"def process(ctx):\n    ctx.input.add('{id}', 'x'){code}\n")
    core.pipelines(input=["a", "b", "c"])
    draft = await (await warm(core, bench)).run("input", turn=2)
    assert [p.section for p in draft.parts] == ["a", "c"]


async def test_a_hard_failure_ends_the_row(core: Core, bench: Make) -> None:
    """Those behind it never begin."""
    core.slot("input/a", "def process(ctx):\n    if ctx.turn == 2: 1 / 0\n", failure_policy="hard")
    core.slot("input/b")
    core.pipelines(input=["a", "b"])
    here = await warm(core, bench)
    with pytest.raises(SlotFailed, match=r"the slot a \(input.serial\) failed and is hard: ZeroDivisionError"):
        await here.run("input", turn=2)
    assert [(e.slot, e.what) for e in here.events() if e.turn == 2] == [("a", "started"), ("a", "failed")]


async def test_cancelled_in_a_row(core: Core, bench: Make) -> None:
    """The one that runs ends as cancelled and can do nothing more; those behind it never begin."""
    core.write("lib/held.py", "import threading\nbegan, go, late = threading.Event(), threading.Event(), []\n")
    core.slot("input/a")
    core.slot(
        "input/b",
        "from lib import held\ndef process(ctx):\n    if ctx.turn == 1: return\n    ctx.send_text('early')\n"
        "    held.began.set(); held.go.wait(5)\n"
        "    try: ctx.send_text('late')\n    except Exception as e: held.late.append(e.code)\n",
    )
    core.slot("input/c")
    core.pipelines(input=["a", "b", "c"])
    here = await warm(core, bench)
    draft = here.draft(turn=2)
    task = asyncio.create_task(here.run("input", draft))
    held = next(
        m for name, m in list(sys.modules.items()) if name.endswith(".held") and here.pipeline.modules.prefix in name
    )
    await asyncio.to_thread(held.began.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    held.go.set()
    while not held.late:
        await asyncio.sleep(0.005)
    assert held.late == ["slot_over"]
    ends = [(e.slot, e.what) for e in here.events() if e.turn == 2 and e.what != "started"]
    assert (ends, draft.deliveries) == ([("a", "completed"), ("b", "cancelled")], [])


async def test_a_slot_with_an_enforced_timeout_stands_alone(core: Core, bench: Make) -> None:
    """It ends by its own time; its neighbours have as long as they want."""
    for id in ("a", "b", "c"):
        timed = {"timeout_seconds": 0.02} if id == "b" else {}
        core.slot(f"input/{id}", "import time\ndef process(ctx):\n    time.sleep(0.04)\n", **timed)
    core.pipelines(input=["a", "b", "c"])
    here = await warm(core, bench, enforce=True)
    await here.run("input", turn=2)
    ends = [(e.slot, e.what) for e in here.events() if e.turn == 2 and e.what != "started"]
    assert ends == [("a", "completed"), ("b", "failed"), ("c", "completed")]


async def test_durations_are_each_slots_own(core: Core, bench: Make) -> None:
    """A row is written at once, and still tells when each began and how long it took."""
    for id in ("a", "b"):
        core.slot(f"input/{id}", "import time\ndef process(ctx):\n    time.sleep(0.02)\n")
    core.pipelines(input=["a", "b"])
    here = await warm(core, bench)
    await here.run("input", turn=2)
    one, two, three, four = [e for e in here.events() if e.turn == 2]
    assert [e.what for e in (one, two, three, four)] == ["started", "completed"] * 2
    assert (two.at_ns - one.at_ns, four.at_ns - three.at_ns) == (two.duration_ns, four.duration_ns)
    assert one.at_ns + 20_000_000 <= two.at_ns <= three.at_ns <= four.at_ns - 20_000_000


async def test_context_variables_are_each_slots_own(core: Core, bench: Make) -> None:
    """What one sets is not seen by the next, though they share a thread."""
    core.write("lib/var.py", "from contextvars import ContextVar\nvar = ContextVar('var', default='clean')\n")
    for id in ("a", "b"):
        core.slot(
            f"input/{id}", "from lib.var import var\ndef process(ctx):\n    ctx.notice(var.get()); var.set('x')\n"
        )
    core.pipelines(input=["a", "b"])
    here = await warm(core, bench)
    await here.run("input", turn=2)
    assert [d.text for d in here.live] == ["clean", "clean"]


async def test_a_blocking_slot_that_hands_back_work_is_awaited(core: Core, bench: Make) -> None:
    """`process` may be any callable: what it returns to await is awaited on the lab's loop."""
    code = "async def go(ctx):\n    ctx.notice('went')\ndef process(ctx):\n    return go(ctx)\n"
    core.slot("input/a", code)
    core.slot("input/b", code)
    core.pipelines(input=["a", "b"])
    here = await warm(core, bench)
    await here.run("input", turn=2)
    assert [d.text for d in here.live] == ["went", "went"]
    assert here.events("failed", "ignored_return") == []


async def test_threads_that_hang_leave_their_place(core: Core, bench: Make) -> None:
    """More hanging slots than there are places never stop the next turn, once nobody waits for them."""
    core.write("lib/held.py", "import threading\ngo = threading.Event()\n")
    core.slot("input/a", "from lib import held\ndef process(ctx):\n    held.go.wait(20)\n", timeout_seconds=0.005)
    core.pipelines(input=["a"])
    here = bench(enforce=True)
    for turn in range(40):
        await asyncio.wait_for(here.run("input", turn=turn), 10)
    assert len(here.events("failed")) == 40
    held = next(
        m for name, m in list(sys.modules.items()) if name.endswith(".held") and here.pipeline.modules.prefix in name
    )
    held.go.set()


def test_a_hanging_slot_does_not_keep_the_interpreter(core: Core) -> None:
    """A program whose turn was given up ends, whatever its slots still do."""
    core.slot("input/hang", "import time\ndef process(ctx):\n    time.sleep(600)\n", timeout_seconds=0.05,
              failure_policy="hard")  # fmt: skip
    core.pipelines(input=["hang"])
    (core.root / "slate.yaml").write_text("runtime: {enforce_slot_timeouts: true}\n")
    code = (
        "import slate_lab as sl, sys\nmodels = {'m': sl.ScriptedModel(lambda r: 'x')}\n"
        "with sl.Lab.open(sys.argv[1], trust=True, store=':memory:', models=models) as lab:\n"
        "    try: lab.ask('x', model='m')\n    except Exception as e: print(e.code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(core.root)], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout.strip()) == (0, "slot_failed"), done.stderr


async def test_a_closed_pipeline_runs_nothing(core: Core, bench: Make) -> None:
    """After closing, a turn fails with words instead of waiting forever."""
    core.slot("input/a", failure_policy="hard")
    core.pipelines(input=["a"])
    here = await warm(core, bench)
    here.pipeline.close()
    with pytest.raises(LabError, match="the lab is closed"):
        await here.run("input", turn=2)

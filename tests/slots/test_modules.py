"""The code of slots: isolated, shared only through lib, loaded once per revision, nothing left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from slate_lab.errors import LabError
from slate_lab.slots.surface import Surface
from slate_lab.slots.watch import Watch
from tests.slots.making import Bench, Core

Make = Callable[..., Bench]
SAY = "from . import helpers\ndef process(ctx):\n    ctx.notice(helpers.NAME)\n"


def said(bench: Bench) -> list[str]:
    """What was told so far."""
    return [d.text for d in bench.live]


async def test_relative_imports_are_isolated_per_slot(core: Core, bench: Make) -> None:
    """Two slots with a helpers.py never see each other's, whatever the name of the import."""
    for name in ("a", "b"):
        core.slot(
            f"input/{name}",
            SAY
            if name == "a"
            else SAY.replace("from . import helpers", "from .helpers import NAME").replace("helpers.NAME", "NAME"),
        )
        core.write(f"input/{name}/helpers.py", f"NAME = 'of {name}'\n")
    core.pipelines(input=["a", "b"])
    here = bench()
    await here.run("input")
    assert said(here) == ["of a", "of b"]
    assert "helpers" not in sys.modules


async def test_a_slot_cannot_reach_another(core: Core, bench: Make) -> None:
    """No relative path leads from one slot into another."""
    core.slot("input/a")
    core.slot("input/b", "from ..a import module\ndef process(ctx): ...\n")
    core.pipelines(input=["a", "b"])
    here = bench()
    await here.run("input")
    assert [e.slot for e in here.events("failed")] == ["b"]


SHARED = {
    "from lib.text import": "from lib.text import NAME",
    "import lib.text": "import lib.text\nNAME = lib.text.NAME",
    "import lib.text as": "import lib.text as t\nNAME = t.NAME",
    "from lib import": "from lib import text\nNAME = text.NAME",
    "from agent.lib.text import": "from agent.lib.text import NAME",
    "import agent.lib.text": "import agent.lib.text\nNAME = agent.lib.text.NAME",
    "inside the function": "def late():\n    from lib.text import NAME\n    return NAME\nNAME = late()",
}


@pytest.mark.parametrize("code", SHARED.values(), ids=SHARED.keys())
async def test_shared_helper_code_lives_under_lib(core: Core, bench: Make, code: str) -> None:
    """`<surface>/lib/` is importable in every usual way, also from a slot's helper and from lib itself."""
    core.write("lib/text.py", "from lib.inner import NAME\n")
    core.write("lib/inner.py", "NAME = 'shared'\n")
    core.slot("input/a", SAY)
    core.write("input/a/helpers.py", code + "\n")
    core.pipelines(input=["a"])
    here = bench()
    await here.run("input")
    assert said(here) == ["shared"]
    assert not {"lib", "lib.text", "agent"} & set(sys.modules)


async def test_lib_is_one_module_for_all_slots(core: Core, bench: Make) -> None:
    """What one slot puts into lib another finds there."""
    core.write("lib/box.py", "items = []\n")
    core.slot("input/a", "from lib.box import items\ndef process(ctx):\n    items.append('x')\n")
    core.slot("input/b", "import lib.box\ndef process(ctx):\n    ctx.notice(str(lib.box.items))\n")
    core.pipelines(input=["a", "b"])
    here = bench()
    await here.run("input")
    assert said(here) == ["['x']"]


async def test_two_surfaces_never_meet(core: Core, bench: Make, tmp_path: Path) -> None:
    """Two labs with the same names of slots and libs have each their own."""
    other = Core(tmp_path / "second")
    for one, name in ((core, "first"), (other, "second")):
        one.write("lib/name.py", f"NAME = '{name}'\n")
        one.slot("input/a", "from lib.name import NAME\ndef process(ctx):\n    ctx.notice(NAME)\n")
        one.pipelines(input=["a"])
    here, there = bench(), Bench(other)
    await here.run("input")
    await there.run("input")
    await here.run("input", turn=2)
    assert (said(here), said(there)) == (["first", "first"], ["second"])
    there.close()


async def test_a_file_of_the_project_may_be_the_entrypoint(core: Core, bench: Make) -> None:
    """A core-root-relative Python file plus function, in lib and elsewhere."""
    (core.root / "tasks.py").write_text("def run(ctx):\n    ctx.notice('tasks')\n")
    core.write("lib/common.py", "def run(ctx):\n    ctx.notice('common')\n")
    core.slot("input/a", entrypoint="tasks.py:run")
    core.slot("input/b", entrypoint="agent/lib/common.py:run")
    core.pipelines(input=["a", "b"])
    here = bench()
    await here.run("input")
    assert said(here) == ["tasks", "common"]


async def test_a_module_is_loaded_once_per_content_revision(core: Core, bench: Make) -> None:
    """Turns load nothing; an edit of a helper, of lib or of the entrypoint's file loads what it concerns, once."""
    (core.root / "tasks.py").write_text("def run(ctx): ...\n")
    core.slot("input/a", SAY)
    core.write("input/a/helpers.py", "NAME = 'one'\n")
    core.slot("input/b", entrypoint="tasks.py:run")
    core.pipelines(input=["a", "b"])
    here = bench()
    for turn in range(5):
        await here.run("input", turn=turn)
    assert here.pipeline.modules.loaded == 2
    core.write("input/a/helpers.py", "NAME = 'two'\n")
    await here.run("input", turn=6)
    assert (said(here)[-2:], here.pipeline.modules.loaded) == (["one", "two"], 3)
    (core.root / "tasks.py").write_text("def run(ctx):\n    ctx.notice('new')\n")
    await here.run("input", turn=7)
    assert (said(here)[-1], here.pipeline.modules.loaded) == ("new", 4)
    core.write("lib/x.py", "")
    await here.run("input", turn=8)
    assert here.pipeline.modules.loaded == 6


async def test_a_touched_file_is_not_loaded_again(core: Core, bench: Make) -> None:
    """What counts is the content, not the time of a file."""
    core.slot("input/a")
    core.pipelines(input=["a"])
    here = bench()
    await here.run("input")
    os.utime(core.folder / "input/a/module.py", (1, 1))
    await here.run("input", turn=2)
    assert here.pipeline.modules.loaded == 1


async def test_edits_are_picked_up_on_the_next_turn(core: Core, bench: Make) -> None:
    """Of the same length and in the same moment, of the manifest and of the pipeline too."""
    core.slot("input/a", "def process(ctx):\n    ctx.notice('1')\n")
    core.slot("input/b", "def process(ctx):\n    ctx.notice('b')\n")
    core.pipelines(input=["a"])
    here = bench()
    for n in range(1, 9):
        core.write("input/a/module.py", f"def process(ctx):\n    ctx.notice('{n}')\n")
        await here.run("input", turn=n)
    assert said(here) == [str(n) for n in range(1, 9)]
    core.pipelines(input=["b"])
    await here.run("input", turn=10)
    assert said(here)[-1] == "b"


async def test_an_edit_that_breaks_the_surface_fails_the_turn(core: Core, bench: Make) -> None:
    """A surface that became wrong is refused with its problems, and mended it runs again."""
    core.base()
    here = bench()
    await here.run("input")
    core.write("input/base_input/slot.yaml", "run: x\n")
    with pytest.raises(LabError, match="the field is entrypoint"):
        await here.run("input", turn=2)
    core.write("input/base_input/slot.yaml", "")
    assert (await here.run("input", turn=3)).user == "What broke?"


async def test_nothing_is_written_beside_the_code(core: Core, bench: Make) -> None:
    """No caches of byte code appear, and none is read: an old one cannot hide an edit."""
    core.slot("input/a", SAY)
    core.write("input/a/helpers.py", "NAME = 'one'\n")
    core.pipelines(input=["a"])
    await bench().run("input")
    assert not list(core.root.rglob("__pycache__"))


def test_a_look_that_is_not_permitted_loads_nothing(core: Core) -> None:
    """Whoever forbids a surface forbids it at every change, and at the first look."""
    core.base()
    asked: list[Surface] = []

    def refuse(surface: Surface) -> None:
        asked.append(surface)
        raise LabError("held back", code="held_back")

    watch = Watch(core.root, "agent", allowed=("*",), permit=refuse)
    for _ in range(2):
        with pytest.raises(LabError, match="held back"):
            watch.look()
    assert len(asked) == 2


async def test_turns_and_edits_leak_no_module_thread_or_file(core: Core, bench: Make) -> None:
    """After 1,000 turns there are as many modules, open files and tasks as after the first; closed, none is left."""
    core.base()
    core.slot("input/side", SAY)
    core.write("input/side/helpers.py", "NAME = 'x'\n")
    core.pipelines(input=["base_input"], input_parallel=["side"], output=["base_output"])
    here, clean = bench(), set(sys.modules)
    await here.run("output", await here.run("input"))

    def counted() -> tuple[int, int, int]:
        gc.collect()
        files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        return len(set(sys.modules) - clean), files, len(asyncio.all_tasks())

    before, ports = counted(), here.ports
    quiet = type(ports)(state=ports.state, history=ports.history, events=lambda events: None, live=lambda d: None)
    for turn in range(1_000):
        if turn % 100 == 0:
            core.write("input/side/helpers.py", f"NAME = '{turn}'\n")
        draft, seen = here.draft(turn=turn, response="ok"), here.watch.look()
        await here.pipeline.run("input", seen, draft, quiet)
        await here.pipeline.run("output", seen, draft, quiet)
    assert counted() == before
    assert threading.active_count() < 40
    here.close()
    assert set(sys.modules) == clean

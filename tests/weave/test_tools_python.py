"""The tool python: a kernel of the worker's own, bounded, walled in, and closed with the conversation."""

from __future__ import annotations

import asyncio
import os

import pytest

from slate_lab.config.tools import CommandSpec
from slate_lab.weave.tools import BUILT_IN, Kit, ToolFailed
from slate_lab.weave.tools.cells import lacking_packages, python_tool
from slate_lab.weave.tools.sandbox import find_sandbox
from slate_lab.weave.tools.workspace import Workspace
from tests.weave.test_tools_bash import FOUND, marked

pytestmark = pytest.mark.skipif(bool(lacking_packages()), reason=lacking_packages())


@pytest.fixture
async def kit(tmp_path):
    """A kit whose code may call the file tools, closed at the end."""
    (tmp_path / "a.md").write_text("hello\n")
    python = python_tool(CommandSpec(seconds=2.0, outputChars=2_000), FOUND)
    kit = Kit(Workspace(tmp_path), tools={**BUILT_IN, "python": python})
    yield kit
    assert await kit.aclose() == ()


async def run(kit, code):
    """The result of a cell."""
    return await kit.tools["python"].call(kit, {"code": code})


async def test_a_thread_has_one_kernel_whose_state_stays(kit, monkeypatch):
    """Variables, errors in plain text, code mode, bounds and interrupts, one after the other in one kernel."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hidden")
    assert await run(kit, "import os, sys; x = 40\nprint('hi'); x + 2") == "hi\n42"
    assert await run(kit, "x += 1; print(x, file=sys.stderr)") == "41"
    assert "hidden" not in await run(kit, "print(dict(os.environ))")
    # an error is a result, without colours
    said = await run(kit, "1 / 0")
    assert "ZeroDivisionError: division by zero" in said
    assert "\x1b" not in said
    # the other tools, by name or by position, confined as ever
    assert await run(kit, "print(tools.read('a.md'), tools.read(path='a.md', limit=1))") == "hello hello"
    assert await run(kit, "tools.read('../secret')") == (
        "ToolError: error: '../secret' leads outside the workspace: give a path below it, without '..' or links out"
    )
    assert "wrong arguments for read" in await run(kit, "tools.read(nope=1)")
    assert "no attribute" in (said := await run(kit, "tools.python('1')")) or "there is no tool" in said
    await run(kit, "tools.write('b.md', 'new')")
    assert [a["path"] for a in kit.artifacts] == ["b.md"]
    # bounds
    said = await run(kit, "print('é' * 300_000)")
    assert "\ufffd" not in said
    assert len(said) < 2_300
    said = await run(kit, "import time\ntime.sleep(60)")
    assert "interrupted after 2 s; its variables are kept" in said
    assert await run(kit, "x") == "41"
    assert "StdinNotImplementedError" in await run(kit, "input('?')")
    assert await run(kit, "pass") == "(no output)"


async def test_a_kernel_that_dies_is_told_and_the_next_call_has_a_new_one(kit):
    """Its variables are gone, and so are the processes it started."""
    word = f"4713.{os.getpid()}"
    await run(kit, f"import os, subprocess; y = 1; p = subprocess.Popen(['sleep', '{word}'], start_new_session=True)")
    while not marked(f"sleep\0{word}"):
        await asyncio.sleep(0.01)
    said = await run(kit, "os._exit(7)")
    assert "exit code 7" in said
    assert "gone with its variables" in said
    assert marked(word) == []
    assert "NameError" in await run(kit, "y")


async def test_a_cancel_interrupts_and_a_close_ends_the_kernel(kit):
    """Cancelled while it runs and ignores interrupts; after the close no process and no folder of it is left."""
    word = f"4714.{os.getpid()}"
    where = await run(kit, "print(tools._path)")
    code = f"import signal, subprocess; signal.signal(2, signal.SIG_IGN)\nsubprocess.run(['sleep', '{word}'])"
    call = asyncio.ensure_future(run(kit, code))
    while not marked(f"sleep\0{word}"):
        await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await kit.aclose() == ()
    assert marked(word) == []
    assert not os.path.exists(os.path.dirname(where))
    with pytest.raises(ToolFailed, match="stopped"):
        await run(kit, "1")


async def test_code_calls_tools_only_while_its_cell_runs(kit):
    """A thread that a cell left behind is refused, and so is a call without the kernel's token."""
    code = """
    import threading, time
    said = []
    def later():
        time.sleep(0.3)
        try:
            said.append(tools.read('a.md'))
        except Exception as e:
            said.append(str(e))
    threading.Thread(target=later).start()
    """
    await run(kit, "\n".join(line[4:] for line in code.splitlines()))
    await asyncio.sleep(0.5)
    assert "while a cell runs" in await run(kit, "said")
    assert "not a call of this kernel" in await run(kit, "tools._token = 'x'\ntools.read('a.md')")


async def test_without_a_sandbox_it_is_the_same_tool(tmp_path):
    """The kernel runs with the rights of the user, and its end is as sure."""
    word = f"4715.{os.getpid()}"
    kit = Kit(Workspace(tmp_path), tools={"python": python_tool(CommandSpec(seconds=5), find_sandbox("off"))})
    code = f"import subprocess; subprocess.Popen(['setsid', '-f', 'sleep', '{word}']).wait(); 6 * 7"
    assert await run(kit, code) == "42"
    while not marked(f"sleep\0{word}"):
        await asyncio.sleep(0.01)
    assert await kit.aclose() == ()
    assert marked(word) == []


@pytest.mark.drill  # prints a message larger than is taken
async def test_too_large_an_output_is_told_and_the_next_one_arrives(kit):
    """One print of more than a message may hold loses that output, says so, and nothing that comes later."""
    kit.tools["python"] = python_tool(CommandSpec(seconds=20.0), FOUND)
    assert "some of the output was lost" in await run(kit, "x = 5; print('x' * 70_000_000)")
    assert await run(kit, "print('second', x)") == "second 5"

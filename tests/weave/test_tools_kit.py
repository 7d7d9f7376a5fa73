"""The kit and the one way in: plain and async functions, approval, cancel of one call, closers."""

from __future__ import annotations

import asyncio
import threading

import pytest

from slate_lab.weave.tools import Kit, ToolFailed, make_tool
from slate_lab.weave.tools.workspace import Workspace


@pytest.fixture
def kit(tmp_path):
    """An empty workspace."""
    return Kit(Workspace(tmp_path), thread="t1", kind="general")


def plain(kit: Kit, word: str) -> str:
    """Say a word.

    Args:
        word: what to say
    """
    return f"{kit.thread} {word}"


async def waiting(kit: Kit, word: str) -> str:
    """Say a word later.

    Args:
        word: what to say
    """
    await asyncio.sleep(0)
    return f"{kit.thread} {word}"


@pytest.mark.parametrize("function", [plain, waiting])
async def test_plain_and_async_functions_are_the_same_kind_of_tool(kit, function):
    """Same schema, same check of arguments, same bounds, same refusal after a stop."""
    tool = make_tool(function)
    assert tool.spec.parameters["required"] == ["word"]
    assert await tool.call(kit, {"word": "hello"}) == "t1 hello"
    with pytest.raises(ToolFailed, match="it takes word"):
        await tool.call(kit, {"word": 1})
    assert len(await tool.call(kit, {"word": "x" * 50_000})) < 9_000
    kit.stop()
    with pytest.raises(ToolFailed, match="stopped"):
        await tool.call(kit, {"word": "hello"})


async def test_a_call_that_is_denied_never_runs(tmp_path):
    """Approval is asked before every call; its refusal is the tool's error."""
    asked = []

    async def deny(tool, arguments):
        asked.append((tool, arguments))
        raise ToolFailed("a person denied it")

    kit = Kit(Workspace(tmp_path), approve=deny, approved=["plain"])
    with pytest.raises(ToolFailed, match="denied"):
        await make_tool(plain).call(kit, {"word": "x"})
    assert asked == [("plain", {"word": "x"})]


async def test_a_cancel_ends_one_call_and_not_the_others(kit):
    """The thread of the cancelled call sees it at its next check; another call of the same kit goes on."""
    saw, going = threading.Event(), threading.Event()

    def looping(kit: Kit) -> str:
        """Loop until stopped."""
        going.set()
        try:
            while True:
                kit.check()
        finally:
            saw.set()

    call = asyncio.ensure_future(make_tool(looping).call(kit, {}))
    await asyncio.to_thread(going.wait, 5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(saw.wait, 5)
    assert await make_tool(plain).call(kit, {"word": "on"}) == "t1 on"


async def test_closers_run_once_last_first_and_none_is_held_up(kit):
    """Plain and async closers in reverse order; one that fails is told and the next still runs."""
    ran = []

    async def second():
        ran.append("second")

    def bad():
        raise RuntimeError("no")

    kit.on_close(lambda: ran.append("first"))
    kit.on_close(second)
    kit.on_close(bad)
    (fault,) = await kit.aclose()
    assert "bad: RuntimeError: no" in fault
    assert ran == ["second", "first"]
    assert await kit.aclose() == ()
    assert ran == ["second", "first"]
    assert kit.stopped.is_set()
    with pytest.raises(ToolFailed, match="stopped"):
        kit.on_close(bad)

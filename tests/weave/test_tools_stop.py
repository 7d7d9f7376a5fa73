"""Stopping the tools: after a cancel nothing runs on in a thread and nothing is changed."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from slate_lab.weave.tools import BUILT_IN, Kit, ToolFailed
from slate_lab.weave.tools.workspace import Workspace

CALLS = {
    "read": {"path": "a.md"},
    "grep": {"pattern": "x"},
    "find": {},
    "ls": {},
    "write": {"path": "new/b.md", "text": "x"},
    "edit": {"path": "a.md", "old": "one", "new": "two"},
}


@pytest.fixture
def kit(tmp_path):
    """A workspace with one file."""
    (tmp_path / "a.md").write_text("one\n")
    return Kit(Workspace(tmp_path))


@pytest.mark.parametrize("tool", CALLS)
def test_after_a_stop_every_tool_refuses_to_start(kit, tool):
    """A stopped kit neither looks nor changes."""
    kit.stop()
    with pytest.raises(ToolFailed, match="stopped"):
        BUILT_IN[tool].run(kit, CALLS[tool])
    assert [p.name for p in kit.workspace.root.iterdir()] == ["a.md"]
    assert (kit.workspace.root / "a.md").read_text() == "one\n"


def endless(root):
    """Text enough that a grep of it lasts far longer than the test."""
    line = "a" * 200 + "\n"
    for n in range(60):
        (root / f"{n}.txt").write_text(line * 5_000)


async def cancel_while_running(kit, tool, arguments):
    """How long it takes until the threads are idle after a cancel."""
    call = asyncio.create_task(BUILT_IN[tool].call(kit, arguments))
    await asyncio.sleep(0.15)
    assert not call.done()
    began = time.monotonic()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.get_running_loop().shutdown_default_executor()
    return time.monotonic() - began


def test_a_cancelled_grep_ends_in_its_thread_too(kit):
    """The loop can be closed at once: the search over many files sees the stop."""
    endless(kit.workspace.root)
    kit = Kit(kit.workspace, max_search_bytes=10**12, max_search_s=600)
    took = asyncio.run(cancel_while_running(kit, "grep", {"pattern": "(a+b)?a+c|q"}))
    assert took < 3
    assert not kit.stopped.is_set()


def test_a_cancelled_read_of_a_huge_file_ends_too(kit):
    """Streaming to a far line sees the stop."""
    with (kit.workspace.root / "huge.txt").open("wb") as file:
        file.write(b"a\n" * 3_000_000)
    took = asyncio.run(cancel_while_running(kit, "read", {"path": "huge.txt", "offset": 10**9}))
    assert took < 1


def test_a_cancelled_write_that_is_still_hashing_changes_nothing(kit):
    """The stop is seen between the look at the old content and the change."""
    with (kit.workspace.root / "huge.bin").open("wb") as file:
        file.truncate(4_000_000_000)
    took = asyncio.run(cancel_while_running(kit, "write", {"path": "huge.bin", "text": "x"}))
    assert took < 1
    assert (kit.workspace.root / "huge.bin").stat().st_size == 4_000_000_000
    assert kit.artifacts == ()


def test_stop_waits_for_a_change_under_way_so_that_artifacts_are_whole(kit):
    """What was changed on disk before the stop is among the artifacts after it."""
    inside, stopped = threading.Event(), threading.Event()

    def change():
        with kit.changing():
            inside.set()
            stopped.wait(0.2)
            kit.changed("a.md", before=None, after="1")

    thread = threading.Thread(target=change)
    thread.start()
    inside.wait()
    kit.stop()
    assert [a["path"] for a in kit.artifacts] == ["a.md"]
    thread.join()


def test_two_edits_of_one_file_at_once_are_both_kept(kit):
    """Changes of one worker come one after the other: none is lost."""
    names = [f"w{n}." for n in range(20)]
    (kit.workspace.root / "a.md").write_text("\n".join(names))

    async def all_at_once():
        edits = [{"path": "a.md", "old": name, "new": name.upper()} for name in names]
        await asyncio.gather(*(BUILT_IN["edit"].call(kit, edit) for edit in edits))

    asyncio.run(all_at_once())
    assert (kit.workspace.root / "a.md").read_text() == "\n".join(names).upper()

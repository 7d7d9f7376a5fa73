"""Walking: deep and broad trees, names nobody can type, files nobody can read; all of it said, none of it fatal."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from slate_lab.weave.tools import BUILT_IN, Kit, ToolFailed
from slate_lab.weave.tools.walk import DEPTH
from slate_lab.weave.tools.workspace import Workspace


def run(kit, tool, /, **arguments):
    """The result of one built-in tool."""
    return BUILT_IN[tool].run(kit, arguments)


@pytest.fixture
def kit(tmp_path):
    """A workspace with a file in a folder."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("needle\n")
    return Kit(Workspace(tmp_path))


@pytest.fixture
def chain(kit):
    """Makes a chain of folders `d/d/d…` in the workspace, and removes it without recursion."""
    yield lambda levels: deep(kit.workspace.root, levels)
    subprocess.run(["rm", "-rf", kit.workspace.root / "d"], check=True)


def deep(root, levels):
    """So many folders within each other, made without ever naming their path."""
    fd = os.open(root, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)


@pytest.mark.parametrize(("tool", "arguments"), [("grep", {"pattern": "needle"}), ("find", {"name": "*.md"})])
def test_a_chain_of_folders_without_end_costs_nothing(kit, chain, tool, arguments):
    """The walk is bounded in depth, says so, and finds what is not so deep."""
    chain(1_100)
    (kit.workspace.root / "d" / "d" / "b.md").write_text("needle\n")
    began = time.monotonic()
    text = run(kit, tool, **arguments)
    assert time.monotonic() - began < 5
    assert "d/d/b.md" in text
    assert "notes/a.md" in text
    assert text.endswith(f"(1 folder skipped: deeper than {DEPTH} folders)")


def test_many_files_are_walked_in_sorted_order_in_a_moment(kit):
    """Names come sorted within each folder, folders among files, at a few microseconds each."""
    for folder in range(10):
        here = kit.workspace.root / f"f{folder:02}"
        here.mkdir()
        for n in range(100):
            (here / f"{n:03}.txt").touch()
    began = time.monotonic()
    with kit.workspace.walk(".", kit.sweep()) as files:
        found = [file.path for file in files]
    assert time.monotonic() - began < 3
    assert found == [f"f{f:02}/{n:03}.txt" for f in range(10) for n in range(100)] + ["notes/a.md"]


def test_no_descriptor_stays_open_when_a_walk_is_left(kit, chain):
    """A search that ends at its first match closes every folder it stands in."""
    chain(30)
    before = len(os.listdir("/dev/fd"))
    with kit.workspace.walk(".", kit.sweep()) as files:
        next(files)
    for tool in ("find", "ls"):
        run(kit, tool)
    assert len(os.listdir("/dev/fd")) == before


def test_a_file_swapped_for_a_link_after_it_was_listed_is_not_followed(kit, tmp_path_factory):
    """Walked files are opened from their folder without following links."""
    secret = tmp_path_factory.mktemp("outside") / "secret.txt"
    secret.write_text("secret")
    with kit.workspace.walk(".", kit.sweep()) as files:
        file = next(files)
        (kit.workspace.root / "notes" / "a.md").unlink()
        (kit.workspace.root / "notes" / "a.md").symlink_to(secret)
        with pytest.raises(OSError, match=r"a\.md"):
            file.open()


ODD = {
    "newline": b"a\nb.md",
    "control": b"a\x1b[2J.md",
    "not utf-8": b"caf\xe9.md",
    "line separator": "a\u2028b.md".encode(),
}


@pytest.mark.skipif(sys.platform == "darwin", reason="the file system refuses such names")
@pytest.mark.parametrize("name", ODD.values(), ids=ODD)
@pytest.mark.parametrize("tool", ["grep", "find", "ls"])
def test_an_odd_name_is_skipped_and_said(kit, tool, name):
    """One name that cannot be shown does not take the workspace with it."""
    notes = os.fsencode(kit.workspace.root / "notes")
    with open(os.path.join(notes, name), "wb") as file:
        file.write(b"needle\n")
    os.mkdir(os.path.join(notes, b"dir" + name))
    text = run(kit, tool, path="notes", **({"pattern": "needle"} if tool == "grep" else {}))
    first, closing = text.split("\n")
    assert "a.md" in first
    assert closing == "(1 file, 1 folder skipped: odd names)"
    text.encode()


@contextmanager
def ordinary_user():
    """Someone whom file modes bind, also where the tests run as root."""
    uid = os.geteuid()
    if uid == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(uid)


def test_what_may_not_be_read_is_skipped_and_said():
    """An unreadable file or folder does not end the search of the others; asked for by name it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        (root / "open.md").write_text("needle\n")
        (root / "shut.md").write_text("needle\n")
        (root / "shut").mkdir()
        (root / "shut.md").chmod(0)
        (root / "shut").chmod(0)
        kit = Kit(Workspace(root))
        with ordinary_user():
            assert run(kit, "grep", pattern="needle") == ("open.md:1: needle\n(1 file, 1 folder skipped: not readable)")
            assert run(kit, "find") == "open.md\nshut.md\n(1 folder skipped: not readable)"
            with pytest.raises(ToolFailed, match=r"cannot open shut\.md: Permission denied"):
                run(kit, "read", path="shut.md")
            with pytest.raises(ToolFailed, match="cannot write"):
                run(kit, "write", path="new.md", text="x")


def test_ls_of_a_file_shows_that_file(kit):
    """A path is a path: no need to know beforehand what stands there."""
    assert run(kit, "ls", path="notes/a.md") == "notes/a.md (7 bytes)"
    assert run(kit, "find", path="notes/a.md") == "notes/a.md"


def test_a_workspace_that_is_gone_is_told(kit):
    """The root itself may vanish: still words for the model."""
    (kit.workspace.root / "notes" / "a.md").unlink()
    (kit.workspace.root / "notes").rmdir()
    kit.workspace.root.rmdir()
    for tool, arguments in {"ls": {}, "find": {}, "write": {"path": "a", "text": ""}}.items():
        with pytest.raises(ToolFailed):
            run(kit, tool, **arguments)

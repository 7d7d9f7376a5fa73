"""Two workers on one file, paths that race and names that trick, and the facts of given episodes."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import threading
from contextlib import suppress

import pytest

from slate_lab.records import Fact
from slate_lab.weave.tools import BUILT_IN, Kit, ToolFailed
from slate_lab.weave.tools.facts_tool import facts_tools
from slate_lab.weave.tools.workspace import Workspace


@pytest.fixture
def space(tmp_path):
    """A workspace with a file, a secret beside it."""
    root = tmp_path / "work"
    (root / "notes").mkdir(parents=True)
    (root / "notes" / "a.md").write_text("one\ntwo\n")
    (root / ".slate").mkdir()
    (root / ".slate" / "slate.db").write_text("store")
    (tmp_path / "secret.txt").write_text("secret")
    return Workspace(root)


async def test_edits_of_one_file_by_many_workers_are_all_kept(space):
    """Workers of one lab take turns on a file: no edit is lost."""
    names = [f"w{n}." for n in range(16)]
    (space.root / "a.md").write_text("\n".join(names))
    kits = [Kit(space) for _ in range(4)]
    edits = [{"path": "a.md", "old": name, "new": name.upper()} for name in names]
    await asyncio.gather(*(BUILT_IN["edit"].call(kits[n % 4], edit) for n, edit in enumerate(edits)))
    assert (space.root / "a.md").read_text() == "\n".join(names).upper()
    assert space._held == {}


async def test_a_write_replaces_no_version_the_worker_has_not_seen(space):
    """What another one changed after this one read it is not lost: the error says to read again, and then it goes."""
    mine, other = Kit(space), Kit(space)
    await BUILT_IN["read"].call(mine, {"path": "notes/a.md"})
    await BUILT_IN["edit"].call(other, {"path": "notes/a.md", "old": "one", "new": "uno"})
    with pytest.raises(ToolFailed, match="changed since you read it: read it again, then write"):
        await BUILT_IN["write"].call(mine, {"path": "notes/a.md", "text": "mine"})
    assert (space.root / "notes" / "a.md").read_text() == "uno\ntwo\n"
    await BUILT_IN["read"].call(mine, {"path": "notes/a.md"})
    for text in ("mine", "mine again"):
        await BUILT_IN["write"].call(mine, {"path": "notes/a.md", "text": text})
    assert (space.root / "notes" / "a.md").read_text() == "mine again"


@pytest.mark.parametrize("changed", ["other", None])
def test_a_file_that_changes_in_the_moment_is_not_replaced(space, changed):
    """Compared by content right before the rename, also with what another process does; no part is left behind."""
    path = space.root / "notes" / "a.md"
    if changed is None:
        path.unlink()
    with pytest.raises(ToolFailed, match="in this very moment"):
        space.write_bytes("notes/a.md", b"new", before="0" * 64)
    assert [p.name for p in path.parent.iterdir()] == (["a.md"] if changed else [])


def _socket(root):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(root / "sock"))
    return "sock"


def _link(target):
    def plant(root):
        (root / "planted").symlink_to(target)
        return "planted/x" if target in ("..", "/", "/proc/self/root") else "planted"

    return plant


ODD = {
    "a socket": _socket,
    "a link to a device": _link("/dev/zero"),
    "a link to the terminal": _link("/dev/tty"),
    "a link to itself": _link("planted"),
    "a link up": _link(".."),
    "a link to the root": _link("/"),
    "a link into proc": _link("/proc/self/root"),
    "a link to an environment": _link("/proc/self/environ"),
    "a link to the store": _link(".slate/slate.db"),
    "proc itself": lambda root: "/proc/self/environ",
    "proc by dots": lambda root: "notes/../../../../../../../../proc/self/environ",
    "an open descriptor": lambda root: "/dev/fd/0",
    "the store, by dots": lambda root: "notes/../.slate/slate.db",
    "the store, other case": lambda root: ".SlAtE/slate.db",
    "the store, full width letters": lambda root: ".ｓｌａｔｅ/slate.db",
    "the store, long s": lambda root: ".ſlate/slate.db",
    "turned around text": lambda root: "a\u202egnp.md\n",
    "a huge name": lambda root: "x" * 300,
    "a huge path": lambda root: "x/" * 3_000,
    "a zero byte": lambda root: "notes/a.md\0.txt",
    "a file taken for a folder": lambda root: "notes/a.md/x",
    "dots alone": lambda root: "..",
}


@pytest.mark.parametrize("plant", ODD.values(), ids=ODD)
@pytest.mark.parametrize("tool", ["read", "write", "edit"])
def test_no_name_leads_out_or_hangs(space, plant, tool):
    """Refused in words, at once; nothing outside is read or changed, nothing special is opened."""
    path = plant(space.root)
    arguments = {"write": {"text": "x"}, "edit": {"old": "s", "new": "x"}}.get(tool, {})
    with pytest.raises(ToolFailed) as caught:
        BUILT_IN[tool].run(Kit(space), {"path": path, **arguments})
    assert len(caught.value.message) < 9_000
    assert (space.root.parent / "secret.txt").read_text() == "secret"
    assert (space.root / ".slate" / "slate.db").read_text() == "store"


def test_a_hard_link_is_the_file_it_names_and_replacing_it_leaves_the_other(space):
    """A hard link cannot be told from a file: it is read. A write replaces the name; the other name keeps its text."""
    os.link(space.root.parent / "secret.txt", space.root / "hard.txt")
    kit = Kit(space)
    assert BUILT_IN["read"].run(kit, {"path": "hard.txt"}) == "secret"
    BUILT_IN["write"].run(kit, {"path": "hard.txt", "text": "mine"})
    assert (space.root.parent / "secret.txt").read_text() == "secret"


def test_a_folder_that_turns_into_a_link_while_it_is_used_never_leads_out(space):
    """Someone swaps a folder and a link to the outside as fast as it can: no read or write ever gets through."""
    inside, outside = space.root / "notes", space.root.parent / "outside"
    outside.mkdir()
    (outside / "a.md").write_text("secret")
    aside, over = space.root / "aside", threading.Event()

    def swap():
        while not over.is_set():
            os.rename(inside, aside)
            with suppress(FileExistsError):  # a write may have made the folder anew
                os.symlink(outside, inside)
                os.unlink(inside)
            shutil.rmtree(inside, ignore_errors=True)
            try:
                os.rename(aside, inside)
            except OSError:
                shutil.rmtree(aside)
                inside.mkdir(exist_ok=True)

    swapper = threading.Thread(target=swap)
    swapper.start()
    came = set()
    try:
        for n in range(400):
            tool = "write" if n % 2 else "read"
            arguments = {"path": "notes/a.md", **({"text": "mine"} if n % 2 else {})}
            try:
                came.add(BUILT_IN[tool].run(Kit(space), arguments))
            except ToolFailed:
                came.add("refused")
    finally:
        over.set()
        swapper.join()
    assert "secret" not in came
    assert (outside / "a.md").read_text() == "secret"
    assert sorted(p.name for p in outside.iterdir()) == ["a.md"]


class Facts:
    """Thirty facts of every thread."""

    def list(self, thread):
        return [Fact(n=n, kind="text", text=f"{thread} fact {n} " + "x" * 500, at_ns=0) for n in range(1, 31)]


async def test_a_worker_reads_facts_of_its_context_and_of_no_other_episode(space):
    """In slices that say where to go on; other episodes, whoever names them, are refused."""
    tool = facts_tools(Facts())["episode_facts"]
    kit = Kit(space, context=("t3.e1", "t5.e1"), max_chars=2_000)
    said = await tool.call(kit, {"episode": "t3.e1", "start": 2, "stop": 4})
    assert said.startswith("[2] text\nt3 fact 3 ")
    assert said.endswith("(facts 2 to 3 of 30; go on with start=4)")
    said = await tool.call(kit, {"episode": "t5", "stop": 30})
    assert said.endswith("(facts 0 to 2 of 30; go on with start=3)")
    assert "go on" not in await tool.call(kit, {"episode": "t5", "start": 29, "stop": 40})
    slices = ({"start": 30, "stop": 31}, {"start": 3, "stop": 3}, {"start": -1})
    for wrong in ({"episode": "t4.e1"}, *({"episode": "t3", **of} for of in slices)):
        with pytest.raises(ToolFailed):
            await tool.call(kit, wrong)


def test_facts_are_offered_where_there_is_context(open_lab):
    """A type that looks has the tool when it is given episodes, and reads what the earlier thread found."""
    ask = {"tool": "episode_facts", "args": {"episode": "t1.e1"}}
    look = {"tool": "read", "args": {"path": "notes/a.md"}}
    lab = open_lab([look, "first", ask, "second"], compressor={"mode": "fixed"})
    lab.thread("x", type="researcher")
    second = lab.thread("y", type="researcher", context=["t1.e1"])
    assert "error rate rose to 7.5 %" in second.facts[0].text
    assert second.facts[0].ok

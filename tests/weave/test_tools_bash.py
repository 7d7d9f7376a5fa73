"""The tool bash: what it returns, what it cannot reach, and that nothing of it is left, with and without a sandbox."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from slate_lab.config.tools import CommandSpec, ToolsSpec
from slate_lab.weave.tools import Kit, ToolFailed
from slate_lab.weave.tools.commanding import command_tools
from slate_lab.weave.tools.sandbox import Room, Sandbox, find_sandbox, plan_room, scrubbed
from slate_lab.weave.tools.shell import bash_tool
from slate_lab.weave.tools.workspace import Workspace

FOUND = find_sandbox("auto")
needs_bwrap = pytest.mark.skipif(not FOUND.bwrap, reason=FOUND.why)
BARE = find_sandbox("off")
MODES = [pytest.param(BARE, id="bare"), pytest.param(FOUND, id="sandboxed", marks=needs_bwrap)]
QUICK = CommandSpec(seconds=20)


def workspace(tmp_path):
    """A workspace with a note and a store, a secret beside it."""
    root = tmp_path / "work"
    (root / ".slate").mkdir(parents=True)
    (root / ".slate" / "slate.db").write_text("store")
    (root / "a.md").write_text("hello\n")
    (tmp_path / "secret.txt").write_text("secret")
    return Workspace(root)


@pytest.fixture(params=MODES)
def sandbox(request):
    """Both ways to run commands."""
    return request.param


@pytest.fixture
def kit(tmp_path):
    """The kit of a worker that may write."""
    return Kit(workspace(tmp_path))


def marked(word: str) -> list[int]:
    """Processes whose command line holds `word`."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if word.encode() in line:
                found.append(int(folder.name))
    return found


async def test_output_and_exit_code_come_back(kit, sandbox):
    """Both streams in order, the code if it is not 0, and a note where nothing was printed."""
    bash = bash_tool(QUICK, sandbox)
    assert await bash.call(kit, {"command": "cat a.md; echo oops >&2; exit 3"}) == "hello\noops\n(exit code 3)"
    assert await bash.call(kit, {"command": "true"}) == "(no output)"
    assert await bash.call(kit, {"command": "cat"}) == "(no output)"  # there is nothing to read from
    assert "SIGKILL" in (said := await bash.call(kit, {"command": "kill -9 $$"})) or "137" in said


async def test_no_key_reaches_a_command(kit, sandbox, monkeypatch):
    """The environment is a short list of harmless names, whatever else is set."""
    for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "MY_PASSWORD", "LD_PRELOAD", "PYTHONPATH"):
        monkeypatch.setenv(name, "sk-hidden")
    said = await bash_tool(QUICK, sandbox).call(kit, {"command": "env; cat /proc/self/environ | tr '\\0' '\\n'"})
    assert "hidden" not in said
    assert str(Path.home()) not in [line.partition("=")[2] for line in said.splitlines()]
    assert scrubbed({"A_KEY": "x", "PATH": "/bin"}, home="/h", tmp="/t").keys().isdisjoint({"A_KEY"})


@needs_bwrap
async def test_a_sandboxed_command_sees_the_workspace_and_nothing_else_of_the_person(kit, tmp_path):
    """No secret beside it, no home, no store, no network, no process of others; the root cannot be written."""
    bash = bash_tool(QUICK, FOUND)
    script = f"""
    cat {tmp_path}/secret.txt; cat .slate/slate.db; echo x > .slate/y
    echo x > {tmp_path}/y; echo x > /usr/y; echo x > /y
    ls -A ~ /run /var/run /home 2>/dev/null; cat /etc/shadow; ls /proc | grep -c '^[0-9]'
    (exec 3<>/dev/tcp/127.0.0.1/22) && echo reached
    """
    said = await bash.call(kit, {"command": script})
    assert "secret\n" not in said
    assert "store\n" not in said
    assert "reached" not in said
    assert "root:" not in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["secret.txt", "work"]
    assert [p.name for p in (kit.workspace.root / ".slate").iterdir()] == ["slate.db"]
    assert not Path("/usr/y").exists()
    count = [int(line) for line in said.splitlines() if line.isdigit()]
    assert count
    assert count[0] < 10


@needs_bwrap
async def test_only_types_that_write_get_a_writable_workspace(tmp_path):
    """The same command changes the file in one room and not in the other."""
    space = workspace(tmp_path)
    bash = bash_tool(QUICK, FOUND)
    said = await bash.call(Kit(space, writable=False), {"command": "echo new > a.md"})
    assert "Read-only" in said
    assert (space.root / "a.md").read_text() == "hello\n"
    await bash.call(Kit(space, writable=True), {"command": "echo new > a.md"})
    assert (space.root / "a.md").read_text() == "new\n"


HARD = {
    "forks into the background": "sleep 4711 & sleep 4711 & echo done",
    "leaves its session, twice": "setsid -f sh -c 'setsid -f sleep 4711; sleep 4711'; echo done",
    "ignores signals": "trap '' TERM INT HUP QUIT; (trap '' TERM INT HUP; sleep 4711) & echo done",
    "keeps the output open": "nohup sleep 4711 & echo done",
}


@pytest.mark.parametrize("command", HARD.values(), ids=HARD)
async def test_what_a_command_leaves_behind_ends_with_it(kit, sandbox, command):
    """The call returns at once, and no process of it is left."""
    word = f"4711.{os.getpid()}{abs(hash(command)) % 1000}"
    began = time.monotonic()
    said = await bash_tool(QUICK, sandbox).call(kit, {"command": command.replace("4711", word)})
    assert "done" in said
    assert time.monotonic() - began < 10
    assert marked(word) == []


@pytest.mark.parametrize("how", ["cancelled", "closed", "out of time"])
async def test_a_command_that_would_go_on_is_gone(kit, sandbox, how):
    """After a cancel, a close and its time: all its processes, also those that ignore signals and left its session."""
    word = f"4712.{os.getpid()}"
    bash = bash_tool(CommandSpec(seconds=0.6 if how == "out of time" else 60), sandbox)
    script = f"trap '' TERM INT; setsid -f sleep {word}; sleep {word} & wait"
    call = asyncio.ensure_future(bash.call(kit, {"command": script}))
    while how != "out of time" and len(marked(f"sleep\0{word}")) < 2:
        await asyncio.sleep(0.01)
    if how == "cancelled":
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    elif how == "closed":
        assert await kit.aclose() == ()
        assert "stopped" in await call
    else:
        assert "stopped after 0.6 s" in await call
    assert marked(word) == []


async def test_a_flood_and_half_characters_are_bounded(kit, sandbox):
    """Tens of megabytes in, some thousand characters out; broken UTF-8 is replaced; the pipe never fills."""
    bash = bash_tool(CommandSpec(seconds=20, outputChars=2_000), sandbox)
    said = await bash.call(kit, {"command": "head -c 30000000 /dev/zero | tr '\\0' y; printf '\\303\\n\\033[31mend'"})
    assert len(said) < 2_300
    assert "bytes left out here" in said
    assert said.endswith("\ufffd\nend")


async def test_processor_time_is_bounded_over_all_children(kit, sandbox):
    """Many short children count together."""
    bash = bash_tool(CommandSpec(seconds=20, cpuSeconds=0.4), sandbox)
    began = time.monotonic()
    said = await bash.call(
        kit,
        {"command": "while :; do for i in 1 2 3; do (x=0; while [ $x -lt 20000 ]; do x=$((x+1)); done); done; done"},
    )
    assert "more than 0.4 s of processor time" in said
    assert time.monotonic() - began < 8


WRONG = {"zero byte": "echo \0", "too long": "echo " + "x" * 200_000}


@pytest.mark.parametrize("command", WRONG.values(), ids=WRONG)
async def test_a_command_that_cannot_be_passed_on_is_refused(kit, command):
    """In words, before anything is started."""
    with pytest.raises(ToolFailed, match="script file"):
        await bash_tool(QUICK, BARE).call(kit, {"command": command})


async def test_the_lack_of_a_sandbox_is_said_where_it_matters(tmp_path):
    """In the description the model reads, and once as an event of the thread."""
    events = []
    kit = Kit(workspace(tmp_path), note=lambda kind, data: events.append((kind, data)))
    bash = bash_tool(QUICK, BARE)
    assert "without a sandbox, with the rights of this user (tools.sandbox is off)" in bash.spec.description
    for _ in range(2):
        await bash.call(kit, {"command": "true"})
    assert events == [("tools.unsandboxed", {"why": "tools.sandbox is off"})]


def test_without_a_sandbox_that_is_required_no_command_is_granted(tmp_path, monkeypatch):
    """`require` on a machine without bwrap: the tools say what is lacking and what to do."""
    monkeypatch.setenv("PATH", str(tmp_path))
    find_sandbox.cache_clear()
    try:
        tools = command_tools(ToolsSpec.model_validate({"sandbox": "require"}), tmp_path)
        assert "bwrap is not installed" in tools["bash"].lacking
        assert "install bubblewrap" in tools["python"].lacking
        assert command_tools(ToolsSpec(), tmp_path)["bash"].lacking == ""
    finally:
        find_sandbox.cache_clear()


def test_a_room_is_planned_as_words(tmp_path):
    """The order decides what covers what: the workspace over `/tmp`, its own environment read-only over it."""
    (tmp_path / ".slate").mkdir()
    room = Room(workspace=tmp_path, writable=True, hidden=(".slate",), readable=(tmp_path / "env", Path("/data")))
    words = plan_room("bwrap", room)
    text = " ".join(words)
    assert {"--unshare-all", "--die-with-parent", "--new-session"} <= set(words)
    assert text.index("--tmpfs /tmp") < text.index(f"--bind {tmp_path} {tmp_path}")
    assert text.index(f"--bind {tmp_path} {tmp_path}") < text.rindex(f"--ro-bind-try {tmp_path}/env")
    assert f"--tmpfs {tmp_path}/.slate" in text
    assert text.endswith(f"--remount-ro / --chdir {tmp_path} --")
    assert "--ro-bind / /" not in text
    assert Sandbox(why="x").status == "none: x"


@pytest.mark.skipif(not (FOUND.bwrap and FOUND.sized), reason="this bwrap cannot bound a folder in memory")
async def test_files_in_memory_are_bounded(kit):
    """`/tmp` and `/dev/shm` take a gigabyte each, other places of `/dev` nothing: no command fills the memory so."""
    words = "df --output=size -k /tmp /dev/shm | tail -2; echo x > /dev/own; echo x > /dev/null && echo fine"
    found = await bash_tool(QUICK, FOUND).call(kit, {"command": words})
    assert found.split()[:2] == ["1048576", "1048576"]
    assert "Read-only file system" in found
    assert found.rstrip().endswith("fine")


@pytest.mark.drill  # thousands of processes
async def test_too_many_processes_are_ended_and_told(kit, sandbox):
    """Long before the system has none left; the tool answers in words, and a bomb is no worse."""
    many = "for i in $(seq 4000); do sleep 61.7 & done; wait"
    assert "started too many processes" in await bash_tool(QUICK, sandbox).call(kit, {"command": many})
    assert marked("61.7") == []
    bomb = "b() { b | b & }; b; sleep 5"
    assert "(" in await bash_tool(QUICK, sandbox).call(kit, {"command": bomb})

"""Surfaces and slots that nobody meant well: told with their place, and never hanging or taking the kernel."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from slate_lab.errors import ConfigError
from tests.slots.making import Bench, Core

Make = Callable[..., Bench]
BOMB = "a: &a [x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
)
MANIFEST, MODULE = "input/base_input/slot.yaml", "input/base_input/module.py"

TEXTS = {
    "a bomb of aliases": (MANIFEST, BOMB, "more than 5000 values"),
    "a bomb in the pipelines": ("pipelines.yaml", "schema_version: 1\n" + BOMB, "more than 5000 values"),
    "an alias inside itself": (MANIFEST, "input_schema: &a {x: *a}\n", "inside its own anchor"),
    "a large manifest": (MANIFEST, f"description: {'x' * 300_000}\n", "larger than 256 KiB"),
    "deep lists": (MANIFEST, f"input_schema: {'[' * 9000}", "nested more than 32 deep"),
    "a tag that makes objects": (MANIFEST, "description: !!python/object/apply:os.getcwd []\n", "tags"),
    "a merge key": (MANIFEST, "<<: {failure_policy: hard}\n", "merge keys"),
    "a key that stands twice": (MANIFEST, "failure_policy: hard\nfailure_policy: soft\n", "stands twice"),
    "a second document": (MANIFEST, "description: a\n---\ndescription: b\n", "second document"),
    "a time that is no number": (MANIFEST, "timeout_seconds: 1:30\n", "expected null or a number above 0"),
    "a large module": (MODULE, "x = 1\n" * 200_000, "larger than 1000 kB"),
    "code nested too deeply": (MODULE, f"x = {'-' * 50_000}1\n", "nested too deeply"),
    "a zero byte in code": (MODULE, "x = '\0'\n", "null bytes"),
    "a strange coding of code": (MODULE, "# coding: rot13\n", "rot13"),
}


@pytest.mark.parametrize(("name", "text", "says"), TEXTS.values(), ids=TEXTS.keys())
def test_hostile_texts_are_problems(core: Core, name: str, text: str, says: str) -> None:
    """Bombs, tags, huge and deep files are each a problem with its file."""
    core.base()
    core.write(name, text)
    with pytest.raises(ConfigError, match=says) as caught:
        core.load()
    assert any(problem.place.file.endswith(name) or says in problem.message for problem in caught.value.problems)


def pipe(path: Path) -> None:
    """A pipe in the place of a file: whoever opens it waits."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def link(target: str) -> Callable[[Path], None]:
    """A link in the place of a file."""

    def make(path: Path) -> None:
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    return make


PLACES = {
    "a pipe as manifest": (MANIFEST, pipe, "no ordinary file"),
    "a pipe as module": (MODULE, pipe, "does not exist"),
    "a pipe as pipelines": ("pipelines.yaml", pipe, "is missing"),
    "a manifest outside": (MANIFEST, link("/etc/passwd"), "leads outside"),
    "a module outside": (MODULE, link("/etc/passwd"), "leads outside"),
    "pipelines outside": ("pipelines.yaml", link("/etc/passwd"), "leads outside"),
    "a lib outside": ("lib", link("/etc"), "leads outside"),
    "a link to itself": (MODULE, link("module.py"), "does not exist"),
    "a device": ("pipelines.yaml", link("/dev/zero"), "leads outside"),
}


@pytest.mark.parametrize(("name", "make", "says"), PLACES.values(), ids=PLACES.keys())
def test_hostile_files_are_problems(core: Core, name: str, make: Callable[[Path], None], says: str) -> None:
    """Pipes, devices and links out are never opened."""
    core.base()
    make(core.folder / name)
    with pytest.raises(ConfigError, match=says):
        core.load()


async def test_a_pipe_among_the_code_is_not_read(core: Core, bench: Make) -> None:
    """Neither in a slot's folder nor in lib; the slots run."""
    core.base()
    core.write("lib/a.py", "")
    for name in ("lib/b.py", "input/base_input/more.py"):
        os.mkfifo(core.folder / name)
    assert (await bench().run("input")).user == "What broke?"


RAISED = {
    "an exception that is none": "class E(BaseException): pass\n",
    "an exception that cannot be shown": "class E(Exception):\n    def __str__(self): raise SystemExit\n",
    "an exception with half a character": "class E(Exception):\n    def __str__(self): return '\\ud800'\n",
    "a very long one": "class E(Exception):\n    def __str__(self): return 'x' * 5_000_000\n",
}


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("code", RAISED.values(), ids=RAISED.keys())
async def test_whatever_is_raised_is_stored_as_a_failure(core: Core, bench: Make, code: str, kind: str) -> None:
    """The turn of a soft slot goes on, and the event can be read again; alone and in a row."""
    core.slot("input/bad", f"{code}{kind} process(ctx):\n    raise E()\n")
    core.slot("input/next")
    core.pipelines(input=["bad", "next"])
    here = bench()
    for turn in (1, 2):
        await here.run("input", turn=turn)
    assert [e.slot for e in here.events("completed")] == ["next", "next"]
    failed = here.events("failed")
    assert len(failed) == 2
    assert all(0 < len(e.detail or "") <= 2000 for e in failed)


@pytest.mark.parametrize("text", ["\ud800", "a\0b", "x" * 3_000_000], ids=["half a character", "a zero", "a long text"])
async def test_hostile_texts_of_slots(core: Core, bench: Make, text: str) -> None:
    """What a slot sends or keeps never breaks the store: it is kept, or the slot fails with words."""
    core.write("lib/said.py", f"text = {text[:3]!a} * {-(-len(text) // 3)}\n")
    core.slot("output/say", "from lib.said import text\ndef process(ctx):\n    ctx.send_text(text)\n"
                            "    ctx.state.session.set('k', text[:3])\n", capabilities=["state.*"])  # fmt: skip
    core.pipelines(output=["say"])
    here = bench()
    draft = await here.run("output")
    ended = [e.what for e in here.events() if e.what in ("completed", "failed")]
    assert len(ended) == 1
    assert bool(draft.deliveries) == (ended == ["completed"])


async def test_code_that_changes_while_a_turn_runs_is_not_run(core: Core, bench: Make) -> None:
    """What was looked at when the turn began is what may run: another file fails its slot until the next turn."""
    core.slot("input/a", "def process(ctx):\n    ctx.notice('old')\n")
    core.pipelines(input=["a"])
    here = bench()
    seen = here.watch.look()
    core.slot("input/a", "def process(ctx):\n    ctx.notice('new')\n")
    await here.pipeline.run("input", seen, here.draft(), here.ports)
    assert "not the file that was looked at" in (here.events("failed")[0].detail or "")
    await here.run("input", turn=2)
    assert [d.text for d in here.live] == ["new"]


async def test_paths_and_modules_that_a_slot_takes_away(core: Core, bench: Make) -> None:
    """A slot that empties sys.path and takes modules of others out does not end the turn of the next one."""
    core.slot("input/bad", "import sys\ndef process(ctx):\n    kept = list(sys.path)\n    sys.path.clear()\n"
                           "    [sys.modules.pop(m) for m in list(sys.modules) if m.startswith('_slate_slots_')]\n"
                           "    sys.path.extend(kept)\n")  # fmt: skip
    core.slot("input/next", "from lib.text import word\ndef process(ctx):\n    ctx.notice(word)\n")
    core.write("lib/text.py", "word = 'fine'\n")
    core.pipelines(input=["bad", "next"])
    here = bench()
    for turn in (1, 2):
        await here.run("input", turn=turn)
    assert [d.text for d in here.live] == ["fine", "fine"]

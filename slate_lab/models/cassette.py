"""Recorded HTTP answers in one plain file that can be committed beside a notebook.

In: requests and the bytes they were answered with. Out: the same bytes again, chunk by chunk. The key of a request is a
versioned hash of its route and its JSON body, whose keys are sorted: not of host, port or headers. The n-th identical
request gets the n-th recording. Used by `replay.ReplayTransport`; the lab opens it and saves it.

A line of the file is one recording, as JSON; lines are sorted by key and number, so that the same recordings are the
same bytes. Each is appended the moment it is complete.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from slate_lab.errors import ConfigError, ModelError, Place, Problem

if TYPE_CHECKING:
    from slate_lab.config import ReplaySpec

__all__ = ["VERSION", "Cassette", "Recording", "request_key"]

VERSION = 1
DEFAULT_FILE = "replay.jsonl"
Mode = Literal["auto", "record", "replay"]
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

    def body(self) -> list[bytes]:
        """The chunks as they came."""
        return [c.encode() if isinstance(c, str) else base64.b64decode(c["base64"]) for c in self.chunks]


def request_key(route: str, body: Any) -> str:
    """The versioned key of a request."""
    text = json.dumps([VERSION, route, body], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return f"{VERSION}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


def pack(chunks: Sequence[bytes]) -> list[Chunk]:
    """Chunks in their written form."""
    return [_packed(chunk) for chunk in chunks if chunk]


class Cassette:
    """The recordings of one file.

    Args:
        path: the file; it need not exist.
        mode: `auto` answers from the file and records what is missing, `record` records everything anew, `replay`
            never goes out.

    Raises:
        ConfigError: the file cannot be read; file and line are named.
    """

    def __init__(self, path: Path, mode: Mode) -> None:
        self.path = path
        self.mode: Mode = mode
        self._recordings = _load(path)
        self._asked: defaultdict[str, set[int]] = defaultdict(set)
        self._fresh = False

    @classmethod
    def open_for(cls, spec: ReplaySpec, root: Path) -> Cassette | None:
        """The cassette of a configuration, None where replay is off; `file` is relative to the project."""
        if spec.mode == "off":
            return None
        return cls(root / (spec.file or DEFAULT_FILE), spec.mode)

    @property
    def count(self) -> int:
        """How many recordings it holds."""
        return len(self._recordings)

    def take(self, key: str) -> int:
        """The number of this request among its identical ones; `give_back` it if no answer came of it."""
        taken = self._asked[key]
        n = next(i for i in range(1, len(taken) + 2) if i not in taken)
        taken.add(n)
        return n

    def give_back(self, key: str, n: int) -> None:
        """The request with number `n` has no answer; the next identical one gets its number."""
        self._asked[key].discard(n)

    def find(self, key: str, n: int) -> Recording | None:
        """The recording that answers a request; None while recording anew."""
        return None if self.mode == "record" else self._recordings.get((key, n))

    def add(self, recording: Recording) -> None:
        """Keep a whole answer, and append it to the file."""
        self._recordings[recording.key, recording.n] = recording
        self._fresh = True
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(_line(recording))

    def save(self) -> None:
        """Write the file in order, with what other processes appended meanwhile; does nothing if nothing was added."""
        if not self._fresh:
            return
        merged = {**_load(self.path), **self._recordings}
        part = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        part.write_bytes(b"".join(_line(merged[at]) for at in sorted(merged)))
        part.replace(self.path)
        self._fresh = False

    def miss(self, route: str, body: Mapping[str, Any], key: str, n: int) -> ModelError:
        """The error of a request that has no recording: how it differs from the nearest one."""
        head = f"{route}: not recorded in {self.path.name}, and replay does not go out"
        if (key, 1) in self._recordings:
            times = sum(1 for k, _ in self._recordings if k == key)
            return ModelError("replay-miss", f"{head}: recorded {times} times, this is number {n}")
        near = _nearest(body, [r for r in self._recordings.values() if r.route == route])
        if near is None:
            return ModelError("replay-miss", f"{head}: it holds nothing of this route; run once with `replay: auto`")
        was, now = near
        return ModelError("replay-miss", f"{head}: the nearest recording differs at {was!r}, now {now!r}")


def _line(recording: Recording) -> bytes:
    return msgspec.json.encode(recording) + b"\n"


def _packed(chunk: bytes) -> Chunk:
    try:
        return chunk.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(chunk).decode()}


def _load(path: Path) -> dict[tuple[str, int], Recording]:
    """The recordings of a file; a last line without its end was never completed and is left out."""
    try:
        *lines, _torn = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return {}
    decoder = msgspec.json.Decoder(Recording)
    found: dict[tuple[str, int], Recording] = {}
    for number, line in enumerate(lines, start=1):
        try:
            recording = decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _unreadable(path, number, f"this line is no recording ({error}); delete it") from error
        if recording.v != VERSION:
            raise _unreadable(path, number, f"this recording has version {recording.v}, not {VERSION}; record it anew")
        found[recording.key, recording.n] = recording
    return found


def _unreadable(path: Path, line: int, message: str) -> ConfigError:
    return ConfigError([Problem("bad_cassette", message, Place(file=str(path), line=line))])


def _nearest(body: Mapping[str, Any], recordings: Sequence[Recording]) -> tuple[str, str] | None:
    """The first line where `body` differs from the recording that agrees with it longest: as recorded, as asked."""
    asked = _lines(body)
    best: tuple[int, str, str] | None = None
    for recording in recordings[-50:]:
        was = _lines(recording.request)
        same = next((i for i, (a, b) in enumerate(zip(asked, was, strict=False)) if a != b), min(len(asked), len(was)))
        if best is None or same > best[0]:
            best = (same, _at(was, same), _at(asked, same))
    return best and best[1:]


def _lines(body: Mapping[str, Any]) -> list[str]:
    """A request line by line, long texts at their own line ends."""
    pretty = json.dumps(body, sort_keys=True, ensure_ascii=False, indent=1)
    return [line for part in pretty.split("\n") for line in part.split("\\n")]


def _at(lines: Sequence[str], n: int) -> str:
    line = lines[n].strip() if n < len(lines) else "(end)"
    return line if len(line) <= 120 else line[:119] + "…"

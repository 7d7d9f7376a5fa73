"""Recorded HTTP answers in one plain file that can be committed beside a notebook.

In: requests and the bytes they were answered with. Out: the same bytes again, chunk by chunk. The key of a request is a
versioned hash of its route and its JSON body, whose keys are sorted: not of host, port or headers. The n-th identical
request gets the n-th recording. Used by `replay.ReplayTransport`; the lab opens it and saves it.

A line of the file is one recording, as JSON; lines are sorted by key and number, so that the same recordings are the
same bytes. Each is appended the moment it is complete; processes that share a file take turns, so that none loses what
another wrote.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from slate_lab.errors import ConfigError, ModelError
from slate_lab.models import tape
from slate_lab.models.tape import VERSION, Chunk, Recording

if TYPE_CHECKING:
    from slate_lab.config import ReplaySpec

__all__ = ["VERSION", "Cassette", "Mode", "Recording", "body_of", "pack", "request_key"]

DEFAULT_FILE = "replay.jsonl"
Mode = Literal["auto", "record", "replay"]
_MODES: dict[str, Mode] = {"auto": "auto", "record": "record", "replay": "replay"}


def request_key(route: str, body: Any) -> str:
    """The versioned key of a request."""
    text = json.dumps([VERSION, route, body], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return f"{VERSION}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


def pack(chunks: Sequence[bytes]) -> list[Chunk]:
    """Chunks in their written form."""
    return [_packed(chunk) for chunk in chunks if chunk]


def body_of(recording: Recording) -> list[bytes]:
    """The chunks of a recording as they came."""
    return [c.encode() if isinstance(c, str) else base64.b64decode(c["base64"]) for c in recording.chunks]


class Cassette:
    """The recordings of one file.

    A torn end of the file is set aside when it is opened (in mode `replay`, which never writes, it is left out), and
    said in `warnings`.

    Args:
        path: the file; it need not exist.
        mode: `auto` answers from the file and records what is missing, `record` records everything anew, `replay`
            never goes out.

    Attributes:
        answered: requests answered from it.
        added: answers recorded.

    Raises:
        ConfigError: the file cannot be read; file and line are named.
    """

    def __init__(self, path: Path, mode: Mode) -> None:
        self.path = path
        self.mode: Mode = mode
        self._warnings: list[str] = []
        self._recordings = self._open()
        self._asked: defaultdict[str, set[int]] = defaultdict(set)
        self._fresh = False
        self.answered = self.added = 0

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
        found = None if self.mode == "record" else self._recordings.get((key, n))
        self.answered += found is not None
        return found

    @property
    def warnings(self) -> tuple[str, ...]:
        """What went wrong with the file without stopping anything, each in a sentence for people."""
        return tuple(self._warnings)

    def add(self, recording: Recording) -> None:
        """Keep a whole answer, and append it to the file; where that fails it is kept for `save`, with a warning."""
        self._recordings[recording.key, recording.n] = recording
        self._fresh = True
        self.added += 1
        try:
            with tape.turn(self.path):
                torn = tape.append(self.path, recording)
        except (OSError, ConfigError) as error:  # a lock that is not free in time is an OSError too
            self._warn(f"{self.path}: an answer could not be appended ({error}); it is written when the file is saved")
            return
        if torn:
            self._warn(self._torn("another process left a last line that was cut off; it was moved to"))

    def save(self) -> None:
        """Write the file in order, with what other processes appended meanwhile; does nothing if nothing was added.

        It never raises for the file's sake: a file that cannot be read or written stays as it is, with a warning, and
        the recordings stay here for another `save`.
        """
        if not self._fresh:
            return
        try:
            with tape.turn(self.path):
                self._rewrite()
        except (OSError, ConfigError) as error:
            self._warn(f"{self.path}: the recordings could not be put in order ({error}); the file is as it was")
            return
        self._fresh = False

    def turn_to(self, mode: str) -> Cassette:
        """Answer and record by `mode` from now on.

        Raises:
            ModelError: `bad-request`, there is no such mode.
        """
        if mode not in _MODES:
            raise ModelError("bad-request", f"there is no replay mode {mode!r}; it is one of {', '.join(_MODES)}")
        self.mode = _MODES[mode]
        return self

    def describe(self) -> dict[str, Any]:
        """What a person is told: mode, file, recordings in it, answers from it and recordings made since it opened."""
        told: dict[str, Any] = {"mode": self.mode, "file": str(self.path), "recordings": self.count}
        told |= {"answered": self.answered, "recorded": self.added}
        return {**told, "warnings": list(self.warnings)} if self.warnings else told

    def _rewrite(self) -> None:
        found = tape.load(self.path)
        if found.torn:
            tape.mend(self.path, found)
            self._warn(self._torn("another process left a last line that was cut off; it was moved to"))
        merged = {**found.recordings, **self._recordings}
        tape.write(self.path, [merged[at] for at in sorted(merged)])

    def _open(self) -> dict[tuple[str, int], Recording]:
        found = tape.load(self.path)
        count = f"{len(found.recordings)} recordings are kept"
        if found.torn and self.mode == "replay":
            self._warn(f"{self.path}: the last line is cut off and is left out; {count}")
        elif found.torn or (found.open and self.mode != "replay"):
            self._mend(found, count)
        return found.recordings

    def _mend(self, found: tape.Tape, count: str) -> None:
        try:
            tape.mend(self.path, found)
        except OSError as error:
            self._warn(f"{self.path}: the end of the file is torn and cannot be mended ({error}); {count}")
            return
        if found.torn:
            self._warn(
                f"{self._torn('the last line was cut off (a process ended as it wrote); it was moved to')}; {count}"
            )

    def _torn(self, what: str) -> str:
        return f"{self.path}: {what} {tape.torn_name(self.path).name}"

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)

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


def _packed(chunk: bytes) -> Chunk:
    try:
        return chunk.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(chunk).decode()}


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

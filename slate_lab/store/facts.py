"""Facts: each is committed when it is captured, and read back in slices.

In: `Fact` records of a thread. Out: lists of them, or `StoredFacts`, which reads only what is touched. Called by the
worker while it works, and by whoever opens what an episode rests on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import msgspec

from slate_lab.errors import StoreError
from slate_lab.records import Fact
from slate_lab.store.codec import decode, encode, thread_number
from slate_lab.store.database import Database

__all__ = ["Facts", "StoredFacts"]

_PAGE = 100
_BITS = 24
"""The key of a fact is its thread's number, and its own in these low bits: the facts of a thread stand together."""
_MOST = (1 << _BITS) - 1
_SELECT = """SELECT id & 16777215, kind, text, at_ns, tool, arguments, ok, omitted FROM fact WHERE id BETWEEN ? AND ?
    ORDER BY id LIMIT ? OFFSET ?"""
_arguments = msgspec.json.Decoder(dict[str, Any])


class Facts:
    """The facts of all threads."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, thread: str, fact: Fact) -> None:
        """Keep `fact`; when this returns it survives the death of the process.

        Raises:
            StoreError: no such thread, a fact of this number is there already, or the store cannot be written.
        """
        if not 1 <= fact.n <= _MOST:
            raise StoreError(f"a fact is numbered 1 to {_MOST}, not {fact.n}", code="bad_value")
        number = thread_number(thread)
        self._db.run(
            "INSERT INTO fact (id, thread, kind, text, at_ns, tool, arguments, ok, omitted) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                number << _BITS | fact.n,
                number,
                fact.kind,
                fact.text,
                fact.at_ns,
                fact.tool,
                None if fact.arguments is None else encode(fact.arguments),
                fact.ok,
                fact.omitted,
            ),
        )

    def count(self, thread: str) -> int:
        """How many facts of `thread` are kept."""
        return int(self._db.rows("SELECT count(*) FROM fact WHERE id BETWEEN ? AND ?", _keys(thread))[0][0])

    def drop(self, thread: str, up_to_n: int) -> None:
        """Drop the facts 1 to `up_to_n` of `thread`: the caps keep the newest."""
        first, last = _keys(thread)
        self._db.run("DELETE FROM fact WHERE id BETWEEN ? AND ?", (first, min(first + max(0, up_to_n), last)))

    def list(self, thread: str, start: int | None = None, stop: int | None = None) -> list[Fact]:
        """The facts of `thread` that `[start:stop]` takes of all that are kept, in order."""
        first, end = start or 0, stop
        if first < 0 or (end is not None and end < 0):
            first, end, _ = slice(start, stop).indices(self.count(thread))
        most = -1 if end is None else max(0, end - first)
        return [_fact(thread, row) for row in self._db.rows(_SELECT, (*_keys(thread), most, first))]


class StoredFacts(Sequence[Fact]):
    """The facts of one thread as a sequence that reads from the store only what is touched."""

    def __init__(self, facts: Facts, thread: str) -> None:
        self._facts, self._thread = facts, thread
        self._count: int | None = None

    def __len__(self) -> int:
        if self._count is None:
            self._count = self._facts.count(self._thread)
        return self._count

    @overload
    def __getitem__(self, index: int) -> Fact: ...
    @overload
    def __getitem__(self, index: slice) -> list[Fact]: ...
    def __getitem__(self, index: int | slice) -> Fact | list[Fact]:
        if isinstance(index, slice):
            positions = range(len(self))[index]
            if not positions:
                return []
            low, high = min(positions[0], positions[-1]), max(positions[0], positions[-1]) + 1
            return self._facts.list(self._thread, low, high)[:: positions.step]
        position = range(len(self))[index]
        return self._facts.list(self._thread, position, position + 1)[0]

    def __iter__(self) -> Iterator[Fact]:
        for low in range(0, len(self), _PAGE):
            yield from self._facts.list(self._thread, low, low + _PAGE)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, StoredFacts | list | tuple):
            return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<facts of {self._thread}, read from the store when touched>"


def _keys(thread: str) -> tuple[int, int]:
    """The lowest and the highest key the facts of `thread` can have."""
    first = thread_number(thread) << _BITS
    return first, first | _MOST


def _fact(thread: str, row: tuple[Any, ...]) -> Fact:
    n, kind, text, at_ns, tool, arguments, ok, omitted = row
    return Fact(
        n=n,
        kind=kind,
        text=text,
        at_ns=at_ns,
        tool=tool,
        arguments=None if arguments is None else decode(_arguments, arguments, f"fact {n} of {thread}"),
        ok=bool(ok),
        omitted=omitted,
    )

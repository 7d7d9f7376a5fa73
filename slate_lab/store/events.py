"""Events: what happened, in order, as far as anyone wants to look back. Written and read by the lab and its views."""

# ruff: noqa: S608 - only names of columns are put into statements, never values
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from slate_lab.records import Event
from slate_lab.store.codec import decode, encode, thread_number
from slate_lab.store.database import Database

__all__ = ["Events"]

_data = msgspec.json.Decoder(dict[str, Any])


class Events:
    """The events of the store."""

    def __init__(self, database: Database, *, clock: Callable[[], int]) -> None:
        self._db, self._clock = database, clock

    def add(self, kind: str, *, thread: str | None = None, data: Mapping[str, Any] | None = None) -> Event:
        """Keep one event; `data` is anything JSON can hold."""
        number = None if thread is None else thread_number(thread)
        held, now = dict(data or {}), self._clock()
        row = self._db.insert(
            "INSERT INTO event (at_ns, kind, thread, data) VALUES (?, ?, ?, ?)", (now, kind, number, encode(held))
        )
        return Event(id=row, at_ns=now, kind=kind, thread=thread, data=held)

    def list(self, thread: str | None = None, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """Events with an id over `after`, in order: pass the last id seen to read on."""
        where, params = "id > ?", [after]
        if thread is not None:
            where, params = f"{where} AND thread = ?", [after, thread_number(thread)]
        rows = self._db.rows(
            f"SELECT id, at_ns, kind, thread, data FROM event WHERE {where} ORDER BY id LIMIT ?",
            [*params, -1 if limit is None else limit],
        )
        return [
            Event(
                id=number,
                at_ns=at_ns,
                kind=kind,
                thread=None if of is None else f"t{of}",
                data=decode(_data, data, f"event {number}"),
            )
            for number, at_ns, kind, of, data in rows
        ]

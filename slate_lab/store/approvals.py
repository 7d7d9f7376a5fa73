"""Calls that wait for a person: asked by one kernel, answered by any process that has the store open.

In: a call. Out: `Approval` records. An answer is a compare-and-set on `pending`: exactly one counts.
"""

# ruff: noqa: S608 - only names of columns are put into statements, never values
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slate_lab.records.approval import Approval, ApprovalState
from slate_lab.store.codec import thread_number
from slate_lab.store.database import Database

__all__ = ["APPROVALS", "Approvals"]

APPROVALS = (
    """CREATE TABLE approval (
    n INTEGER PRIMARY KEY AUTOINCREMENT, thread INTEGER NOT NULL REFERENCES thread (n), tool TEXT NOT NULL,
    arguments TEXT NOT NULL, state TEXT NOT NULL CHECK (state IN
    ('pending', 'approved', 'denied', 'expired', 'withdrawn')), why TEXT NOT NULL,
    asked_ns INTEGER NOT NULL, answered_ns INTEGER)""",
    "CREATE INDEX approval_open ON approval (n) WHERE state = 'pending'",
    """CREATE VIEW approvals AS SELECT 'a' || n AS id, n, 't' || thread AS thread, thread AS thread_n, tool, arguments,
    state, why, asked_ns, answered_ns FROM approval""",
)
"""The statements that make its table and view."""
_COLUMNS = "id, thread, tool, arguments, state, why, asked_ns, answered_ns"


class Approvals:
    """The approvals of the store."""

    def __init__(self, database: Database, *, clock: Callable[[], int]) -> None:
        self._db, self._clock = database, clock

    def ask(self, thread: str, tool: str, arguments: str) -> str:
        """Keep a question; returns its id."""
        row = self._db.insert(
            "INSERT INTO approval (thread, tool, arguments, state, why, asked_ns) VALUES (?, ?, ?, 'pending', '', ?)",
            (thread_number(thread), tool, arguments, self._clock()),
        )
        return f"a{row}"

    def get(self, id: str) -> Approval | None:
        """One approval."""
        found = self._list("id = ?", [id])
        return found[0] if found else None

    def pending(self) -> list[Approval]:
        """What waits, oldest first; threads that have ended wait for nothing."""
        live = "SELECT n FROM thread WHERE state = 'running'"
        return self._list(f"state = 'pending' AND thread_n IN ({live})", [])

    def answer(self, id: str, state: ApprovalState, why: str = "") -> bool:
        """Settle a question; False if it was settled before."""
        changed = self._db.run(
            "UPDATE approval SET state = ?, why = ?, answered_ns = ? WHERE n = ? AND state = 'pending'",
            (state, why, self._clock(), int(id[1:])),
        )
        return changed == 1

    def _list(self, where: str, params: list[Any]) -> list[Approval]:
        rows = self._db.rows(f"SELECT {_COLUMNS} FROM approvals WHERE {where} ORDER BY n", params)
        names = Approval.__struct_fields__
        return [Approval(**dict(zip(names, row, strict=True))) for row in rows]

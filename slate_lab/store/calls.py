"""Calls and their attempts: one row per request to a model and one per HTTP exchange, and what they cost so far.

In: a `Call` when it has ended, however it ended. Out: lists of them, and sums. Called by the worker, the compressor,
and whatever watches a budget. The running totals are kept per hour and session, so that a sum over millions of calls
reads a few rows.
"""

# ruff: noqa: S608 - only names of columns are put into statements, never values
from __future__ import annotations

from typing import Any

import msgspec

from slate_lab.records import Attempt, Call, Cost, Usage
from slate_lab.store.codec import USAGE_COLUMNS, decode, encode, session_number, thread_number, usage_values
from slate_lab.store.database import Database

__all__ = ["Calls"]

_HOUR = 3_600_000_000_000
_BUCKETS = ", ".join(USAGE_COLUMNS)
_CALL = f"""id, thread, kind, logical, provider, model, started_ns, ended_ns, outcome, finish, {_BUCKETS},
    cost_nusd, price, error, hop, cause"""
_ATTEMPT = f"""call, n, outcome, status, started_ns, ended_ns, waited_s, first_token_ns, {_BUCKETS}, cost_nusd, price,
    recorded, recorded_nusd, recorded_price, response_id, error, raw_usage, paced_s"""
_raw = msgspec.json.Decoder(dict[str, Any])


class Calls:
    """The calls of all threads; new ones are spent by the session `session`."""

    def __init__(self, database: Database, *, session: int) -> None:
        self._db, self._session = database, session

    def add(self, call: Call) -> Call:
        """Keep `call` with its attempts, in one commit; returns it with the id it was given."""
        attempts = [_attempt_row(attempt) for attempt in call.attempts]
        with self._db.transaction(joined=True):
            number = self._db.insert(
                "INSERT INTO call (thread, session, kind, logical, provider, model, started_ns, ended_ns, outcome, "
                f"finish, {_BUCKETS}, cost_nusd, price, attempts, error, hop, cause) VALUES ({_marks(24)})",
                (
                    thread_number(call.thread),
                    self._session,
                    call.kind,
                    call.logical,
                    call.provider,
                    call.model,
                    call.started_ns,
                    call.ended_ns,
                    call.outcome,
                    call.finish,
                    *usage_values(call.usage),
                    call.cost.nusd,
                    call.cost.price,
                    len(attempts),
                    call.error,
                    call.hop,
                    call.cause,
                ),
            )
            for row in attempts:
                self._db.run(f"INSERT INTO attempt ({_ATTEMPT}) VALUES ({_marks(25)})", (number, *row))
            if call.cost.nusd:
                self._db.run(
                    "INSERT INTO spend (hour, session, nusd) VALUES (?, ?, ?) "
                    "ON CONFLICT DO UPDATE SET nusd = nusd + excluded.nusd",
                    (call.started_ns // _HOUR, self._session, call.cost.nusd),
                )
        return msgspec.structs.replace(call, id=number)

    def list(self, thread: str | None = None, *, limit: int | None = None, offset: int = 0) -> list[Call]:
        """A page of the calls in the order they were kept, of one thread or of all."""
        where, params = ("", []) if thread is None else ("WHERE thread = ?", [thread_number(thread)])
        calls = self._db.rows(
            f"SELECT {_CALL} FROM call {where} ORDER BY id LIMIT ? OFFSET ?",
            [*params, -1 if limit is None else limit, offset],
        )
        if not calls:
            return []
        attempts = self._db.rows(
            f"SELECT {_ATTEMPT} FROM attempt WHERE call BETWEEN ? AND ? "
            f"AND call IN (SELECT id FROM call {where}) ORDER BY call, n",
            [calls[0][0], calls[-1][0], *params],
        )
        grouped: dict[int, list[Attempt]] = {}
        for row in attempts:
            grouped.setdefault(row[0], []).append(_attempt(row))
        return [_call(row, tuple(grouped.get(row[0], ()))) for row in calls]

    def spent_nusd(self, *, since_ns: int | None = None, session: str | None = None) -> int:
        """Nano-dollars of the calls that started at `since_ns` or later, of one session or of all.

        A call whose cost is unknown adds nothing.
        """
        since = max(0, since_ns or 0)
        first = -(-since // _HOUR)  # the first hour that is counted whole; what comes before it is read from the calls
        own, params = ("", []) if session is None else ("AND session = ?", [session_number(session)])
        row = self._db.rows(
            f"SELECT (SELECT coalesce(sum(nusd), 0) FROM spend WHERE hour >= ? {own}) + "
            f"(SELECT coalesce(sum(cost_nusd), 0) FROM call WHERE started_ns >= ? AND started_ns < ? {own})",
            [first, *params, since, first * _HOUR, *params],
        )[0]
        return int(row[0])


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _attempt_row(attempt: Attempt) -> tuple[Any, ...]:
    recorded = attempt.recorded_cost or Cost()
    return (
        attempt.n,
        attempt.outcome,
        attempt.status,
        attempt.started_ns,
        attempt.ended_ns,
        attempt.waited_s,
        attempt.first_token_ns,
        *usage_values(attempt.usage),
        attempt.cost.nusd,
        attempt.cost.price,
        attempt.recorded,
        recorded.nusd,
        recorded.price,
        attempt.response_id,
        attempt.error,
        None if attempt.raw_usage is None else encode(attempt.raw_usage),
        attempt.paced_s,
    )


def _usage(values: Any) -> Usage:
    *buckets, flagged = values
    return Usage(**dict(zip(USAGE_COLUMNS, buckets, strict=False)), flagged=bool(flagged))


def _call(row: tuple[Any, ...], attempts: tuple[Attempt, ...]) -> Call:
    number, thread, kind, logical, provider, model, started_ns, ended_ns, outcome, finish = row[:10]
    nusd, price, error, hop, cause = row[18:]
    return Call(
        id=number,
        thread=f"t{thread}",
        kind=kind,
        logical=logical,
        provider=provider,
        model=model,
        started_ns=started_ns,
        ended_ns=ended_ns,
        outcome=outcome,
        finish=finish,
        usage=_usage(row[10:18]),
        cost=Cost(nusd=nusd, price=price),
        attempts=attempts,
        error=error,
        hop=hop,
        cause=cause,
    )


def _attempt(row: tuple[Any, ...]) -> Attempt:
    number, n, outcome, status, started_ns, ended_ns, waited_s, first_token_ns = row[:8]
    nusd, price, recorded, recorded_nusd, recorded_price, response_id, error, raw, paced_s = row[16:]
    priced = recorded_nusd is not None or recorded_price is not None
    return Attempt(
        n=n,
        outcome=outcome,
        started_ns=started_ns,
        ended_ns=ended_ns,
        status=status,
        waited_s=waited_s,
        paced_s=paced_s,
        first_token_ns=first_token_ns,
        usage=_usage(row[8:16]),
        cost=Cost(nusd=nusd, price=price),
        recorded=bool(recorded),
        recorded_cost=Cost(nusd=recorded_nusd, price=recorded_price) if priced else None,
        response_id=response_id,
        raw_usage=None if raw is None else decode(_raw, raw, f"the usage of call {number}"),
        error=error,
    )

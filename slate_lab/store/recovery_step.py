"""What the store keeps of recovery, pacing and reserved money: statements that bring an older store to it.

Called by `migrations`. A call knows its hop and its cause, an attempt what pacing held it up, a thread how it went from
route to route. `preference` holds which provider answered last, for the session that learned it; `reserve` the money
that is set aside for a live thread, and goes with the thread or with its session.
"""

# ruff: noqa: S608 - only names of columns are put into statements, never values
from __future__ import annotations

__all__ = ["RECOVERY"]

_BUCKETS = "input_fresh, cache_read, cache_write_5m, cache_write_1h, output, reasoning, total_reported, flagged"

RECOVERY: tuple[str, ...] = (
    "ALTER TABLE thread ADD COLUMN ran_route TEXT",
    "ALTER TABLE thread ADD COLUMN hops TEXT",
    "ALTER TABLE call ADD COLUMN hop INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE call ADD COLUMN cause TEXT",
    "ALTER TABLE attempt ADD COLUMN paced_s REAL NOT NULL DEFAULT 0",
    """CREATE TABLE preference (
    session INTEGER NOT NULL REFERENCES session (n), kind TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
    started_ns INTEGER NOT NULL, PRIMARY KEY (session, kind, name)) WITHOUT ROWID""",
    """CREATE TABLE reserve (
    thread INTEGER PRIMARY KEY REFERENCES thread (n), session INTEGER NOT NULL, at_ns INTEGER NOT NULL,
    nusd INTEGER NOT NULL)""",
    "DROP VIEW threads",
    """CREATE VIEW threads AS SELECT 't' || n AS id, n, 's' || session AS session, state, code, detail, truncated,
    type, name, label, logical, provider, model, created_ns, started_ns, ended_ns, window, facts_omitted, brief,
    iif(episode IS NULL, NULL, 't' || n || '.e1') AS episode, provider || '/' || model AS requested_route,
    coalesce(ran_route, provider || '/' || model) AS ran_route, hops,
    coalesce(json_array_length(hops), 0) AS hop_count FROM thread""",
    "DROP VIEW calls",
    f"""CREATE VIEW calls AS SELECT id, 't' || thread AS thread, thread AS thread_n, 's' || session AS session, kind,
    logical, provider, model, started_ns, ended_ns, outcome, finish, {_BUCKETS}, cost_nusd, price, attempts, error,
    hop, cause FROM call""",
    "DROP VIEW attempts",
    f"""CREATE VIEW attempts AS SELECT call, n, outcome, status, started_ns, ended_ns, waited_s, paced_s,
    waited_s - paced_s AS retried_s, first_token_ns, {_BUCKETS}, cost_nusd, price, recorded, recorded_nusd,
    recorded_price, response_id, error FROM attempt""",
    """CREATE VIEW preferences AS SELECT 's' || session AS session, kind, name, value, started_ns FROM preference""",
    """CREATE VIEW reserves AS SELECT 't' || thread AS thread, thread AS thread_n, 's' || session AS session, at_ns,
    nusd FROM reserve""",
)

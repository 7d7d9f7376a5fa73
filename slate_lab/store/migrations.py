"""The tables, as numbered steps that bring any older store to this version.

In: a `Database`. Out: the same with `user_version` at the last step, all steps in one transaction, and a backup file
beside it if it was an older store. Called once, when a store opens.

Tables are named in the singular and are this room's own. What others read are the views, named in the plural: their
columns are typed, stable and spelled like the fields of the records. Thread ids are `t12`; `thread_n` (or `n`) is the
same number as an integer, the order in which they came. Times are nanoseconds, money is nano-dollars, flags are
0 or 1, absent is NULL. Long texts stand in tables of their own, so that listing reads little. Threads and episodes are
in the order of time by their key; calls are indexed by thread, model and time. Each further index is a page more to
write in every commit, so there is none.
"""

# ruff: noqa: S608 - only names of columns are put into statements, never values
from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from slate_lab.errors import StoreError
from slate_lab.store.approvals import APPROVALS
from slate_lab.store.block_tables import BLOCKS
from slate_lab.store.counted_step import COUNTED
from slate_lab.store.database import MEMORY, Database
from slate_lab.store.recovery_step import RECOVERY
from slate_lab.store.turns_step import TURNS

__all__ = ["APPLICATION_ID", "STEPS", "Step", "check_version", "migrate"]

APPLICATION_ID = 0x534C4142
"""`SLAB` in the header of the file: tells a store from any other SQLite file."""


class Step(Struct, frozen=True):
    """One version of the tables: what is new, in words, and the statements that bring it about."""

    version: int
    title: str
    statements: tuple[str, ...]


_USAGE = """input_fresh INTEGER, cache_read INTEGER, cache_write_5m INTEGER, cache_write_1h INTEGER,
    output INTEGER, reasoning INTEGER, total_reported INTEGER, flagged INTEGER NOT NULL"""

_TABLES = (
    """CREATE TABLE session (
    n INTEGER PRIMARY KEY AUTOINCREMENT, pid INTEGER NOT NULL, host TEXT NOT NULL,
    started_ns INTEGER NOT NULL, ended_ns INTEGER, interrupted INTEGER NOT NULL DEFAULT 0)""",
    "CREATE INDEX session_open ON session (n) WHERE ended_ns IS NULL",
    """CREATE TABLE thread (
    n INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL REFERENCES session (n),
    state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'successful', 'failed', 'cancelled')),
    code TEXT, truncated INTEGER NOT NULL DEFAULT 0, facts_omitted INTEGER NOT NULL DEFAULT 0,
    type TEXT NOT NULL, name TEXT, label TEXT NOT NULL, logical TEXT NOT NULL, provider TEXT NOT NULL,
    model TEXT NOT NULL, created_ns INTEGER NOT NULL, started_ns INTEGER, ended_ns INTEGER, window INTEGER,
    episode TEXT, detail TEXT, brief TEXT)""",
    "CREATE INDEX thread_live ON thread (session) WHERE state IN ('queued', 'running')",
    "CREATE TABLE action (thread INTEGER PRIMARY KEY REFERENCES thread (n), body TEXT NOT NULL)",
    """CREATE TABLE fact (
    id INTEGER PRIMARY KEY, thread INTEGER NOT NULL REFERENCES thread (n), kind TEXT NOT NULL, tool TEXT,
    ok INTEGER NOT NULL, at_ns INTEGER NOT NULL, omitted INTEGER NOT NULL, arguments TEXT, text TEXT NOT NULL)""",
    """CREATE TABLE episode (
    thread INTEGER PRIMARY KEY REFERENCES thread (n), name TEXT, type TEXT NOT NULL, status TEXT NOT NULL, code TEXT,
    truncated INTEGER NOT NULL, compression TEXT NOT NULL, logical TEXT NOT NULL, requested_route TEXT NOT NULL,
    ran_route TEXT NOT NULL, created_ns INTEGER NOT NULL, started_ns INTEGER NOT NULL, ended_ns INTEGER NOT NULL,
    fact_count INTEGER NOT NULL, omitted INTEGER NOT NULL, context_count INTEGER NOT NULL,
    finding_count INTEGER NOT NULL, artifact_count INTEGER NOT NULL, issue_count INTEGER NOT NULL,
    lost_count INTEGER NOT NULL, invented_count INTEGER NOT NULL, facts_tokens INTEGER, episode_tokens INTEGER,
    cost_nusd INTEGER, hash TEXT NOT NULL, body TEXT NOT NULL)""",
    f"""CREATE TABLE call (
    id INTEGER PRIMARY KEY, thread INTEGER NOT NULL REFERENCES thread (n), session INTEGER NOT NULL, kind TEXT NOT NULL,
    logical TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL, started_ns INTEGER NOT NULL,
    ended_ns INTEGER NOT NULL, outcome TEXT NOT NULL, finish TEXT, {_USAGE},
    cost_nusd INTEGER, price TEXT, attempts INTEGER NOT NULL, error TEXT)""",
    "CREATE INDEX call_thread ON call (thread)",
    "CREATE INDEX call_time ON call (started_ns)",
    "CREATE INDEX call_model ON call (model)",
    f"""CREATE TABLE attempt (
    call INTEGER NOT NULL REFERENCES call (id), n INTEGER NOT NULL, outcome TEXT NOT NULL, status INTEGER,
    started_ns INTEGER NOT NULL, ended_ns INTEGER NOT NULL, waited_s REAL NOT NULL, first_token_ns INTEGER, {_USAGE},
    cost_nusd INTEGER, price TEXT, recorded INTEGER NOT NULL, recorded_nusd INTEGER, recorded_price TEXT,
    response_id TEXT, error TEXT, raw_usage TEXT, PRIMARY KEY (call, n)) WITHOUT ROWID""",
    """CREATE TABLE spend (
    hour INTEGER NOT NULL, session INTEGER NOT NULL, nusd INTEGER NOT NULL,
    PRIMARY KEY (hour, session)) WITHOUT ROWID""",
    """CREATE TABLE event (
    id INTEGER PRIMARY KEY, at_ns INTEGER NOT NULL, kind TEXT NOT NULL, thread INTEGER REFERENCES thread (n),
    data TEXT NOT NULL)""",
    "CREATE INDEX event_thread ON event (thread) WHERE thread IS NOT NULL",
)

_BUCKETS = "input_fresh, cache_read, cache_write_5m, cache_write_1h, output, reasoning, total_reported, flagged"

_VIEWS = (
    """CREATE VIEW sessions AS SELECT 's' || n AS id, n, pid, host, started_ns, ended_ns, interrupted FROM session""",
    """CREATE VIEW threads AS SELECT 't' || n AS id, n, 's' || session AS session, state, code, detail, truncated,
    type, name, label, logical, provider, model, created_ns, started_ns, ended_ns, window, facts_omitted, brief,
    iif(episode IS NULL, NULL, 't' || n || '.e1') AS episode FROM thread""",
    """CREATE VIEW facts AS SELECT 't' || thread AS thread, thread AS thread_n, id & 16777215 AS n, kind, tool, ok,
    at_ns, omitted, arguments, text FROM fact""",
    """CREATE VIEW episodes AS SELECT 't' || thread || '.e1' AS id, 't' || thread AS thread, thread AS thread_n, name,
    type, status, code, truncated, compression, logical, requested_route, ran_route, created_ns, started_ns, ended_ns,
    fact_count, omitted, context_count, finding_count, artifact_count, issue_count, lost_count, invented_count,
    facts_tokens, episode_tokens, cost_nusd, hash FROM episode""",
    f"""CREATE VIEW calls AS SELECT id, 't' || thread AS thread, thread AS thread_n, 's' || session AS session, kind,
    logical, provider, model, started_ns, ended_ns, outcome, finish, {_BUCKETS}, cost_nusd, price, attempts, error
    FROM call""",
    f"""CREATE VIEW attempts AS SELECT call, n, outcome, status, started_ns, ended_ns, waited_s, first_token_ns,
    {_BUCKETS}, cost_nusd, price, recorded, recorded_nusd, recorded_price, response_id, error FROM attempt""",
    """CREATE VIEW events AS SELECT id, at_ns, kind, iif(thread IS NULL, NULL, 't' || thread) AS thread,
    thread AS thread_n, data FROM event""",
)

STEPS: tuple[Step, ...] = (
    Step(1, "sessions, threads, facts, episodes, calls, events", (*_TABLES, *_VIEWS)),
    Step(2, "recovery from route to route, pacing, reserved money", RECOVERY),
    Step(3, "sessions with slots, their turns, history, state, and events of slots", TURNS),
    Step(4, "slates: folders, files, blocks, their ledger and the index of words", BLOCKS),
    Step(5, "calls of tools that wait for a person", APPROVALS),
    Step(6, "how the tokens of an attempt were counted", COUNTED),
)


def migrate(database: Database, *, clock: Callable[[], int], steps: Sequence[Step] = STEPS) -> Path | None:
    """Bring `database` to the last of `steps`, whole or not at all.

    Returns:
        The backup that was made first, or None if the store was new or already at this version.

    Raises:
        StoreError: it is a newer version's (`newer`), no store of a lab (`not_a_store`), or cannot be backed up.
    """
    wanted = steps[-1].version
    if _version(database, wanted) == wanted:
        return None
    with database.transaction():
        found = _version(database, wanted)  # another process may have been faster
        backup = _backup(database, found, clock()) if 0 < found < wanted else None
        for step in steps:
            if step.version > found:
                for statement in step.statements:
                    database.run(statement)
        database.run(f"PRAGMA application_id = {APPLICATION_ID}")
        database.run(f"PRAGMA user_version = {wanted}")
    return backup


def check_version(database: Database, *, steps: Sequence[Step] = STEPS) -> None:
    """Refuse a store that this version could only read after bringing it up, which needs writing."""
    wanted = steps[-1].version
    if (found := _version(database, wanted)) < wanted:
        raise StoreError(
            f"the store {database.path} has tables of version {found}, this slate_lab reads {wanted}, and it cannot be "
            "written to bring it up: make the file and its folder writable, or copy them",
            code="read_only",
        )


def _version(database: Database, wanted: int) -> int:
    version, application, tables = database.rows(
        "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema) "
        "FROM pragma_user_version, pragma_application_id"
    )[0]
    if tables and application != APPLICATION_ID:
        raise StoreError(
            f"{database.path} is an SQLite file, but not a store of a lab: name another file", code="not_a_store"
        )
    if version > wanted:
        raise StoreError(
            f"the store {database.path} was written by a newer slate_lab (version {version} of its tables, this one "
            f"knows {wanted}): upgrade with `pip install -U slate-lab`, or restore a backup (`store.db.v*.bak`)",
            code="newer",
        )
    return int(version)


def _backup(database: Database, found: int, now_ns: int) -> Path | None:
    if database.path == MEMORY:
        return None
    path = Path(database.path)
    stamp = datetime.fromtimestamp(now_ns / 1e9, UTC).strftime("%Y%m%dT%H%M%S")
    target = path.with_name(f"{path.name}.v{found}-{stamp}.bak")
    database.backup(target)
    return target

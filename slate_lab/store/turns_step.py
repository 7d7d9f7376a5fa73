"""What the store keeps of sessions with slots: statements that bring an older store to it.

Called by `migrations`; read and written by `turns`. A session is `chat`: one that a person talks to, or a worker's own
(`thread`); `said` is its history, `kept` the state of slots by scope, `slot_event` what happened to them.
"""

from __future__ import annotations

__all__ = ["TURNS"]

TURNS: tuple[str, ...] = (
    """CREATE TABLE chat (
    n INTEGER PRIMARY KEY AUTOINCREMENT, thread INTEGER UNIQUE REFERENCES thread (n), created_ns INTEGER NOT NULL,
    fragments TEXT)""",
    """CREATE TABLE turn (
    chat INTEGER NOT NULL REFERENCES chat (n), n INTEGER NOT NULL, thread INTEGER NOT NULL REFERENCES thread (n),
    state TEXT NOT NULL CHECK (state IN ('running', 'ok', 'failed', 'cancelled')), code TEXT, detail TEXT,
    started_ns INTEGER NOT NULL, ended_ns INTEGER, body TEXT, PRIMARY KEY (chat, n)) WITHOUT ROWID""",
    """CREATE TABLE said (
    id INTEGER PRIMARY KEY, chat INTEGER NOT NULL REFERENCES chat (n), turn INTEGER NOT NULL, role TEXT NOT NULL,
    kind TEXT NOT NULL, slot TEXT NOT NULL, visible INTEGER NOT NULL, at_ns INTEGER NOT NULL, text TEXT NOT NULL,
    data BLOB)""",
    "CREATE INDEX said_chat ON said (chat)",
    """CREATE TABLE kept (
    scope TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (scope, name)) WITHOUT ROWID""",
    """CREATE TABLE slot_event (
    id INTEGER PRIMARY KEY, chat INTEGER NOT NULL REFERENCES chat (n), turn INTEGER NOT NULL, slot TEXT NOT NULL,
    phase TEXT NOT NULL, lane TEXT NOT NULL, what TEXT NOT NULL, at_ns INTEGER NOT NULL, duration_ns INTEGER,
    detail TEXT, traceback TEXT, allowed INTEGER)""",
    """CREATE VIEW chats AS SELECT 'c' || n AS id, n, iif(thread IS NULL, NULL, 't' || thread) AS thread, created_ns,
    fragments FROM chat""",
    """CREATE VIEW turns AS SELECT 'c' || chat AS session, chat, n, 't' || thread AS thread, thread AS thread_n, state,
    code, detail, started_ns, ended_ns FROM turn""",
    """CREATE VIEW history AS SELECT id, 'c' || chat AS session, chat, turn, role, kind, slot, visible, at_ns, text
    FROM said""",
    """CREATE VIEW slots AS SELECT id, 'c' || chat AS session, chat, turn, slot, phase, lane, what, at_ns, duration_ns,
    detail, traceback, allowed FROM slot_event""",
)

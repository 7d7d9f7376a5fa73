"""Which provider answered last: what recovery remembers, for as long as the lab is open.

In: a success, with the time its action started. Out: providers by logical model, and the place in the list of
compressors. Only successes are told here; a later-started one wins over one that started earlier, in whatever order
they end. A new session begins with nothing remembered, so that a provider that was down once is asked first again.
Called by routing (what is remembered) and by settlement (what succeeded).
"""

from __future__ import annotations

from slate_lab.store.database import Database

__all__ = ["Preferences"]

COMPRESSOR = "compressor"
PROVIDER = "provider"


class Preferences:
    """What the session `session` remembers; the table keeps it for people, the session reads its own memory."""

    def __init__(self, database: Database, *, session: int) -> None:
        self._db, self._session = database, session
        self._held: dict[tuple[str, str], tuple[int, str]] = {}

    def providers(self) -> dict[str, str]:
        """The provider that answered last, by logical model."""
        return {name: value for (kind, name), (_, value) in list(self._held.items()) if kind == PROVIDER}

    def compressor(self) -> str | None:
        """The logical model that compressed last, of those in the list of compressors."""
        held = self._held.get((COMPRESSOR, ""))
        return held[1] if held else None

    def answered(self, logical: str, provider: str, *, started_ns: int) -> bool:
        """An action that started then succeeded on `provider`; False if a later-started one has spoken."""
        return self._publish(PROVIDER, logical, provider, started_ns)

    def compressed(self, logical: str, *, started_ns: int) -> bool:
        """An action that started then was compressed by `logical`; False if a later-started one has spoken."""
        return self._publish(COMPRESSOR, "", logical, started_ns)

    def _publish(self, kind: str, name: str, value: str, started_ns: int) -> bool:
        known = self._held.get((kind, name))
        if known is not None and known[0] > started_ns:
            return False
        self._held[kind, name] = (started_ns, value)
        if known is None or known[1] != value:  # the same again is no news
            self._db.run(
                "INSERT INTO preference (session, kind, name, value, started_ns) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET value = excluded.value, started_ns = excluded.started_ns",
                (self._session, kind, name, value, started_ns),
            )
        return True

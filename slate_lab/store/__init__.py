"""What a lab keeps: threads, facts, episodes, calls, events, in one SQLite file that survives a kill at any point."""

from __future__ import annotations

from slate_lab.store.episodes import episode_hash, seal
from slate_lab.store.facts import StoredFacts
from slate_lab.store.sessions import Session
from slate_lab.store.store import Interrupted, Store

__all__ = ["Interrupted", "Session", "Store", "StoredFacts", "episode_hash", "seal"]

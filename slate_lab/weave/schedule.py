"""Who may run: one FIFO queue of permits, with optional caps per provider and per route. Pure: no clock, no locks.

The dispatcher tells it who joins and who leaves and carries out what it grants, in the order given. A freed permit
goes to the first waiter whose provider and route are below their caps, so a slow one never holds up the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from slate_lab.config import LabConfig
from slate_lab.errors import DispatchError

__all__ = ["Queue", "caps_of", "refuse_full"]


class Queue:
    """Permits for at most `permits` holders at once.

    Args:
        permits: `maxConcurrent`, at least 1.
        caps: most holders per key (a provider, a route), for the keys that have a cap.
    """

    def __init__(self, permits: int, *, caps: Mapping[str, int] | None = None) -> None:
        self.permits = permits
        self.caps = dict(caps or {})
        self._waiting: dict[str, tuple[str, ...]] = {}
        self._holding: dict[str, tuple[str, ...]] = {}
        self._busy: dict[str, int] = {}

    @property
    def waiting(self) -> tuple[str, ...]:
        """Ids in the order in which they joined."""
        return tuple(self._waiting)

    @property
    def holding(self) -> tuple[str, ...]:
        """Ids that hold a permit, in the order in which it was granted."""
        return tuple(self._holding)

    def __len__(self) -> int:
        return len(self._waiting)

    def position(self, id: str) -> int | None:
        """1 for the next in line; None for an id that does not wait."""
        for place, waiter in enumerate(tuple(self._waiting), 1):  # read from other threads
            if waiter == id:
                return place
        return None

    def join(self, id: str, *keys: str) -> list[str]:
        """Put `id` at the end of the line, under the caps of `keys`; returns whom to start now."""
        if id in self._waiting or id in self._holding:
            raise ValueError(f"{id} is in the queue already")
        self._waiting[id] = tuple(key for key in keys if key in self.caps)
        return self._grant()

    def leave(self, id: str) -> list[str]:
        """Take `id` out, waiting or holding; returns whom to start now. An unknown id changes nothing."""
        if self._waiting.pop(id, None) is not None:
            return []
        keys = self._holding.pop(id, None)
        if keys is None:
            return []
        for key in keys:
            self._busy[key] -= 1
        return self._grant()

    def held_up(self, id: str) -> str | None:
        """The capped key that keeps a waiter from starting although a permit may be free; None if only permits do."""
        return next((key for key in self._waiting.get(id, ()) if not self._below(key)), None)

    def _below(self, key: str) -> bool:
        return self._busy.get(key, 0) < self.caps[key]

    def _grant(self) -> list[str]:
        granted: list[str] = []
        free = self.permits - len(self._holding)
        if free <= 0 or not self._waiting:
            return granted
        for id, keys in self._waiting.items():
            if not all(map(self._below, keys)):
                continue
            granted.append(id)
            self._holding[id] = keys
            for key in keys:
                self._busy[key] = self._busy.get(key, 0) + 1
            if len(granted) == free:
                break
        for id in granted:
            del self._waiting[id]
        return granted


def refuse_full(queue: Queue, jobs: int, more: int, *, depth: int | None) -> None:
    """Refuse `more` actions where `depth` may wait.

    Args:
        queue: the line, which may not have seen all of the `jobs` yet.

    Raises:
        DispatchError: more would wait than may.
    """
    if depth is None:
        return
    free = max(0, queue.permits - jobs)
    waiting = max(0, len(queue), jobs - queue.permits)
    if waiting + more > depth + free:
        what = f"{waiting} wait already" if waiting else f"{more} are more than may wait"
        text = f"the queue holds queue.depth={depth} actions and {what}: wait for some, or raise queue.depth"
        raise DispatchError.of("queue_full", text)


def caps_of(config: LabConfig) -> Mapping[str, int]:
    """Most workers per provider and route; an embedded model answers one at a time unless told otherwise."""
    caps = {name: 1 for name, p in config.providers.items() if p.protocol == "local"}
    caps |= {name: p.max_concurrent for name, p in config.providers.items() if p.max_concurrent is not None}
    return caps | {name: r.max_concurrent for name, r in config.routes.items() if r.max_concurrent is not None}

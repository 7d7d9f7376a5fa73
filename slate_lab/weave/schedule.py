"""Who may run: one FIFO queue of permits, with an optional cap per route. Pure: no clock, no tasks, no locks.

The dispatcher tells it who joins and who leaves and carries out what it grants, in the order given. A freed permit
goes to the first waiter whose route is below its cap, so a slow route never holds up the others.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Queue"]


class Queue:
    """Permits for at most `permits` holders at once.

    Args:
        permits: `maxConcurrent`, at least 1.
        caps: most holders per route, for the routes that have a cap.
    """

    def __init__(self, permits: int, *, caps: Mapping[str, int] | None = None) -> None:
        self.permits = permits
        self.caps = dict(caps or {})
        self._waiting: dict[str, str] = {}
        self._holding: dict[str, str] = {}
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

    def join(self, id: str, route: str) -> list[str]:
        """Put `id` at the end of the line; returns whom to start now."""
        if id in self._waiting or id in self._holding:
            raise ValueError(f"{id} is in the queue already")
        self._waiting[id] = route
        return self._grant()

    def leave(self, id: str) -> list[str]:
        """Take `id` out, waiting or holding; returns whom to start now. An unknown id changes nothing."""
        if self._waiting.pop(id, None) is not None:
            return []
        route = self._holding.pop(id, None)
        if route is None:
            return []
        self._busy[route] -= 1
        return self._grant()

    def _grant(self) -> list[str]:
        granted: list[str] = []
        free = self.permits - len(self._holding)
        if free <= 0 or not self._waiting:
            return granted
        for id, route in self._waiting.items():
            cap = self.caps.get(route)
            if cap is not None and self._busy.get(route, 0) >= cap:
                continue
            granted.append(id)
            self._holding[id] = route
            self._busy[route] = self._busy.get(route, 0) + 1
            if len(granted) == free:
                break
        for id in granted:
            del self._waiting[id]
        return granted

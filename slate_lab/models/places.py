"""Places: how many requests are out on one route at once, fixed or learned from how the route answers.

In: requests that want a place, and how they ended. Out: a place, in the order of asking. A learned width begins with
one, widens by one with every answer until the route says it is too much, halves then, and from there on widens by one
for every round of answers. `plan_width` decides; `Places` holds the line. Called by the gate.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct

__all__ = ["BUSY", "Places", "Width", "plan_width"]

BUSY = frozenset({429, 529})
"""The HTTP statuses with which a route says that it is asked too much at once."""


class Width(Struct, frozen=True):
    """How many requests may be out.

    Attributes:
        places: now.
        most: never more.
        slow: no longer the first climb: it has been too much once.
        answers: good answers since the last change.
    """

    places: int
    most: int
    slow: bool = False
    answers: int = 0


def plan_width(width: Width, *, busy: bool) -> Width:
    """The width after one exchange ended, `busy` if the route said that it was too much."""
    if busy:
        return Width(max(1, width.places // 2), width.most, slow=True)
    answers = width.answers + 1
    needed = width.places if width.slow else 1
    if answers < needed or width.places >= width.most:
        return Width(width.places, width.most, width.slow, min(answers, needed))
    return Width(width.places + 1, width.most, width.slow)


class Places:
    """The places of one route, first come first served.

    Args:
        most: how many at once.
        adaptive: learn how many, from one up to `most`.
    """

    def __init__(self, most: int, *, adaptive: bool = False) -> None:
        self.width = Width(1 if adaptive else most, most)
        self.out = 0
        self._adaptive = adaptive
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._halved_at = 0  # exchanges that were begun before this one do not halve it again
        self._begun = 0

    @asynccontextmanager
    async def take(self) -> AsyncIterator[int]:
        """One place, held until the end of the block; gives its number, for `ended`."""
        await self._enter()
        self._begun += 1
        try:
            yield self._begun
        finally:
            self.out -= 1
            self._wake()

    def ended(self, number: int, *, busy: bool) -> None:
        """How the exchange `number` ended; of many that were out together, one halves the width."""
        if not self._adaptive or (busy and number <= self._halved_at):
            return
        if busy:
            self._halved_at = self._begun
        self.width = plan_width(self.width, busy=busy)
        self._wake()

    @property
    def full(self) -> bool:
        """Whether the next one waits."""
        return self.out >= self.width.places or bool(self._waiting)

    async def _enter(self) -> None:
        if not self.full:
            self.out += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given a place in the same moment
                self.out -= 1
            else:
                self._waiting.remove(turn)
            self._wake()
            raise

    def _wake(self) -> None:
        while self._waiting and self.out < self.width.places:
            turn = self._waiting.popleft()
            if not turn.done():
                self.out += 1
                turn.set_result(None)

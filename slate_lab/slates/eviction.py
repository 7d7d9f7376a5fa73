"""What a write pushes out of a folder: a pure decision over sizes, made before anything is changed.

In: the policy, the limit, what the folder holds, what leaves and what comes, and the blocks in the order of their turn.
Out: the victims and the total afterwards, or why the write is refused. Called by `write`, inside its transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol, TypeVar

from msgspec import Struct

__all__ = ["Policy", "Turn", "plan_eviction"]

Policy = Literal["FIFO", "LRU", "reject"]


class Turn(Protocol):
    """A block that may be the next to leave."""

    @property
    def tokens(self) -> int:
        """Its size."""
        ...


T = TypeVar("T", bound=Turn)


class Plan(Struct, frozen=True):
    """What a write does to its folder.

    Attributes:
        code: why it is refused, or None.
        message: the same for a person.
        after: tokens of the folder afterwards.
        victims: the blocks that are evicted, in order.
    """

    code: str | None
    message: str
    after: int
    victims: tuple[Turn, ...] = ()


def plan_eviction(
    *, policy: Policy, limit: int, before: int, leaves: int, adds: Sequence[int], turns: Iterable[T]
) -> Plan:
    """What leaves a folder of `before` tokens when `leaves` tokens are replaced and blocks of `adds` tokens come.

    Exactly at the limit is within it. A block that could never fit is refused and evicts nothing, whatever the policy.
    A write that leaves the folder smaller than before is never refused for want of room.

    Args:
        turns: the blocks that may be evicted, the next one first: by write (FIFO), by last read or write (LRU); neither
            what this write brings nor what it replaces. Read only as far as needed.
    """
    coming = sum(adds)
    if coming > limit:
        what = "the block" if len(adds) == 1 else f"the {len(adds)} blocks of this write"
        return Plan("block_too_large", f"{what} of {coming} tokens can never fit: the folder holds {limit}", before)
    after = before - leaves + coming
    if policy == "reject":
        if after <= limit or after < before:
            return Plan(None, "", after)
        return Plan("folder_full", f"the folder is full: {before} of {limit} tokens, and {coming} more came", before)
    victims: list[Turn] = []
    if after > limit:
        for turn in turns:
            victims.append(turn)
            after -= turn.tokens
            if after <= limit:
                break
    return Plan(None, "", after, tuple(victims))

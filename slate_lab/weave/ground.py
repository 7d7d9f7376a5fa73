"""When the ground gives way: faults of the store or the machine, which end a thread instead of being argued with.

In: an error from a tool or from the store. Out: whether it is such a fault, and the code and words it ends with. Pure.
"""

from __future__ import annotations

import errno

from slate_lab.errors import StoreError
from slate_lab.tokens import clean

__all__ = ["is_ground", "plan_ground"]

_FULL = {errno.ENOSPC, errno.EDQUOT}
_GIVEN_WAY = _FULL | {errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


def is_ground(error: BaseException | None) -> bool:
    """Whether no tool call can go well any more: the store refuses, the disk is full or fails, files run out."""
    return isinstance(error, StoreError) or (isinstance(error, OSError) and error.errno in _GIVEN_WAY)


def plan_ground(error: StoreError | OSError) -> tuple[str, str]:
    """Code and words: the store's own code after `store_`, `disk_full`, or `machine`."""
    if isinstance(error, StoreError):
        return f"store_{error.code}", error.message
    code = "disk_full" if error.errno in _FULL else "machine"
    return code, clean(
        f"the machine cannot go on: {error.strerror or error}; free what it lacks, then retry the thread"
    )

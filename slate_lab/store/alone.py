"""One turn at a time in a session, over all kernels on a store: a lock in a file, which dies with its process.

In: where the store lies, a session's id. Out: a context that is entered when no other kernel runs a turn of it. Called
by whoever asks a session.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from slate_lab.errors import StoreError

__all__ = ["alone", "taken"]

_LOOK_S = 0.05
"""How often a lock that another kernel holds is looked at."""


@asynccontextmanager
async def alone(folder: Path | None, session: str) -> AsyncIterator[None]:
    """Hold the session `session`; a store in memory (None) has one kernel only.

    Raises:
        StoreError: the folder takes no locks.
    """
    if folder is None:
        yield
        return
    lock = FileLock(folder / f"{session}.lock", thread_local=False)
    while not taken(lock):
        await asyncio.sleep(_LOOK_S)
    try:
        yield
    finally:
        lock.release()


def taken(lock: FileLock) -> bool:
    """Whether the lock is held here now; False if a living process has it.

    Raises:
        StoreError: its folder takes no locks.
    """
    try:
        Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        return False
    except (OSError, NotImplementedError) as e:
        where = "make its folder writable, or put the store on a disk with file locks"
        raise StoreError(f"{lock.lock_file} cannot be locked ({e}): {where}", code="read_only") from e
    return True

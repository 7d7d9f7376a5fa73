"""One command of a worker, guarded: bounded in time and output, and gone with all it started when it ends.

In: the words of a command and a `Room`. Out: an `Ended`. Called by `shell` and `kernel`, on the lab's loop. The
command runs below `guard`, a small process of its own that ends everything when this one stops it, or dies.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

from msgspec import Struct

from slate_lab.weave.tools.output import Capture
from slate_lab.weave.tools.sandbox import Room, Sandbox, plan_room, scrubbed

__all__ = ["Ended", "Process"]

GUARD = str(Path(__file__).with_name("guard.py"))
FILE_BYTES = 2 * 1024**3
"""The largest file a command may write."""
STOP_S = 7.0
"""How long the guard has to kill everything before it is killed itself."""
LIMIT = 1 << 20


class Ended(Struct, frozen=True):
    """How a command ended.

    Attributes:
        code: its exit code, negative for a signal, None if it is not known.
        why: "" if it ended itself; `seconds`, `cpu`, `memory`, `processes` or `stopped` if it was made to; `lost` if
            its guard died first.
        left: processes that could not be killed.
    """

    code: int | None
    why: str
    left: int = 0


class Process:
    """A running command. Made by `start`; `stop` may be called at any time, and twice is once."""

    def __init__(self, guard: asyncio.subprocess.Process, capture: Capture) -> None:
        self._guard, self.capture = guard, capture
        self._why = ""
        self._over: asyncio.Future[Ended] = asyncio.ensure_future(self._follow())

    @classmethod
    async def start(cls, command: list[str], room: Room, *, sandbox: Sandbox, cpu_s: float, chars: int) -> Process:
        """Start `command` in `room`, in the sandbox if there is one."""
        words = [*plan_room(sandbox.bwrap, room, sized=sandbox.sized), *command] if sandbox.bwrap else command
        tmp = "/tmp" if sandbox.bwrap else str(room.private or "/tmp")  # noqa: S108  the sandbox has its own
        home = "/tmp/home" if sandbox.bwrap else tmp  # noqa: S108
        guard = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-S", GUARD, f"{cpu_s:g}", str(FILE_BYTES)),
            *words,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=room.workspace,
            env=scrubbed(os.environ, home=home, tmp=tmp),
            start_new_session=True,
            limit=LIMIT,
        )
        return cls(guard, Capture(chars))

    @property
    def over(self) -> asyncio.Future[Ended]:
        """Its end, to be waited for and never cancelled."""
        return self._over

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self._over.done()

    async def wait(self, seconds: float | None = None) -> Ended:
        """Its end; after `seconds` it is stopped. A cancel stops it too, and is raised once nothing is left of it."""
        try:
            done, _ = await asyncio.wait({self._over}, timeout=seconds)
            if not done:
                await self.stop("seconds")
        except asyncio.CancelledError:
            await self.stop()
            raise
        return self._over.result() if self._over.done() else Ended(None, self._why, left=1)

    async def stop(self, why: str = "stopped") -> None:
        """End it with everything it started; returns when it is gone."""
        if self._over.done():
            return
        self._why = self._why or why
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        await asyncio.wait({self._over}, timeout=STOP_S)
        if not self._over.done():
            self._kill()
            await asyncio.wait({self._over}, timeout=STOP_S)

    def _kill(self) -> None:
        try:
            os.killpg(self._guard.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has ended in between

    async def _follow(self) -> Ended:
        assert self._guard.stdout is not None
        assert self._guard.stderr is not None
        said = asyncio.ensure_future(self._guard.stderr.read())
        while data := await self._guard.stdout.read(LIMIT):
            self.capture.feed(data)
        told = _told(await said)
        await self._guard.wait()
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        if told is None:
            return Ended(None, self._why or "lost")
        why = self._why if told["why"] == "stopped" else told["why"]
        return Ended(told["code"], why, told["left"])


def _told(said: bytes) -> dict[str, Any] | None:
    """The last line of the guard, None if it ended without a word."""
    try:
        told = json.loads(said.splitlines()[-1])
    except (IndexError, ValueError):
        return None
    return told if isinstance(told, dict) and told.keys() >= {"code", "why", "left"} else None

"""What the commands of one worker share: the room they run in, that they end with it, and how their end is told.

Called by `shell` and `cells`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

from slate_lab.config.tools import CommandSpec
from slate_lab.weave.tools.kit import Kit
from slate_lab.weave.tools.process import Ended, Process
from slate_lab.weave.tools.sandbox import Room, Sandbox
from slate_lab.weave.tools.workspace import ToolFailed

__all__ = ["closing_with", "end_words", "room_of", "say_unsandboxed"]


def room_of(kit: Kit, *, readable: tuple[Path, ...], private: Path | None = None) -> Room:
    """The room for commands of `kit`."""
    return Room(
        workspace=kit.workspace.root,
        writable=kit.writable,
        hidden=kit.workspace.hidden_names(),
        private=private,
        readable=readable,
    )


def say_unsandboxed(kit: Kit, sandbox: Sandbox) -> None:
    """Note once for each thread that its commands run with all rights of the user."""
    if not sandbox.bwrap:
        kit.note_once("tools.unsandboxed", {"why": sandbox.why})


async def closing_with(kit: Kit, process: Process) -> Callable[[], None]:
    """Have `process` end with `kit` at the latest; returns what takes that back."""
    try:
        return kit.on_close(process.stop)
    except ToolFailed:
        await process.stop()
        raise


def end_words(ended: Ended, spec: CommandSpec) -> str:
    """How a command ended, in words for the model; "" if all is well."""
    left = f"; {ended.left} of its processes could not be ended" if ended.left else ""
    why = {
        "seconds": f"(stopped after {spec.seconds:g} s: do less at once{left})",
        "cpu": f"(stopped: it used more than {spec.cpu_s:g} s of processor time{left})",
        "memory": f"(stopped: the memory of this machine was nearly used up, much of it here{left})",
        "processes": f"(stopped: it started too many processes{left})",
        "stopped": f"(stopped{left})",
        "lost": "(it ended in a way that was not seen)",
    }.get(ended.why, "")
    if why or not ended.code:
        return why or left
    if ended.code < 0:
        return f"(ended by {_signal(-ended.code)}{left})"
    return f"(exit code {ended.code}{left})"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

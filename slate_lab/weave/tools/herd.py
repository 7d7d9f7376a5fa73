"""Runs one command and leaves nothing behind that it started. A program of its own, no package.

In: the command on the command line, with this process's standard streams. It ends when the command ends, when it is
told to (SIGTERM), or when the program that started it is gone. Started by `mcp`, in a new session.

On Linux it adopts orphans (a child subreaper) and ends all its descendants, also those that left the session;
elsewhere the group of this process.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
KILL_S = 2.0
"""How long it goes on killing before it ends all the same."""


def end(*_: object) -> None:
    """Kill every descendant, then the whole group, this process with it."""
    until = time.monotonic() + KILL_S
    while (found := below()) and time.monotonic() < until:
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue  # it has ended, or is not ours to end
        bury()
    os.killpg(0, signal.SIGKILL)


def below() -> list[int]:
    """All descendants that the system shows."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue  # it has ended
    found: list[int] = []
    level = {os.getpid()}
    while level:
        level = {pid for pid, parent in parents.items() if parent in level}
        found += sorted(level)
    return found


def bury() -> None:
    """Take note of those that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def main() -> None:
    """Start, wait, clear up."""
    signal.signal(signal.SIGTERM, end)
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        command = subprocess.Popen(sys.argv[1:])  # noqa: S603  the person's own configuration names it
    except OSError as e:
        sys.stderr.write(f"{sys.argv[1]} cannot be started: {e.strerror or e}\n")
        sys.exit(127)
    command.wait()
    end()


if __name__ == "__main__":
    main()

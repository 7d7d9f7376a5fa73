"""Runs one command in this process's group and leaves nothing of the group behind. A program of its own, no package.

In: the command on the command line, with this process's standard streams. It ends when the command ends, when it is
told to (SIGTERM), or when the program that started it is gone. Started by `mcp`, in a new session.
"""

import ctypes
import os
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1


def end(*_: object) -> None:
    """Kill the whole group, this process with it."""
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Start, wait, clear up."""
    signal.signal(signal.SIGTERM, end)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    try:
        command = subprocess.Popen(sys.argv[1:])  # noqa: S603  the person's own configuration names it
    except OSError as e:
        sys.stderr.write(f"{sys.argv[1]} cannot be started: {e.strerror or e}\n")
        sys.exit(127)
    command.wait()
    end()


if __name__ == "__main__":
    main()

"""A program of its own: the parent of one command, which ends everything the command started.

Started by `process` as `python -I -S guard.py CPU_SECONDS FILE_BYTES COMMAND...`; it uses nothing but the standard
library. In: the command; its own standard input, whose end means stop. Out: what the command prints on standard
output, and one line of JSON on standard error once nothing of it is left: `{"code", "why", "left"}`.

On Linux it adopts orphans (a child subreaper), so that a process that forks twice and leaves its session is still
found and killed. Elsewhere only the command's own process group is. On Linux it also ends a command that starts
too many processes, or that takes much of a memory that is nearly used up; the system, too, takes it first.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time

TICK_S = 0.5
"""How often the processor time of all its processes is added up."""
KILL_S = 5.0
"""How long it goes on killing before it says that something is left."""
PROCESSES = 2_000
"""The most processes of one command."""
MUCH, LOW = 0.25, 0.1
"""A command that holds more than this share of the memory is ended when less than that share is left."""
_PDEATHSIG, _SUBREAPER = 1, 36
_HERTZ, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


def main(argv: list[str]) -> int:
    """Run the command and see it out."""
    cpu_s, file_bytes, command = float(argv[1]), int(argv[2]), argv[3:]
    adopts = _prctl(_SUBREAPER, 1)
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = os.fork()
    if child == 0:
        _become(command, cpu_s, file_bytes)
    os.close(1)  # only the command holds the output: its end is seen when the last of its processes is gone
    code, why = _watch(child, wake, cpu_s)
    left, last = _kill_all(child, adopts)
    code = last if code is None else code
    os.write(2, json.dumps({"code": code, "why": why, "left": left}).encode() + b"\n")
    return 0


def _become(command: list[str], cpu_s: float, file_bytes: int) -> None:
    """In the child: be the command, in a session of its own."""
    try:
        os.setsid()
        _prctl(_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(1, 2)
        os.closerange(3, 256)
        _first_to_go()
        seconds = max(1, int(cpu_s) + 1)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.execvp(command[0], command)  # noqa: S606  the words are the lab's own; no shell reads them
    except BaseException as e:  # noqa: BLE001  a forked child must never return into the parent's code
        os.write(1, f"cannot start {command[:1]}: {e}\n".encode())
    finally:
        os._exit(127)


def _watch(child: int, wake: int, cpu_s: float) -> tuple[int | None, str]:
    """The exit code of the command, or why it must end: `stopped`, `cpu`, `processes`, `memory`."""
    while True:
        ready, _, _ = select.select([0, wake], [], [], TICK_S)
        if wake in ready:
            os.read(wake, 512)
        code = _reap(child)
        if code is not None:
            return code, ""
        if 0 in ready and not os.read(0, 512):
            return None, "stopped"
        if over := _over(cpu_s):
            return None, over


def _reap(child: int) -> int | None:
    """Bury what has ended; the exit code of `child` if it was among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            code = os.waitstatus_to_exitcode(status)


def _kill_all(child: int, adopts: bool) -> tuple[int, int | None]:
    """Kill until nothing is left; how many are, and the exit code of `child` if it ends now."""
    until, code = time.monotonic() + KILL_S, None
    while True:
        for pid in _below():
            _kill(pid, os.kill)
        _kill(child, os.killpg)
        ended = _reap(child)
        code = ended if ended is not None else code
        if not _children():
            return 0, code
        if time.monotonic() > until:
            return len(_below()) if adopts else 1, code
        time.sleep(0.001)


def _kill(pid: int, how: object) -> None:
    try:
        how(pid, signal.SIGKILL)  # type: ignore[operator]
    except (ProcessLookupError, PermissionError):
        pass  # it has ended, or is not ours to end; what is left is counted


def _children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _stats() -> dict[int, tuple[int, float, int]]:
    """Every process: its parent, the processor time of itself and of its buried children, the memory it holds."""
    found = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue  # it has ended
            found[int(name)] = (int(fields[1]), sum(map(int, fields[11:15])) / _HERTZ, int(fields[21]) * _PAGE)
    return found


def _below(stats: dict[int, tuple[int, float, int]] | None = None) -> list[int]:
    """All living descendants, the nearest first."""
    stats = _stats() if stats is None else stats
    found, level = [], {os.getpid()}
    while level:
        level = {pid for pid, (parent, _, _) in stats.items() if parent in level}
        found += sorted(level)
    return found


def _over(cpu_s: float) -> str:
    """What all descendants together use too much of, for processor time the ended ones included; "" if nothing."""
    stats, ended = _stats(), resource.getrusage(resource.RUSAGE_CHILDREN)
    below = _below(stats)
    if ended.ru_utime + ended.ru_stime + sum(stats[pid][1] for pid in below) > cpu_s:
        return "cpu"
    if len(below) > PROCESSES:
        return "processes"
    return "memory" if _is_scarce(sum(stats[pid][2] for pid in below)) else ""


def _is_scarce(held: int) -> bool:
    """Whether memory is nearly used up, and a command that holds so many bytes is much of the reason."""
    try:
        with open("/proc/meminfo") as file:
            found = {line.split(":")[0]: int(line.split()[1]) * 1_024 for line in file}
        return held > MUCH * found["MemTotal"] and found["MemAvailable"] < LOW * found["MemTotal"]
    except (OSError, KeyError):
        return False


def _first_to_go() -> None:
    """Where memory runs out, the system ends the command and not the program of the person."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        return  # another system


def _prctl(option: int, value: int) -> bool:
    """Whether the system took it; only Linux has it."""
    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


if __name__ == "__main__":
    os._exit(main(sys.argv))

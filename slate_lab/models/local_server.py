"""Joining and leaving the one embedded server of a model: blocking, for a thread.

In: verified weights and the server's options. Out: `Joined`, the address and key of a server that answers. Called by
the local transport. Processes of one user share a server through a folder: `start.lock` (who may start or stop it),
`alive.lock` (held by the server), `state.json` (where it is), and a held lock for each user. What a dead process left
is told apart by its lock, which died with it.
"""

from __future__ import annotations

import hashlib
import http.client
import importlib.util
import os
import platform
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import filelock
import msgspec
from msgspec import Struct

from slate_lab.errors import ModelError
from slate_lab.models.serve import ALIVE, STATE, State
from slate_lab.models.weights import Progress, Weights

__all__ = ["SERVE", "Joined", "ServerSpec", "is_alive", "join_server", "leave_server", "require_runtime"]

SERVE = (sys.executable, "-P", "-m", "slate_lab.models.serve")
START_S = 300.0
"""How long loading may take."""
HEALTH_S = 20.0
"""How long a server that lives may stay silent before it counts as hung."""


class ServerSpec(Struct, frozen=True, kw_only=True):
    """What is served and how; equal specs share one server. `command` starts it and takes the options of `serve`."""

    name: str
    weights: Weights
    template: Path
    context: int
    parallel: int
    threads: int
    idle_s: float
    command: tuple[str, ...] = SERVE

    def folder(self, cache: Path) -> Path:
        """Where the processes of this user and machine meet."""
        told = [self.weights.sha256, self.template.read_text(), self.context, self.parallel, self.threads]
        mark = hashlib.sha256(repr(told).encode()).hexdigest()[:12]
        return cache / "servers" / (platform.node() or "localhost") / f"{self.name}-{mark}"


class Joined(Struct, frozen=True):
    """A server in use: where it is, and the lock that says so."""

    folder: Path
    state: State
    user: filelock.BaseFileLock


def require_runtime() -> None:
    """Raise `ModelError` if the runtime is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        text = 'the embedded model needs xllamacpp: pip install "slate-lab[local]", or set a key for another provider'
        raise ModelError("unavailable", text)


def join_server(
    spec: ServerSpec, *, cache: Path, progress: Progress, stop: Callable[[], bool] = lambda: False
) -> Joined:
    """The server of `spec`, found or started, registered as used by the caller.

    Raises:
        ModelError: `unavailable`, it does not start, with the end of its log; `cancelled` when stopped.
    """
    folder = spec.folder(cache)
    (folder / "users").mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    lock = _acquire(folder / "start.lock", stop, lambda: progress(f"waiting for {spec.name}", None))
    try:
        state = _running(folder) or _start(spec, folder, progress, stop)
        user = filelock.FileLock(folder / "users" / f"{uuid.uuid4().hex}.lock", thread_local=False)
        user.acquire()
        return Joined(folder, state, user)
    finally:
        lock.release()


def leave_server(joined: Joined) -> None:
    """Say that the caller uses it no longer; the last user ends it."""
    with filelock.FileLock(joined.folder / "start.lock"):
        joined.user.release()
        Path(joined.user.lock_file).unlink(missing_ok=True)
        if not _used(joined.folder):
            _end(joined.folder, joined.state.pid)


def is_alive(folder: Path) -> bool:
    """Whether a server holds the folder's lock."""
    return _held(folder / ALIVE)


def _used(folder: Path) -> bool:
    """Whether any user lives; what dead ones left is removed."""
    used = False
    for file in (folder / "users").glob("*.lock"):
        if _held(file):
            used = True
        else:
            file.unlink(missing_ok=True)
    return used


def _held(file: Path) -> bool:
    lock = filelock.FileLock(file)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        return True
    lock.release()
    return False


def _acquire(file: Path, stop: Callable[[], bool], tell: Callable[[], None]) -> filelock.BaseFileLock:
    lock, told = filelock.FileLock(file, thread_local=False), False
    while True:
        try:
            lock.acquire(timeout=0.3)
            return lock
        except filelock.Timeout:
            _check(stop)
            if not told:
                tell()
            told = True


def _running(folder: Path) -> State | None:
    """The state of a server that lives and answers. One that is dead is forgotten, one that hangs is ended."""
    state = _read(folder)
    if not is_alive(folder):
        (folder / STATE).unlink(missing_ok=True)
        return None
    until = time.monotonic() + HEALTH_S
    while time.monotonic() < until and is_alive(folder):
        state = _read(folder)
        if state is not None and _healthy(state):
            return state
        time.sleep(0.2)
    if state is not None:
        _end(folder, state.pid)
    return None


def _read(folder: Path) -> State | None:
    try:
        return msgspec.json.decode((folder / STATE).read_bytes(), type=State)
    except (OSError, msgspec.MsgspecError):
        return None


def _healthy(state: State) -> bool:
    link = http.client.HTTPConnection("127.0.0.1", state.port, timeout=5)
    try:
        link.request("GET", "/health", headers={"Authorization": f"Bearer {state.key}"})
        return link.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        link.close()


def _start(spec: ServerSpec, folder: Path, progress: Progress, stop: Callable[[], bool]) -> State:
    require_runtime()
    progress(f"loading {spec.name}", None)
    log = folder / "server.log"
    options = {
        "--folder": folder,
        "--model": spec.weights.path,
        "--alias": spec.name,
        "--template": spec.template,
        "--context": spec.context,
        "--parallel": spec.parallel,
        "--threads": spec.threads,
        "--idle": spec.idle_s,
    }
    command = [
        *spec.command,
        *(str(x) for pair in options.items() for x in pair),
    ]
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        server = subprocess.Popen(  # noqa: S603  our own interpreter and module
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,  # an interrupt in the notebook is not for the server
            env={**os.environ, "OMP_WAIT_POLICY": "passive"},  # spinning threads starve each other on busy cores
        )
    threading.Thread(target=server.wait, name="slate-lab-server", daemon=True).start()  # no zombie stays
    until = time.monotonic() + START_S
    try:
        while time.monotonic() < until:
            state = _read(folder)
            if state is not None and _healthy(state):
                return state
            if server.poll() is not None:
                raise ModelError("unavailable", f"the server of {spec.name} did not start: {_tail(log)}")
            _check(stop)
            time.sleep(0.1)
        raise ModelError("unavailable", f"{spec.name} was not loaded within {START_S:g} s: {_tail(log)}")
    except ModelError:
        server.kill()
        raise


def _end(folder: Path, pid: int) -> None:
    """End the server with process id `pid`, if it still lives."""
    for sign in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        if not is_alive(folder):
            break
        try:
            os.kill(pid, sign)
        except ProcessLookupError:
            break
        until = time.monotonic() + 5
        while is_alive(folder) and time.monotonic() < until:
            time.sleep(0.05)
    (folder / STATE).unlink(missing_ok=True)


def _tail(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return f"{' / '.join(lines[-3:])[-400:] or 'it said nothing'} (log: {log})"


def _check(stop: Callable[[], bool]) -> None:
    if stop():
        raise ModelError("cancelled", "starting the embedded model was stopped")

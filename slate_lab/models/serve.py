"""The embedded server, a process of its own: `python -m slate_lab.models.serve`; started only by `local_server`.

In: a GGUF file, a chat template, a folder. Out: llama.cpp's HTTP server on 127.0.0.1 behind a key, and in the folder
`state.json` (this user's eyes only) with its process, port and key. It holds `alive.lock` while it lives, and ends by
itself when no request was under way for the idle time, so it never outlives its users by more than that.
"""

from __future__ import annotations

import argparse
import http.client
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import filelock
import msgspec
from msgspec import Struct

__all__ = ["ALIVE", "STATE", "State", "main", "write_state"]

Start = Callable[[argparse.Namespace, str], Any]
STATE = "state.json"
ALIVE = "alive.lock"
CACHE_RAM_MIB = 256
"""Prompts kept for reuse; the server's own default grows to 8 GiB."""


class State(Struct, frozen=True):
    """Where a running server is; written when it answers."""

    pid: int
    port: int
    key: str

    def __repr__(self) -> str:
        return f"State(pid={self.pid}, port={self.port})"


def write_state(folder: Path, state: State) -> None:
    """Put the state in its place, whole and readable by this user only."""
    draft = folder / f"{STATE}.{state.pid}"
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as f:
        f.write(msgspec.json.encode(state))
    os.replace(draft, folder / STATE)


def main(argv: Sequence[str] | None = None, *, start: Start | None = None) -> int:
    """Serve until told to stop or idle for too long.

    Args:
        argv: the options; None is the command line's.
        start: what begins to listen, given options and key; its result has a `listening_address`. None is llama.cpp.
    """
    parser = argparse.ArgumentParser(prog="slate_lab.models.serve", description="the embedded model's server")
    parser.add_argument("--folder", type=Path, required=True, help="where its state is kept")
    parser.add_argument("--model", required=True, help="a GGUF file")
    parser.add_argument("--alias", required=True, help="the model's name in answers")
    parser.add_argument("--template", type=Path, required=True, help="a chat template")
    parser.add_argument("--context", type=int, required=True, help="tokens of context for each request")
    parser.add_argument("--parallel", type=int, default=1, help="requests at once")
    parser.add_argument("--threads", type=int, required=True, help="processor threads")
    parser.add_argument("--idle", type=float, required=True, help="seconds without a request before it ends")
    options = parser.parse_args(argv)
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    with filelock.FileLock(options.folder / ALIVE, timeout=5):
        key = secrets.token_urlsafe(32)
        server = (start or _start)(options, key)
        port = int(server.listening_address.rpartition(":")[2])
        write_state(options.folder, State(os.getpid(), port, key))
        _wait(port, key, idle_s=options.idle, stop=stop)
        (options.folder / STATE).unlink(missing_ok=True)
    sys.stdout.flush()
    os._exit(0)  # the library's threads may still hold a request of a user who is gone


def _start(options: argparse.Namespace, key: str) -> Any:
    """llama.cpp's server, listening; returns when the model is loaded."""
    import xllamacpp

    p = xllamacpp.CommonParams()
    p.model.path = options.model
    p.model_alias = {options.alias}
    p.n_ctx, p.n_parallel = options.context * options.parallel, options.parallel
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = options.threads
    p.n_gpu_layers = 0
    p.hostnames, p.port = ["127.0.0.1"], 0
    p.api_keys = [key]
    p.cors_origins, p.cors_credentials = "http://127.0.0.1", False
    p.ui = p.endpoint_slots = p.endpoint_props = False
    p.endpoint_metrics = True
    p.use_jinja, p.chat_template = True, options.template.read_text(encoding="utf-8")
    p.force_pure_content_parser = True  # calls are read from the text on the lab's side
    p.cache_ram_mib = CACHE_RAM_MIB
    p.verbosity = 2
    return xllamacpp.Server(p)


def _wait(port: int, key: str, *, idle_s: float, stop: threading.Event) -> None:
    """Return when `stop` is set, or when nothing was asked for `idle_s`."""
    look_s = min(5.0, max(0.1, idle_s / 5))
    last, seen = time.monotonic(), ""
    while not stop.wait(look_s):
        now = _activity(port, key)
        if now != seen or "busy" in now:
            last, seen = time.monotonic(), now
        elif time.monotonic() - last >= idle_s:
            return


def _activity(port: int, key: str) -> str:
    """A text that changes with every request, and says `busy` while one is under way."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        link.request("GET", "/metrics", headers={"Authorization": f"Bearer {key}"})
        lines = link.getresponse().read().decode().splitlines()
    except (OSError, http.client.HTTPException):  # between two batches of a long prompt it does not answer
        return "busy"
    finally:
        link.close()
    counts = dict(line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
    busy = any(float(counts.get(f"llamacpp:requests_{state}", 0)) for state in ("processing", "deferred"))
    return "busy" if busy else f"{counts.get('llamacpp:prompt_tokens_total')} {counts.get('llamacpp:n_decode_total')}"


if __name__ == "__main__":
    raise SystemExit(main())

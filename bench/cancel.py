"""Cancel: from `handle.cancel()` to the socket closed, and to the last process of a command gone; median and worst.

Run alone: python -m bench.cancel. The command ignores signals and leaves its session; the server on loopback drips a
stream that never ends. Both run through the whole corridor, one after the other, 50 times each.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import slate_lab as sl
from slate_lab.errors import DispatchError
from slate_lab.weave.tools.sandbox import find_sandbox

N = 50
_CHUNK = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":"tok "},"finish_reason":null}]}\n\n'
)
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def holding(word: str) -> list[int]:
    """Processes whose command is `sleep WORD`."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if line.startswith(f"sleep\0{word}".encode()):
                found.append(int(folder.name))
    return found


def processes(sandbox: str) -> list[float]:
    """Seconds from a cancel until no process of a stubborn command is left."""
    words = [f"{77_000 + n}.{os.getpid()}" for n in range(N)]
    commands = iter(f"trap '' TERM INT HUP; setsid -f sleep {w}; sleep {w} & wait" for w in words)
    model = sl.ScriptedModel(lambda request: {"tool": "bash", "args": {"command": next(commands)}})
    took = []
    with tempfile.TemporaryDirectory() as folder:
        config = {"tools": {"sandbox": sandbox}}
        with sl.Lab.open(folder, store=":memory:", models=model, config=config, env={}) as lab:
            for word in words:
                handle = lab.dispatch("x", type="general")
                while len(pids := holding(word)) < 2:
                    time.sleep(0.005)
                began = time.perf_counter()
                handle.cancel(compress=False)
                while any(os.path.exists(f"/proc/{pid}") for pid in pids):
                    time.sleep(0.0002)
                took.append(time.perf_counter() - began)
                settle(handle)
    return took


class Server:
    """Streams for ever, and notes when its client hangs up."""

    def __init__(self) -> None:
        self.streams, self.closed = threading.Event(), threading.Event()
        self.port = self.at = 0.0
        self.loop = asyncio.new_event_loop()
        ready = threading.Event()
        threading.Thread(target=self._run, args=(ready,), daemon=True).start()
        ready.wait()

    def _run(self, ready: threading.Event) -> None:
        async def listen() -> None:
            server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()

        self.loop.run_until_complete(listen())
        self.loop.run_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(_HEAD + _CHUNK)
        drip = asyncio.ensure_future(self._drip(writer))
        self.streams.set()
        try:
            while await reader.read(65_536):
                pass
        except ConnectionError:
            pass
        self.at = time.perf_counter()
        self.closed.set()
        drip.cancel()
        writer.close()

    async def _drip(self, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(_CHUNK)
            await asyncio.sleep(0.01)


def sockets() -> list[float]:
    """Seconds from a cancel until the server sees the connection closed."""
    server = Server()
    logical = {
        "model": "drip",
        "capabilityRating": 1,
        "effort": "off",
        "costRating": 1,
        "preferredProvider": "loopback",
        "providers": {"loopback": "m"},
        "guidelines": "x",
        "cautions": "x",
    }
    config = {
        "defaultModel": "drip",
        "providers": {
            "loopback": {"protocol": "chat", "baseUrl": f"http://127.0.0.1:{server.port}/v1", "models": {"m": {}}}
        },
        "models": {"add": [logical]},
    }
    took = []
    with tempfile.TemporaryDirectory() as folder, sl.Lab.open(folder, store=":memory:", config=config, env={}) as lab:
        for _ in range(N):
            server.streams.clear()
            server.closed.clear()
            handle = lab.dispatch("x", type="query")
            server.streams.wait(30)
            while not handle.progress.text:
                time.sleep(0.001)
            began = time.perf_counter()
            handle.cancel(compress=False)
            server.closed.wait(30)
            took.append(server.at - began)
            settle(handle)
    server.loop.call_soon_threadsafe(server.loop.stop)
    return took


def settle(handle: sl.Handle) -> None:
    """Wait for its end, whatever it is."""
    try:
        handle.result(60)
    except DispatchError:
        pass


def rows() -> Iterator[str]:
    """One line for each way to cancel."""
    modes = ["off", *(["auto"] if find_sandbox("auto").bwrap else [])]
    ways = itertools.chain(
        [("cancel to socket closed", sockets())],
        ((f"cancel to processes gone, sandbox {find_sandbox(m).status.split(':')[0]}", processes(m)) for m in modes),
    )
    for name, took in ways:
        yield f"{name:48} median {statistics.median(took) * 1e3:6.1f} ms, worst of {N} {max(took) * 1e3:6.1f} ms"


if __name__ == "__main__":
    for row in rows():
        print(row)

"""A Jupyter kernel of a worker's own: one guarded process, its sockets in a private folder, never a port.

In: cells of code. Out: a `Ran`, and what they print in a `Capture`. Called by `cells`, on the lab's loop. It needs the
packages `jupyter_client` and `ipykernel`, which are imported when the first kernel starts.
"""

from __future__ import annotations

import asyncio
import json
import queue
import secrets
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct

from slate_lab.config.tools import CommandSpec
from slate_lab.weave.tools.bridge import Bridge
from slate_lab.weave.tools.commands import room_of
from slate_lab.weave.tools.kit import Kit
from slate_lab.weave.tools.output import Capture
from slate_lab.weave.tools.process import Ended, Process
from slate_lab.weave.tools.sandbox import Sandbox
from slate_lab.weave.tools.workspace import ToolFailed

__all__ = ["Kernel", "Ran"]

READY_S = 60.0
"""How long a kernel may take to start."""
INTERRUPT_S = 3.0
"""How long code has to end after an interrupt, before its kernel is killed."""
POLL_S = 0.2
QUIET_S = 0.5
"""How long after the answer of a cell its last output is waited for."""
MAX_MESSAGE = 64_000_000
"""The largest message taken from a kernel, in bytes; a larger one is dropped."""
LOG_CHARS = 2_000
_LOST = b"\n(some of the output was lost: print less at once)\n"
_PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")
_OPTIONS = ("--HistoryManager.enabled=False", "--InteractiveShell.colors=nocolor", "--log-level=ERROR")
_INSIDE = Path(__file__).with_name("inside.py")


class Ran(Struct, frozen=True):
    """How a cell ended: `ok`, `error`, `seconds` (interrupted), or `dead` with the end of the kernel."""

    how: Literal["ok", "error", "seconds", "dead"]
    ended: Ended | None = None


class Kernel:
    """A running kernel. Made by `start`; `close` may be called at any time, and twice is once."""

    def __init__(self, folder: Path, bridge: Bridge, process: Process, client: Any, context: Any) -> None:
        self._folder, self._bridge, self._process = folder, bridge, process
        self._client, self._context = client, context
        self._closed = False

    @classmethod
    async def start(cls, kit: Kit, spec: CommandSpec, sandbox: Sandbox, *, readable: tuple[Path, ...]) -> Kernel:
        """Start a kernel for `kit` and wait until it answers.

        Raises:
            ToolFailed: it does not start; what it said is told.
        """
        import zmq
        import zmq.asyncio
        from jupyter_client.asynchronous.client import AsyncKernelClient

        folder = Path(tempfile.mkdtemp(prefix="slate-lab-"))
        bridge = Bridge(kit, folder / "tools", barred=frozenset({"python"}))
        context = zmq.asyncio.Context()
        context.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE)
        process: Process | None = None
        try:
            await bridge.start()
            info = _connection(folder)
            process = await Process.start(
                [sys.executable, "-P", "-m", "ipykernel_launcher", "-f", str(folder / "kernel.json"), *_OPTIONS],
                room_of(kit, readable=readable, private=folder),
                sandbox=sandbox,
                cpu_s=spec.cpu_s,
                chars=LOG_CHARS,
            )
            client = AsyncKernelClient(context=context)
            client.load_connection_info(cast(Any, info))
            client.start_channels(hb=False, stdin=False)
            kernel = cls(folder, bridge, process, client, context)
            await asyncio.wait_for(kernel._greet(), READY_S)
        except BaseException as e:
            if process is not None:
                await process.stop()
            await bridge.close()
            context.destroy(linger=0)
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(e, TimeoutError):
                said = process.capture.text()[-500:] if process else ""
                raise ToolFailed(f"the kernel did not start within {READY_S:g} s: {said}") from e
            raise
        return kernel

    @property
    def alive(self) -> bool:
        """Whether it can take a cell."""
        return not self._closed and not self._process.ended

    async def run(self, code: str, capture: Capture, *, seconds: float) -> Ran:
        """Run a cell; after `seconds` it is interrupted, and the kernel killed if that does not help."""
        self._bridge.open = True
        try:
            return await self._run(code, capture, seconds=seconds)
        finally:
            self._bridge.hang_up()

    async def close(self) -> None:
        """End it with everything it started."""
        if self._closed:
            return
        self._closed = True
        await self._process.stop()
        await self._bridge.close()
        self._client.stop_channels()
        self._context.destroy(linger=0)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _run(self, code: str, capture: Capture, *, seconds: float) -> Ran:
        cell, over = asyncio.ensure_future(self._cell(code, capture)), self._process.over
        both: set[asyncio.Future[Any]] = {cell, over}
        try:
            done, _ = await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                self._interrupt()
                await asyncio.wait(both, timeout=INTERRUPT_S, return_when=asyncio.FIRST_COMPLETED)
                if not cell.done():
                    await self._process.stop("seconds")
            if over.done():
                return Ran("dead", over.result())
            return Ran("seconds") if not done else cell.result()
        except asyncio.CancelledError:
            self._interrupt()
            raise
        finally:
            cell.cancel()

    def _interrupt(self) -> None:
        self._client.control_channel.send(self._client.session.msg("interrupt_request"))

    async def _greet(self) -> None:
        """Wait until it publishes what it does, then give it its first cell."""
        first = Capture(LOG_CHARS)
        await self._hear()
        names = json.dumps(self._bridge.names)
        connect = f"tools = Tools({str(self._bridge.path)!r}, {self._bridge.token!r}, {names})"
        ran = await self._cell(f"{_INSIDE.read_text()}\n{connect}\ndel Tools, annotations, __all__\n", first)
        if ran.how != "ok":
            raise ToolFailed(f"the kernel does not take its first cell: {first.text()[-500:]}")

    async def _hear(self) -> None:
        """Wait until what it publishes arrives."""
        while True:
            if self._process.ended:
                raise ToolFailed(f"the kernel ended as it started: {self._process.capture.text()[-500:]}")
            self._client.kernel_info()
            try:
                await self._client.get_iopub_msg(timeout=POLL_S)
            except queue.Empty:
                continue
            break

    async def _listen_anew(self) -> None:
        """A message that was too large has cut the line on which it publishes: take up another."""
        channel = self._client.iopub_channel
        channel.stop()
        channel.socket = self._client.connect_iopub()
        await asyncio.wait_for(self._hear(), READY_S)

    async def _cell(self, code: str, capture: Capture) -> Ran:
        """Send one cell and take what it prints until the kernel is idle again."""
        asked = self._client.execute(code, store_history=False, allow_stdin=False, stop_on_error=False)
        reply = asyncio.ensure_future(self._reply(asked))
        try:
            while True:
                answered = reply.done()
                try:
                    message = await self._client.get_iopub_msg(timeout=QUIET_S if answered else POLL_S)
                except queue.Empty:
                    if not answered:
                        continue
                    capture.feed(_LOST)  # more than its socket holds, and the word that it is idle was dropped
                    await self._listen_anew()
                    break
                if message["parent_header"].get("msg_id") != asked:
                    continue
                if message["content"].get("execution_state") == "idle":
                    break
                capture.feed(_printed(message["msg_type"], message["content"]).encode("utf-8", "replace"))
            return Ran("ok" if await reply == "ok" else "error")
        finally:
            reply.cancel()

    async def _reply(self, asked: str) -> str:
        while True:
            message = await self._client.get_shell_msg()
            if message["parent_header"].get("msg_id") == asked:
                return str(message["content"].get("status"))


def _printed(kind: str, content: dict[str, Any]) -> str:
    """The text of a message, "" if it has none."""
    if kind == "stream":
        return str(content.get("text", ""))
    if kind in ("execute_result", "display_data"):
        return str(content.get("data", {}).get("text/plain", "")) + "\n"
    if kind == "error":
        return "\n".join(map(str, content.get("traceback", ()))) + "\n"
    return ""


def _connection(folder: Path) -> dict[str, Any]:
    """Write the connection file: sockets in `folder`, a key that signs every message."""
    info: dict[str, Any] = {
        "transport": "ipc",
        "ip": str(folder / "k"),
        "key": secrets.token_hex(32),
        "signature_scheme": "hmac-sha256",
        "kernel_name": "slate-lab",
        **{port: number for number, port in enumerate(_PORTS, 1)},
    }
    path = folder / "kernel.json"
    path.touch(0o600)
    path.write_text(json.dumps(info))
    return {**info, "key": info["key"].encode()}

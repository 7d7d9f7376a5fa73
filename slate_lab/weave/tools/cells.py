"""The tool `python`: cells in a kernel of the worker's own, started by the first and closed with the conversation.

In: the bounds and the sandbox of the lab. Out: a `Tool`. Called where the lab's tools are put together. Code in a cell
calls the worker's other tools as `tools.read(path=...)`.
"""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from slate_lab.config.tools import CommandSpec
from slate_lab.weave.tools.commands import end_words, say_unsandboxed
from slate_lab.weave.tools.kernel import Kernel
from slate_lab.weave.tools.kit import Kit, Tool, make_tool
from slate_lab.weave.tools.output import Capture
from slate_lab.weave.tools.sandbox import Sandbox

__all__ = ["lacking_packages", "python_tool"]

PACKAGES = ("jupyter_client", "ipykernel")


def lacking_packages() -> str:
    """Why the tool cannot run here, and what to do; "" if it can."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    return f"python needs {' and '.join(missing)}: pip install 'slate-lab[python]'" if missing else ""


class _Seat:
    """The kernel of one kit, one cell at a time."""

    def __init__(self) -> None:
        self.kernel: Kernel | None = None
        self.turn = asyncio.Lock()


def python_tool(spec: CommandSpec, sandbox: Sandbox, *, readable: tuple[Path, ...] = ()) -> Tool:
    """The tool that runs cells within `spec`."""
    seats: WeakKeyDictionary[Kit, _Seat] = WeakKeyDictionary()

    async def python(kit: Kit, code: str) -> str:
        """Run Python code in the workspace. Returns what it prints and the value of the last line.

        Args:
            code: the source
        """
        say_unsandboxed(kit, sandbox)
        seat = seats.setdefault(kit, _Seat())
        async with seat.turn:
            kernel = await _kernel(kit, seat)
            capture = Capture(min(spec.output_chars, kit.max_chars))
            ran = await kernel.run(code, capture, seconds=spec.seconds)
            note = ""
            if ran.how == "seconds":
                note = f"(interrupted after {spec.seconds:g} s; its variables are kept)"
            elif ran.ended is not None:
                seat.kernel = None
                await kernel.close()
                end = end_words(ran.ended, spec) or "(the code ended it)"
                note = f"{end}\n(the kernel is gone with its variables; the next call starts a new one)"
        return "\n".join(filter(None, (capture.text().rstrip() or ("" if note else "(no output)"), note)))

    async def _kernel(kit: Kit, seat: _Seat) -> Kernel:
        if seat.kernel is not None and seat.kernel.alive:
            return seat.kernel
        if seat.kernel is not None:
            await seat.kernel.close()
        kernel = await Kernel.start(kit, spec, sandbox, readable=readable)
        try:
            kit.on_close(kernel.close)
        except BaseException:
            await kernel.close()
            raise
        seat.kernel = kernel
        return kernel

    tool = make_tool(python)
    more = (
        f"Variables stay for the next call. Code may call the other tools, like tools.read(path). "
        f"It may take {spec.seconds:g} s. {sandbox.words}."
    )
    return replace(tool, spec=replace(tool.spec, description=f"{tool.spec.description} {more}"))

"""The tool `bash`: one command line, ended as a whole with everything it started.

In: the bounds and the sandbox of the lab. Out: a `Tool`. Called where the lab's tools are put together.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from msgspec.structs import replace

from slate_lab.config.tools import CommandSpec
from slate_lab.weave.tools.commands import closing_with, end_words, room_of, say_unsandboxed
from slate_lab.weave.tools.kit import Kit, Tool, make_tool
from slate_lab.weave.tools.process import Process
from slate_lab.weave.tools.sandbox import Sandbox
from slate_lab.weave.tools.workspace import ToolFailed

__all__ = ["bash_tool"]

MAX_COMMAND = 100_000
"""The longest command line, in bytes: the system takes no longer word."""


def bash_tool(spec: CommandSpec, sandbox: Sandbox, *, readable: tuple[Path, ...] = ()) -> Tool:
    """The tool that runs command lines within `spec`."""
    shell = shutil.which("bash") or shutil.which("sh") or "/bin/sh"

    async def bash(kit: Kit, command: str) -> str:
        """Run a shell command in the workspace. Returns what it prints.

        Args:
            command: the command line
        """
        if len(command.encode("utf-8", "replace")) > MAX_COMMAND or "\0" in command:
            raise ToolFailed(f"the command is over {MAX_COMMAND} bytes or has a zero byte: run it from a script file")
        say_unsandboxed(kit, sandbox)
        process = await Process.start(
            [shell, "-c", command],
            room_of(kit, readable=readable),
            sandbox=sandbox,
            cpu_s=spec.cpu_s,
            chars=min(spec.output_chars, kit.max_chars),
        )
        withdraw = await closing_with(kit, process)
        try:
            ended = await process.wait(spec.seconds)
        finally:
            withdraw()
        text = process.capture.text().rstrip()
        return "\n".join(filter(None, (text or "(no output)", end_words(ended, spec))))

    tool = make_tool(bash)
    more = f"It may take {spec.seconds:g} s; what it leaves in the background ends with it. {sandbox.words}."
    return replace(tool, spec=replace(tool.spec, description=f"{tool.spec.description} {more}"))

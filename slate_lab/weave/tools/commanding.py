"""The tools that run commands, `bash` and `python`, as this lab has them: bounds, sandbox, what they lack here.

In: what `tools` in the configuration says. Out: tools by name. Called once, when a lab opens.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from slate_lab.config.tools import ToolsSpec
from slate_lab.weave.tools.cells import lacking_packages, python_tool
from slate_lab.weave.tools.kit import Tool
from slate_lab.weave.tools.sandbox import Sandbox, find_sandbox
from slate_lab.weave.tools.shell import bash_tool

__all__ = ["command_tools"]


def command_tools(spec: ToolsSpec, root: Path) -> dict[str, Tool]:
    """The tools `bash` and `python` of the project in `root`."""
    sandbox = find_sandbox(spec.sandbox)
    readable = tuple((root / path).resolve() for path in spec.readable)
    bash = bash_tool(spec.bash, sandbox, readable=readable)
    python = python_tool(spec.python, sandbox, readable=readable)
    return {
        "bash": replace(bash, lacking=_lacking(spec, sandbox, "bash")),
        "python": replace(python, lacking=_lacking(spec, sandbox, "python") or lacking_packages()),
    }


def _lacking(spec: ToolsSpec, sandbox: Sandbox, name: str) -> str:
    if sandbox.bwrap or spec.sandbox != "require":
        return ""
    return f"{name} needs a sandbox (tools.sandbox: require), and {sandbox.why}: install bubblewrap, or set auto"

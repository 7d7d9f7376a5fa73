"""Functions that the configuration names (`tools.functions`), as tools of workers.

In: `module:function` texts and the project. Out: a `Tool` per function, one that says why it is `lacking` where the
function cannot be had. A module lies in the project's `tools/` folder, and runs only if the project is trusted, or is
installed. Called by `toolbox` when tools are first needed.
"""

from __future__ import annotations

import importlib
import sysconfig
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from slate_lab.config import Trust
from slate_lab.config.modules import ProjectModules
from slate_lab.errors import ConfigError, LabError, Place, Problem
from slate_lab.records import ToolSpec
from slate_lab.weave.tools.function import function_tool
from slate_lab.weave.tools.kit import Kit, Tool, ToolFailed
from slate_lab.weave.units.names import bad_names, collisions, same_name

__all__ = ["FOLDER", "Functions", "check_names", "lacking"]

FOLDER = "tools"


class Functions:
    """The functions of one lab.

    Args:
        trust: the project's.
        names: `module:function` each.
    """

    def __init__(self, trust: Trust, names: Sequence[str]) -> None:
        self._trust, self.names = trust, tuple(names)
        self._modules: ProjectModules | None = None
        self._loaded: dict[str, Tool] | None = None

    def load(self) -> dict[str, Tool]:
        """The tools, by the names of the functions; the first call loads them."""
        if self._loaded is None:
            self._loaded = {name.partition(":")[2]: self._tool(name) for name in self.names}
        return self._loaded

    def fault(self, name: str) -> str:
        """Why a function cannot be used; empty if it can."""
        return self.load()[name.partition(":")[2]].lacking

    def close(self) -> None:
        """Forget the project's modules."""
        if self._modules is not None:
            self._modules.close()

    def _tool(self, name: str) -> Tool:
        module, _, function = name.partition(":")
        try:
            return function_tool(getattr(self._module(module), function), name=function)
        except (Exception, SystemExit) as e:  # noqa: BLE001  foreign code: it spoils its own tool only
            said = e.message if isinstance(e, LabError) else f"{type(e).__name__}: {e}"
            return lacking(function, f"the function {name} of tools.functions cannot be used: {said[:300]}")

    def _module(self, name: str) -> Any:
        self._modules = self._modules or ProjectModules(self._trust, FOLDER)
        if self._modules.file(name) is not None:
            return self._modules.load(name)
        self._refuse_loose(name)
        return importlib.import_module(name)

    def _refuse_loose(self, name: str) -> None:
        """Code of the project that trust does not look at does not run, however Python would find it."""
        spec = find_spec(name.partition(".")[0])
        file = Path(spec.origin).resolve() if spec and spec.origin and spec.has_location else None
        if file is None or not file.is_relative_to(self._trust.root):
            return
        sites = {Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib", "stdlib")}
        if not any(file.is_relative_to(site) for site in sites):
            raise LabError(f"{file.name} lies in the project: move it to {FOLDER}/", code="loose_module")


def lacking(name: str, why: str) -> Tool:
    """A tool that cannot be used, and says why to whoever asks for it."""

    def run(kit: Kit, arguments: dict[str, Any]) -> str:
        raise ToolFailed(why)

    return Tool(ToolSpec(name=name, description=why, parameters={"type": "object"}), run, lacking=why)


def check_names(functions: Sequence[str], taken: Iterable[str]) -> None:
    """Refuse functions whose names are taken.

    Raises:
        ConfigError: one names a tool of the lab, a built-in or another function, or is no name for a tool.
    """
    seen = {same_name(name) for name in taken}
    problems = []
    for index, text in enumerate(functions):
        name = text.partition(":")[2]
        if collisions([name], seen) or bad_names([name]):
            message = f"{name!r} is the name of another tool, or none for a tool: give the function a name of its own"
            problems.append(Problem("tool_collision", message, Place(path=f"tools.functions[{index}]")))
        seen.add(same_name(name))
    if problems:
        raise ConfigError(problems)

"""Code of a project, loaded from the very bytes that were trusted.

In: a folder of the project and its `Trust`. Out: modules under private names, so that two labs, or two units with a
`helpers.py` each, never see each other's; a project's folder never joins `sys.path`. Byte-code caches are neither read
nor written: a `.pyc` in a cloned project can say anything. Called by whoever loads units or tools of a project.
"""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType

from slate_lab.config.trust import Trust

__all__ = ["ProjectModules"]

_numbers = itertools.count(1)


class ProjectModules(MetaPathFinder):
    """The modules below `folder` (relative to the project), importable while it is not closed."""

    def __init__(self, trust: Trust, folder: str) -> None:
        self._trust, self._folder = trust, trust.root / folder
        self._prefix = f"_slate_lab_{folder.replace('/', '_')}_{next(_numbers)}"
        package = ModuleType(self._prefix)
        package.__path__ = []
        sys.modules[self._prefix] = package
        sys.meta_path.insert(0, self)

    def load(self, name: str) -> ModuleType:
        """The module `name` (`search`, `web.fetch`), run on its first load; raises what its code raises."""
        return importlib.import_module(f"{self._prefix}.{name}")

    def file(self, name: str) -> Path | None:
        """The source file of a module."""
        base = self._folder.joinpath(*name.split("."))
        return next((f for f in (base / "__init__.py", base.with_name(f"{base.name}.py")) if f.is_file()), None)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Python's question for a module; answered for our own prefix only."""
        if not fullname.startswith(f"{self._prefix}."):
            return None
        file = self.file(fullname[len(self._prefix) + 1 :])
        if file is None:
            raise ModuleNotFoundError(f"no module {fullname[len(self._prefix) + 1 :]!r} in {self._folder.name}/")
        is_package = file.name == "__init__.py"
        spec = spec_from_loader(fullname, _Source(self._trust, file), origin=str(file), is_package=is_package)
        if spec is not None:
            spec.has_location = True
        return spec

    def close(self) -> None:
        """Forget the modules; what still holds one keeps it."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for name in [n for n in sys.modules if n == self._prefix or n.startswith(f"{self._prefix}.")]:
            del sys.modules[name]


class _Source(Loader):
    """Runs one file as it was trusted."""

    def __init__(self, trust: Trust, file: Path) -> None:
        self._trust, self._file = trust, file

    def exec_module(self, module: ModuleType) -> None:
        """Compile and run."""
        code = compile(self._trust.read(self._file), str(self._file), "exec", dont_inherit=True)
        exec(code, vars(module))  # noqa: S102  the project is trusted, and these are the bytes that were

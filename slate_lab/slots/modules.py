"""The code of slots, loaded so that no two slots meet: each in a package of its own, once per content revision.

In: a checked slot and a revision of its sources. Out: its function. Called by `pipeline`. Inside a slot's folder
imports are relative (`from . import words`); `<surface>/lib/` is `lib` for every slot (`from lib.text import cut`),
also under the surface's own name (`from agent.lib.text import cut`), and the same module for all of them. Nothing is
put on `sys.path`; what a new revision replaces is taken out of `sys.modules`.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import importlib.abc
import itertools
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from slate_lab.errors import LabError
from slate_lab.slots.surface import Slot

__all__ = ["Modules"]

_numbers = itertools.count(1)
Import = Callable[..., ModuleType]
_CHANGED = "{} is not the file that was looked at when the turn began: the next turn looks again"


class Modules(importlib.abc.MetaPathFinder):
    """The modules of one surface's slots.

    Attributes:
        loaded: how often code was loaded, for whoever wants to know that a turn loads nothing.
    """

    def __init__(self) -> None:
        self.prefix = f"_slate_slots_{next(_numbers)}"
        self.loaded = 0
        self._roots: dict[str, Path] = {}
        self._files: dict[str, Path] = {}
        self._kept: dict[str, tuple[str, str, Callable[[Any], Any]]] = {}
        self._lib = ""
        self._lock = threading.RLock()
        self._known: Mapping[str, str] = {}
        self._builtins: dict[str, Any] | None = None
        self._surface: Path | None = None

    def function(self, slot: Slot, revision: str) -> Callable[[Any], Any] | None:
        """The function of a slot if this revision is loaded."""
        kept = self._kept.get(slot.id)
        return kept[2] if kept is not None and kept[0] == revision else None

    def load(
        self, slot: Slot, revision: str, *, surface: Path, shared: str, files: Mapping[str, str]
    ) -> Callable[[Any], Any]:
        """Load a slot's code and return its function; blocking, and it may raise whatever the code raises.

        Args:
            slot: checked.
            revision: of everything the slot may import.
            surface: the surface's folder, which holds `lib`.
            shared: the revision of `lib`.
            files: what may be loaded, by its SHA-256; a file that is another by now is not run.
        """
        with self._lock:
            found = self.function(slot, revision)
            if found is not None:
                return found
            self._known = files
            self._share(surface, shared)
            mark = hashlib.sha256(f"{slot.phase}/{slot.id} {revision}".encode()).hexdigest()[:12]
            package = f"{self.prefix}.{re.sub(r'[^A-Za-z0-9]', '_', slot.id)}_{mark}"
            self._roots[package] = slot.folder
            try:
                function = self._entry(slot, package)
            except BaseException:
                self._drop(package)
                raise
            old = self._kept.get(slot.id)
            self._kept[slot.id] = (revision, package, function)
            self.loaded += 1
            if old is not None and old[1] != package:
                self._drop(old[1])
            return function

    def close(self) -> None:
        """Take out everything that was loaded."""
        with self._lock:
            self._drop(self.prefix)
            self._kept.clear()
            if self in sys.meta_path:
                sys.meta_path.remove(self)

    def keep(self, ids: Sequence[str]) -> None:
        """Take out the code of slots that are there no more."""
        with self._lock:
            for id in [id for id in self._kept if id not in ids]:
                self._drop(self._kept.pop(id)[1])

    def _entry(self, slot: Slot, package: str) -> Callable[[Any], Any]:
        entry = slot.entrypoint
        lib = self._surface / "lib" if self._surface else None
        if entry.module is not None:
            name = f"{package}.{entry.module}"
        elif lib is not None and entry.file.resolve().is_relative_to(lib.resolve()):
            name = ".".join([self._lib, *entry.file.resolve().relative_to(lib.resolve()).with_suffix("").parts])
        else:
            name = f"{package}.{entry.file.stem}_"
            self._files[name] = entry.file
        module = importlib.import_module(name)
        function: Callable[[Any], Any] | None = getattr(module, entry.function, None)
        if not callable(function):
            raise LabError(f"{entry.function} of the slot {slot.id} is no function", code="entrypoint")
        return function

    def _share(self, surface: Path, shared: str) -> None:
        """The root package and `lib` at this revision."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
            self._roots[self.prefix] = surface
        self._surface = surface
        lib = f"{self.prefix}.lib_{shared[:12]}"
        if lib != self._lib:
            if self._lib:
                self._drop(self._lib)
            self._lib = lib
            self._roots[lib] = surface / "lib"
            self._builtins = {**vars(builtins), "__import__": _importer(lib, surface.name, str(surface))}

    def _drop(self, package: str) -> None:
        inner = f"{package}."
        for names in (sys.modules, self._roots, self._files):
            for name in [n for n in list(names) if n == package or n.startswith(inner)]:
                names.pop(name, None)
        parent, _, child = package.rpartition(".")
        if parent in sys.modules:
            vars(sys.modules[parent]).pop(child, None)

    # the import system

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where a module of a slot lies; names of others are left to others."""
        if fullname != self.prefix and not fullname.startswith(f"{self.prefix}."):
            return None
        if fullname == self.prefix:
            return _folder(fullname, self._roots.get(fullname))
        if fullname in self._roots:
            return self._package(fullname, self._roots[fullname])
        if fullname in self._files:
            return self._source(fullname, self._files[fullname])
        for folder in path or ():
            stem = Path(folder) / fullname.rpartition(".")[2]
            if stem.is_dir():
                return self._package(fullname, stem)
            if stem.with_name(f"{stem.name}.py").is_file():
                return self._source(fullname, stem.with_name(f"{stem.name}.py"))
        return None

    def _package(self, name: str, folder: Path) -> ModuleSpec | None:
        start = folder / "__init__.py"
        if not start.is_file():
            return _folder(name, folder)
        return self._source(name, start, within=folder)

    def _source(self, name: str, file: Path, *, within: Path | None = None) -> ModuleSpec | None:
        assert self._builtins is not None
        loader = _Loader(name, str(file), self._builtins, self._known.get(str(file)))
        places = None if within is None else [str(within)]
        return spec_from_file_location(name, file, loader=loader, submodule_search_locations=places)


class _Loader(SourceFileLoader):
    """Compiles the file as it is now; no cache of bytecode can be older than an edit."""

    def __init__(self, name: str, path: str, names: Mapping[str, Any], known: str | None) -> None:
        super().__init__(name, path)
        self._names, self._sha = names, known

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        source = self.get_data(path)
        if hashlib.sha256(source).hexdigest() != self._sha:
            raise ImportError(_CHANGED.format(Path(path).name), name=fullname, path=path)
        code: CodeType = self.source_to_code(source, path)
        return code

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = self._names
        super().exec_module(module)


def _folder(name: str, folder: Path | None) -> ModuleSpec | None:
    """A package without code of its own."""
    if folder is None:
        return None
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    return spec


def _importer(lib: str, surface: str, folder: str) -> Import:
    """`__import__` for the code of slots: `lib` and `<surface>.lib` are the surface's own."""
    heads = {"lib": "lib", f"{surface}.lib": f"{surface}.lib"}

    def find(name: str, space: Any = None, local: Any = None, wanted: Any = (), level: int = 0) -> ModuleType:
        head = next((h for h in heads if name == h or name.startswith(f"{h}.")), None) if level == 0 else None
        if head is None or not (Path(folder) / "lib").is_dir():
            return builtins.__import__(name, space, local, wanted, level)
        found = importlib.import_module(lib + name[len(head) :])
        if wanted:
            for child in wanted:
                if child != "*" and not hasattr(found, child) and hasattr(found, "__path__"):
                    importlib.import_module(f"{found.__name__}.{child}")
            return found
        top = sys.modules[lib]
        if head == "lib":
            return top
        outer = ModuleType(surface)
        outer.lib = top  # type: ignore[attr-defined]
        return outer

    return find

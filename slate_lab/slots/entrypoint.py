"""A slot's entrypoint: which file and which function, checked without running anything.

In: the words of a manifest. Out: an `Entrypoint`, or `ValueError` with what to change. Called by `surface`.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from slate_lab.config.values import shown
from slate_lab.records import near

__all__ = ["Entrypoint", "find_entrypoint"]

_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
MAX_BYTES = 1_000_000
"""The largest file that holds an entrypoint."""
_Def = ast.FunctionDef | ast.AsyncFunctionDef


class Entrypoint(Struct, frozen=True):
    """A function in a file; `module` is its dotted name inside the slot, None for a file elsewhere in the project."""

    file: Path
    function: str
    module: str | None


def find_entrypoint(words: str, *, folder: Path, project: Path) -> Entrypoint:
    """The entrypoint that `words` name, its file and function checked by reading.

    Args:
        words: `module:function`, or `path/to/file.py:function`.
        folder: the slot's folder.
        project: the project's root, which `path` is relative to.

    Raises:
        ValueError: malformed, leading outside, not there, not Python, or without the function.
    """
    where, colon, function = words.rpartition(":")
    if not colon or not where or not function.isidentifier():
        raise ValueError(f"{shown(words)} is no entrypoint: write module:function, or path/to/file.py:function")
    if where.endswith(".py"):
        file, module, within, inside = project / where, None, project, "the project"
    elif _MODULE.fullmatch(where):
        stem = folder.joinpath(*where.split("."))
        file = stem / "__init__.py" if stem.is_dir() and not stem.with_suffix(".py").exists() else Path(f"{stem}.py")
        module, within, inside = where, folder, "the slot's folder"
    else:
        raise ValueError(f"{shown(where)} is no module: write module:function, or path/to/file.py:function")
    real = Path(os.path.realpath(file))
    if ".." in Path(where).parts or Path(where).is_absolute() or not real.is_relative_to(os.path.realpath(within)):
        raise ValueError(f"{shown(where)} leads outside {inside}: keep it inside, without `..` or links out")
    if not file.is_file():
        raise ValueError(f"the file {file.name} of {shown(words)} does not exist in {_place(file, project)}")
    _check(file, function)
    return Entrypoint(file, function, module)


def _place(file: Path, project: Path) -> str:
    return str(file.parent.relative_to(project)) if file.parent.is_relative_to(project) else str(file.parent)


def _check(file: Path, function: str) -> None:
    """The function is bound at the top of the file, and takes what it is handed."""
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES // 1000} kB: put data into files of their own")
        tree = ast.parse(file.read_bytes(), str(file))
    except SyntaxError as e:
        raise ValueError(f"{file.name}:{e.lineno or 1} is no Python: {e.msg}") from e
    except (RecursionError, MemoryError) as e:
        raise ValueError(f"{file.name} is nested too deeply to be read") from e
    except (OSError, ValueError) as e:
        raise ValueError(f"{file.name} cannot be read: {e}") from e
    bound = dict(_bound(tree.body))
    if function not in bound:
        close = near(function, bound, limit=1)
        hint = f": did you mean {close[0]}?" if close else f": write `def {function}(ctx): ...`"
        raise ValueError(f"{file.name} defines no function {function}{hint}")
    found = bound[function]
    if isinstance(found, ast.ClassDef):
        raise ValueError(f"{file.name}:{found.lineno}: {function} is a class: the entrypoint must be a function")
    if isinstance(found, _Def):
        args = found.args
        given = len(args.posonlyargs) + len(args.args)
        needed = given - len(args.defaults)
        keywords = sum(d is None for d in args.kw_defaults)
        if needed > 1 or keywords or not (given or args.vararg):
            raise ValueError(f"{file.name}:{found.lineno}: {function} must take one argument: def {function}(ctx)")


def _bound(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """The names that a module binds, with the statement that binds them last; branches count."""
    for node in body:
        if isinstance(node, _Def | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name.partition(".")[0], node) for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((t.id, node) for t in targets if isinstance(t, ast.Name))
        else:
            for name in ("body", "orelse", "finalbody"):
                yield from _bound(getattr(node, name, None) or [])
            for handler in getattr(node, "handlers", ()):
                yield from _bound(handler.body)

"""Projects with units in them, and labs that load them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import slate_lab as sl

Write = Callable[..., None]


@pytest.fixture
def write(project: Path) -> Write:
    """Writes modules below units/: `write(search=text)`, `write({"web/__init__.py": text})`."""

    def write_units(files: dict[str, str] | None = None, **modules: str) -> None:
        for name, text in {**(files or {}), **{f"{n}.py": t for n, t in modules.items()}}.items():
            path = project / "units" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))

    return write_units


@pytest.fixture
def units_lab(project: Path) -> Iterator[Callable[..., sl.Lab]]:
    """Opens labs that load the units of the project: `units_lab(script, patterns, **config)`."""
    opened: list[sl.Lab] = []

    def open_one(script: Any = (), patterns: tuple[str, ...] = (".",), *, trust: bool = True, **config: Any) -> sl.Lab:
        model = script if hasattr(script, "reply") else sl.ScriptedModel(script)
        config = {"workerExtensions": list(patterns), "compressor": {"mode": "fixed"}, **config}
        lab = sl.Lab.open(project, store=":memory:", config=config, models=model, env={}, trust=trust)
        opened.append(lab)
        return lab

    yield open_one
    for lab in opened:
        lab.close()

"""A core in a folder of its own, and benches on it that are closed at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.slots.making import Bench, Core


@pytest.fixture
def core(tmp_path: Path) -> Core:
    """A project with an empty surface."""
    return Core(tmp_path / "project")


@pytest.fixture
def bench(core: Core) -> Iterator[Callable[..., Bench]]:
    """Makes benches on the core."""
    made: list[Bench] = []

    def make(**options: Any) -> Bench:
        made.append(Bench(core, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()

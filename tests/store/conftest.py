"""A store on disk for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slate_lab.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a project keeps its store."""
    return tmp_path / ".slate" / "slate.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """An opened store on disk."""
    with Store.open(path) as opened:
        yield opened

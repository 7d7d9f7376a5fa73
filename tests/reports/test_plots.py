"""Plots: what they draw, what they say to those who do not see them, and what they need."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from slate_lab import Lab, ScriptedModel
from slate_lab.errors import LabError

FOLDERS = [{"name": p.lower(), "tokenLimit": 23, "evictionPolicy": p} for p in ("FIFO", "LRU", "reject")]


@pytest.fixture
def lab(tmp_path: Path) -> Any:
    """A lab with one folder of each policy."""
    slates = [{"title": "M", "folders": FOLDERS}]
    with Lab.open(tmp_path, store=":memory:", config={"slates": slates}, models=ScriptedModel(["x"])) as opened:
        yield opened


def test_lives_say_from_which_write_to_which_a_block_stayed(lab: Any) -> None:
    """FIFO drops the oldest write, LRU the one that was not read, and a refused write never lived."""
    for n in range(4):
        for folder in ("fifo", "lru", "reject"):
            lab.write(f"M/{folder}/{'kept' if n == 0 else 'log'}.md", f"the port of service {n} is {8000 + n}")
            lab.read(f"M/{folder}/kept.md", fallback="")
    lives = lab.frames.lives().set_index(["folder", "written"])
    assert list(lives.loc["fifo", "fate"]) == ["left", "left", "still there", "still there"]
    assert list(lives.loc["lru", "fate"]) == ["still there", "left", "left", "still there"]
    assert list(lives.loc["reject", "fate"]) == ["still there", "still there", "refused", "refused"]
    assert list(lives.loc["fifo", "until"]) == [3, 4, 5, 5]
    assert list(lives.loc["lru", "until"]) == [5, 3, 4, 5]


def test_a_plot_is_a_picture_with_its_words(lab: Any) -> None:
    """The picture stands in the page itself, loads nothing, and its text says the same."""
    lab.write("M/fifo/a.md", "one")
    lab.write("M/reject/a.md", "<b>two</b>")
    picture = lab.frames.plot_memory(slate="M")
    bundle = picture._repr_mimebundle_()
    assert bundle["text/plain"] == ("How long each block stayed in memory. fifo: 1 still there; reject: 1 still there.")
    data = re.search(r'src="data:image/svg\+xml;base64,([^"]+)" alt="How long', bundle["text/html"])
    assert data
    svg = base64.b64decode(data[1]).decode()
    assert svg.startswith("<svg")
    assert not re.search(r'(?:href|src)="http', svg)


def test_nothing_to_draw_is_said(lab: Any) -> None:
    """Before the first write there is no picture, and the error says what to do."""
    with pytest.raises(LabError, match="write to a slate first"):
        lab.frames.plot_memory()

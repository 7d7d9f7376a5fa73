"""Doubles enter by the front door: a scripted model, a folder of its own, no key in the environment."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import slate_lab as sl


@pytest.fixture(autouse=True, scope="session")
def an_interrupt_arrives() -> None:
    """Ctrl-C reaches tests and what they start, also where a shell started the suite behind it with SIGINT ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def no_home_of_the_developer(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads the configuration or the keys of the person who runs it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("home")))
    for name in [n for n in os.environ if n.endswith("_API_KEY") or n.startswith("SLATE_LAB_REPLAY")]:
        monkeypatch.delenv(name)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project folder with two notes."""
    notes = tmp_path / "project" / "notes"
    notes.mkdir(parents=True)
    (notes / "a.md").write_text("deploy 4.2.1 at 09:14\nerror rate rose to 7.5 % at 09:16\nrolled back at 09:40\n")
    (notes / "b.md").write_text("queue depth 18,000 at 09:20\nworker restarts: 3\n")
    return tmp_path / "project"


@pytest.fixture
def open_lab(project: Path) -> Iterator[Callable[..., sl.Lab]]:
    """Opens labs on the project that are closed at the end: `open_lab(script, **config)`."""
    opened: list[sl.Lab] = []

    def open_one(script: Any = (), *, store: Any = ":memory:", **config: Any) -> sl.Lab:
        model = script if hasattr(script, "reply") else sl.ScriptedModel(script)
        lab = sl.Lab.open(project, store=store, config=config, models=model, env={})
        opened.append(lab)
        return lab

    yield open_one
    for lab in opened:
        lab.close()

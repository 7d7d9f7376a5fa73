"""Slates over a store, with blocks whose size is the number of their words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slate_lab.config import LabConfig, SlateSpec
from slate_lab.slates import Slates
from slate_lab.store import Store


def words(text: str) -> int:
    """The encoding of these tests: a word is a token."""
    return len(text.split())


def sized(name: str, tokens: int) -> str:
    """A block of this many words, recognized by the first."""
    return " ".join([name, *["x"] * (tokens - 1)])


def specs(**folders: Any) -> Sequence[SlateSpec]:
    """One slate `M` with these folders: `facts={"tokenLimit": 10}`."""
    plain = [{"name": name, **spec} for name, spec in folders.items()]
    return LabConfig.model_validate({"slates": [{"title": "M", "folders": plain}]}).slates


def open_slates(store: Store, declared: Sequence[SlateSpec], **options: Any) -> Slates:
    """The slates of a store, as the lab opens them, but counting words."""
    options = {"count": words, "encoding": "words", "clock": lambda: 1, **options}
    return Slates(declared, store.blocks, **options)


def opened(path: Path | str = ":memory:", **folders: Any) -> tuple[Store, Slates]:
    """A store and one slate `M` in it."""
    store = Store.open(path)
    return store, open_slates(store, specs(**folders))

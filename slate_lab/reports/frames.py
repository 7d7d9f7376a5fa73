"""Frames: the store as pandas, in declared columns that are the same for no rows as for many.

In: an opened store. Out: frames, their schema, a cost summary, CSV that a spreadsheet cannot mistake for formulas.
Called by `lab.frames` and by the verb `frames`. Every frame reads only the columns it declares.
"""

from __future__ import annotations

import csv
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from slate_lab.errors import LabError
from slate_lab.records import near
from slate_lab.reports.columns import Declared, build
from slate_lab.reports.declared import FRAMES, SUMMARY
from slate_lab.reports.lives import LIVES
from slate_lab.store import Store

if TYPE_CHECKING:
    from slate_lab.reports.plots import Picture

__all__ = ["Frames", "guard_formulas"]

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Frames:
    """The frames of one store: `frames.threads()`, `frames.costs()`, ...; each call reads the store again."""

    names: tuple[str, ...] = tuple(FRAMES)

    def __init__(self, store: Store) -> None:
        self._store = store

    def threads(self) -> pd.DataFrame:
        """One row per thread, in the order of their ids."""
        return self._read(FRAMES["threads"])

    def episodes(self) -> pd.DataFrame:
        """One row per episode: sizes, loss, invention, cost."""
        return self._read(FRAMES["episodes"])

    def calls(self) -> pd.DataFrame:
        """One row per request to a model, with its tokens in disjoint buckets."""
        return self._read(FRAMES["calls"])

    def attempts(self) -> pd.DataFrame:
        """One row per HTTP exchange."""
        return self._read(FRAMES["attempts"])

    def costs(self) -> pd.DataFrame:
        """One row per attempt, joined with the kind of call, the thread, the model, and whether it was recorded."""
        return self._read(FRAMES["costs"])

    def context(self) -> pd.DataFrame:
        """One row per part of a thread's brief: source, tokens, share of the window."""
        return self._read(FRAMES["context"])

    def events(self) -> pd.DataFrame:
        """One row per event."""
        return self._read(FRAMES["events"])

    def folders(self) -> pd.DataFrame:
        """One row per folder of a slate: fill, limit, policy. Touches nothing, as the two below."""
        return self._read(FRAMES["folders"])

    def blocks(self) -> pd.DataFrame:
        """One row per live block of a slate, with its turn to leave and its text."""
        return self._read(FRAMES["blocks"])

    def evictions(self) -> pd.DataFrame:
        """One row per block that left a slate: when, by which policy, because of which write, what it said."""
        return self._read(FRAMES["evictions"])

    def slots(self) -> pd.DataFrame:
        """One row per thing that happened to a slot in a turn."""
        return self._read(FRAMES["slots"])

    def summary(self) -> pd.DataFrame:
        """Cost by model and thread type. A group with an unpriced call has no cost, only what is known of it."""
        return self._read(SUMMARY)

    def lives(self) -> pd.DataFrame:
        """One row per block that was ever written and per refused write: from which write to which it stayed."""
        return self._read(LIVES)

    def plot_memory(self, *, slate: str | None = None) -> Picture:
        """How long each block stayed in each folder, as a still picture.

        Args:
            slate: only this slate's folders.

        Raises:
            LabError: nothing was ever written, or the extra `report` is missing.
        """
        from slate_lab.reports.plots import memory_plot

        lives = self.lives()
        return memory_plot(lives if slate is None else lives[lives["slate"] == slate])

    def schema(self, name: str) -> pd.DataFrame:
        """The columns of the frame `name`: name, dtype, unit, meaning, and the words of a category.

        Raises:
            LabError: there is no such frame; near names are listed.
        """
        columns = [(c.name, c.dtype, c.unit, c.meaning, ", ".join(c.words)) for c in _declared(name).columns]
        return pd.DataFrame(columns, columns=["name", "dtype", "unit", "meaning", "words"], dtype="string")

    def to_csv(self, name: str, path: str | Path) -> Path:
        """Write the frame `name` as CSV; a text that a spreadsheet would run as a formula gets a `'` before it.

        Raises:
            LabError: there is no such frame.
        """
        target = Path(path)
        guard_formulas(self._read(_declared(name))).to_csv(target, index=False, quoting=csv.QUOTE_NONNUMERIC)
        return target

    def _read(self, declared: Declared) -> pd.DataFrame:
        with _uncollected():
            _, rows = self._store.query(declared.sql)
            return build(declared, rows)

    def __repr__(self) -> str:
        return f"<Frames {', '.join(self.names)}, summary; schema(name) says what each column means>"


@contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage collection: rows by the hundred thousand hold no cycles, and looking for some takes a third longer."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def guard_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """A copy in which no text begins like a formula."""
    guarded = frame.copy()
    for name in guarded.columns:
        if guarded[name].dtype == "string":
            risky = guarded[name].str.startswith(_FORMULA).fillna(False).astype(bool)
            guarded[name] = guarded[name].where(~risky, "'" + guarded[name])
    return guarded


def _declared(name: str) -> Declared:
    derived = {frame.name: frame for frame in (SUMMARY, LIVES)}
    found = derived.get(name) or FRAMES.get(name)
    if found is None:
        known = [*FRAMES, *derived]
        raise LabError(f"there is no frame {name!r}: {', '.join(near(name, known) or known)}", code="unknown_frame")
    return found

"""What a column of a frame is: name, kind, unit, meaning, and how it is read; and typed values from rows.

In: declared columns and the rows of a query. Out: a pandas frame whose dtypes do not depend on the rows, 0 or many.
Called by `frames`; the columns themselves stand in `declared`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from slate_lab.errors import StoreError

__all__ = ["Column", "Declared", "Kind", "build", "money", "seconds", "word"]

Cells = np.ndarray[Any, np.dtype[np.object_]]
Whole = np.ndarray[Any, np.dtype[np.int64]]
Absent = np.ndarray[Any, np.dtype[np.bool_]]
Kind = Literal["text", "joined", "exact", "word", "count", "flag", "time", "seconds", "number", "usd"]

_DTYPES: dict[Kind, str] = {
    "text": "string",
    "joined": "string",
    "exact": "string",
    "word": "category",
    "count": "Int64",
    "flag": "boolean",
    "time": "datetime64[ns, UTC]",
    "seconds": "float64",
    "number": "float64",
    "usd": "float64",
}


@dataclass(frozen=True)
class Column:
    """One declared column.

    Attributes:
        kind: decides the dtype; absent is NA, NaT or NaN, never 0 or an empty text.
        meaning: one sentence for the reader.
        unit: `tokens`, `s`, `USD`, ...; empty where there is none.
        words: for the kind `word`, every value it can have: the fixed categories.
        reads: what is read from the store, as SQL; the name if empty. Several make one value: a `count` adds what is
            known, `joined` puts a `/` between, `seconds` are from the first to the second (both nanoseconds).
    """

    name: str
    kind: Kind
    meaning: str
    unit: str = ""
    words: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()

    @property
    def dtype(self) -> str:
        """The pandas dtype, as text."""
        return _DTYPES[self.kind]

    @property
    def sources(self) -> tuple[str, ...]:
        """The SQL expressions it is made of."""
        return self.reads or (self.name,)


@dataclass(frozen=True)
class Declared:
    """One frame: what a row is, its columns, and the SQL behind `FROM`, with the order of the rows."""

    name: str
    row: str
    columns: tuple[Column, ...]
    source: str

    @property
    def reads(self) -> tuple[str, ...]:
        """Every expression that a column needs, once."""
        return tuple(dict.fromkeys(source for column in self.columns for source in column.sources))

    @property
    def sql(self) -> str:
        """The query that reads exactly what the columns need; what can be computed from that is computed here."""
        return f"SELECT {', '.join(self.reads)} FROM {self.source}"  # noqa: S608 - declared names only


def word(name: str, words: Sequence[str], meaning: str, *reads: str) -> Column:
    """A column of fixed categories."""
    return Column(name, "word", meaning, words=tuple(words), reads=reads)


def seconds(name: str, start: str, end: str, meaning: str) -> Column:
    """A duration between two columns of nanoseconds; null if one is."""
    return Column(name, "seconds", meaning, "s", reads=(start, end))


def money(name: str, nusd: str, meaning: str) -> tuple[Column, Column]:
    """Dollars for arithmetic, and beside them the exact decimal text; both null where the price is unknown."""
    exact = f"The same, exact: `Decimal({name}_exact)`."
    return Column(name, "usd", meaning, "USD", reads=(nusd,)), Column(
        f"{name}_exact", "exact", exact, "USD", reads=(nusd,)
    )


def build(declared: Declared, rows: Sequence[Sequence[Any]]) -> pd.DataFrame:
    """The frame of the `rows` of `declared.sql`, each column in its declared dtype.

    Raises:
        StoreError: a column of fixed categories holds another word.
    """
    cells = np.array(rows, dtype=object).reshape(len(rows), len(declared.reads))
    read = _Read({source: cells[:, i] for i, source in enumerate(declared.reads)})
    return pd.DataFrame({column.name: _typed(column, read) for column in declared.columns}, copy=False)


class _Read:
    """What was read, by expression; whole numbers are converted once, however many columns need them."""

    def __init__(self, values: dict[str, Cells]) -> None:
        self._values = values
        self._numbers: dict[str, tuple[Whole, Absent]] = {}

    def cells(self, source: str) -> Cells:
        return self._values[source]

    def whole(self, source: str) -> tuple[Whole, Absent]:
        """Integers, 0 where there is none, and where that is."""
        if source not in self._numbers:
            found = self._values[source].copy()
            absent: Absent = pd.isna(found)
            found[absent] = 0
            self._numbers[source] = found.astype("int64"), absent
        return self._numbers[source]


def _typed(column: Column, read: _Read) -> Any:
    first, *others = column.sources
    match column.kind:
        case "word":
            return _categories(column, read.cells(first))
        case "text":
            return pd.array(read.cells(first), dtype="string")
        case "joined":
            left, right = read.cells(first), read.cells(others[0])
            return pd.array(left + "/" + right, dtype="string")
        case "exact":
            return pd.array([None if n is None else _exact(n) for n in read.cells(first)], dtype="string")
        case "number":
            return np.array([np.nan if v is None else v for v in read.cells(first)], dtype="float64")
        case "usd":
            return _floats(*read.whole(first)) / 1e9
        case "seconds":
            (start, no_start), (end, no_end) = read.whole(first), read.whole(others[0])
            return _floats(end - start, no_start | no_end) / 1e9
        case "flag":
            whole, absent = read.whole(first)
            return pd.arrays.BooleanArray(whole.astype(bool), absent)
        case "time":
            whole, absent = read.whole(first)
            times = whole.astype("datetime64[ns]")
            times[absent] = np.datetime64("NaT")
            return pd.DatetimeIndex(times).tz_localize("UTC")
        case "count":
            total, unknown = read.whole(first)
            for source in others:
                whole, absent = read.whole(source)
                total, unknown = total + whole, unknown & absent
            return pd.arrays.IntegerArray(total.copy(), unknown.copy())


def _floats(whole: Whole, absent: Absent) -> np.ndarray[Any, np.dtype[np.float64]]:
    values = whole.astype("float64")
    values[absent] = np.nan
    return values


def _exact(nusd: int) -> str:
    """Whole nano-dollars as decimal dollars with nine places."""
    dollars, rest = divmod(abs(nusd), 1_000_000_000)
    return f"{'-' if nusd < 0 else ''}{dollars}.{rest:09d}"


def _categories(column: Column, values: Cells) -> pd.Categorical:
    codes = {name: code for code, name in enumerate(column.words)}
    codes[None] = -1  # type: ignore[index]
    try:
        found = np.fromiter((codes[v] for v in values), dtype="int16", count=len(values))
    except KeyError as error:
        raise StoreError(
            f"the column {column.name} holds {error.args[0]!r}, which is none of {', '.join(column.words)}: "
            "the store was changed by hand, or by a newer slate_lab",
            code="edited",
        ) from error
    return pd.Categorical.from_codes(found, categories=pd.Index(list(column.words), dtype="str"))

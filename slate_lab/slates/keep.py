"""What a slate needs of whoever keeps its blocks: a protocol, so that this room knows no database.

Implemented by `store.blocks`; every method is called inside `transaction` when it changes something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Struct

from slate_lab.slates.results import Hit, Lost, SlateFolder, Stored
from slate_lab.slates.spec import Folder

__all__ = ["FileKind", "Keep", "Leaver", "Spot"]

FileKind = str
"""`text`, `items` (merged by key), or empty while nothing has decided it."""


class Spot(Struct, frozen=True):
    """Where a write goes: the folder's counters, and the file if it exists."""

    total: int
    blocks: int
    file: int | None
    kind: FileKind


class Leaver(Struct, frozen=True):
    """A block that may leave, with what a result says of it."""

    id: int
    file: int
    pos: int
    tokens: int
    name: str
    preview: str


class Keep(Protocol):
    """Keeps folders, files, blocks and the ledger."""

    def transaction(self) -> AbstractContextManager[None]:
        """Everything inside lands together or not at all; other writers, also of other kernels, wait."""
        ...

    def enter(self, folders: Sequence[Folder]) -> list[Folder]:
        """Lay the declarations over what is kept; returns every folder with its number, also orphaned ones."""
        ...

    def recount(self, encoding: str, count: Callable[[str], int]) -> int:
        """Count anew every block that another encoding counted; returns how many."""
        ...

    def spot(self, folder: int, file: str) -> Spot:
        """The state that a write meets."""
        ...

    def seeded(self, folder: int, file: str) -> bool:
        """Whether a file has had its seed, or was written before it was declared."""
        ...

    def files(self, folder: int) -> list[tuple[int, str, FileKind]]:
        """Number, name and kind of the files of a folder, in the order they came."""
        ...

    def add_file(self, folder: int, name: str, kind: FileKind) -> int:
        """A new file; returns its number."""
        ...

    def set_kind(self, file: int, kind: FileKind) -> None:
        """What a file holds."""
        ...

    def turns(self, folder: int) -> Iterator[Leaver]:
        """The blocks of a folder in the order of their turn: last touched first to leave, then by write."""
        ...

    def stored(self, file: int) -> list[Stored]:
        """The blocks of a file in their order."""
        ...

    def note(
        self,
        kind: str,
        folder: int | None,
        *,
        cause: str,
        file: int | None = None,
        block: int | None = None,
        tokens: int | None = None,
        policy: str | None = None,
        by: int | None = None,
        code: str | None = None,
        text: str | None = None,
        tags: str | None = None,
    ) -> int:
        """A row of the ledger; returns its number."""
        ...

    def put(self, id: int, folder: int, file: int, pos: int, tokens: int, encoding: str) -> None:
        """A block becomes live."""
        ...

    def drop(self, file: int, pos: int) -> None:
        """A block is live no more."""
        ...

    def settle(self, folder: int, total: int, blocks: int) -> None:
        """The counters of a folder."""
        ...

    def touch(self, blocks: Sequence[Stored], seq: int) -> None:
        """These blocks were read in the ledger's row `seq`."""
        ...

    def forget(self, before_ns: int) -> int:
        """Clear the texts of blocks that left before; returns how many."""
        ...

    def folders(self) -> list[SlateFolder]:
        """Where every folder stands."""
        ...

    def search(self, match: str, folders: Sequence[int], limit: int) -> list[Hit]:
        """Live blocks that match an FTS5 query, best first."""
        ...

    def lost(self, folders: Sequence[int], file: str | None, limit: int | None) -> list[Lost]:
        """Blocks that left, the newest first."""
        ...

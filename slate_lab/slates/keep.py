"""What a slate needs of whoever keeps its blocks: a protocol, so that this room knows no database.

Implemented by `store.blocks`; every method is called inside `transaction` when it changes something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msgspec import Struct

from slate_lab.slates.eviction import Policy
from slate_lab.slates.results import Hit, Lost, SlateFolder, Stored
from slate_lab.slates.spec import Folder

__all__ = ["Coming", "FileKind", "Keep", "Leaver", "Place", "Spot"]

FileKind = str
"""`text`, `items` (merged by key), or empty while nothing has decided it."""


class Spot(Struct, frozen=True):
    """Where a write goes: the folder's counters and the rules in force, and the file if it exists.

    The rules are those of the declaration that was laid over the store last, by whichever kernel.
    """

    total: int
    blocks: int
    limit: int
    policy: Policy
    file: int | None
    kind: FileKind


class Place(Protocol):
    """A live block and where it is."""

    @property
    def id(self) -> int:
        """Its id."""
        ...

    @property
    def file(self) -> int:
        """The number of its file."""
        ...

    @property
    def pos(self) -> int:
        """Its place there."""
        ...

    @property
    def tokens(self) -> int:
        """Its size."""
        ...


class Coming(Struct, frozen=True):
    """A block that comes: its text and size, its tags as JSON, its place if it takes that of another."""

    text: str
    tokens: int
    tags: str | None = None
    pos: int | None = None


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

    def look(self) -> AbstractContextManager[None]:
        """Everything read inside is of one moment; writers of other kernels do not wait."""
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

    def walk(self, file: int, *, newest: bool) -> Iterator[Stored]:
        """The same, or from the other end, read only as far as needed."""
        ...

    def tally(self, file: int) -> list[tuple[dict[str, Any], int]]:
        """How many blocks of a file have which tags."""
        ...

    def policy(self, folder: int) -> Policy:
        """The policy in force."""
        ...

    def places(self, folder: int, ids: Sequence[int]) -> list[Place]:
        """Those of these blocks that are live in a folder, in the order of `ids`."""
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

    def land(
        self,
        folder: int,
        file: int,
        *,
        adds: Sequence[Coming],
        leaves: Sequence[Stored],
        victims: Sequence[Leaver],
        policy: str,
        mode: str | None,
        cause: str,
        encoding: str,
    ) -> tuple[int, ...]:
        """Everything a decided write does: its blocks, those it replaces, those it evicts, their rows in the ledger and
        the counters. Returns the ids of its blocks."""
        ...

    def touch(self, folder: int, blocks: Sequence[Place], seq: int) -> None:
        """These blocks were read in the ledger's row `seq`."""
        ...

    def forget(self, before_ns: int) -> int:
        """Clear the texts of blocks that left before; returns how many."""
        ...

    def folders(self) -> list[SlateFolder]:
        """Where every folder stands."""
        ...

    def search(
        self,
        match: str,
        folders: Sequence[int],
        limit: int,
        *,
        file: str | None = None,
        fits: Callable[[str, dict[str, Any]], bool] | None = None,
    ) -> list[Hit]:
        """Live blocks that match an FTS5 query, best first; of a file, and whose file's name and tags `fits` takes."""
        ...

    def lost(self, folders: Sequence[int], file: str | None, limit: int | None) -> list[Lost]:
        """Blocks that left, the newest first."""
        ...

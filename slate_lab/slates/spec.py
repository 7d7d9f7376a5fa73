"""Declarations folded: folders as the rest of this room reads them, with the tags that hold for each file.

In: the `slates` of a configuration. Out: one frozen `Folder` per folder, in the order of declaration. Called when a lab
opens its slates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from slate_lab.config import FolderSpec, MetatagSpec, SlateSpec
from slate_lab.config.memory import TagType, read_tag
from slate_lab.config.memory_checks import seeds_of
from slate_lab.errors import SlateError
from slate_lab.records import near
from slate_lab.slates.eviction import Policy

__all__ = ["Declared", "Folder", "fold"]

Tags = Mapping[str, TagType]


class Declared(Struct, frozen=True, kw_only=True):
    """A declared file: the tags that hold for it, the blocks it begins with, whether it is merged by key."""

    name: str
    tags: Tags
    seeds: tuple[str, ...] = ()
    items: bool = False


class Folder(Struct, frozen=True, kw_only=True):
    """A folder of a slate.

    Attributes:
        n: its number in the store.
        limit: tokens of all its files together.
        writable: whether writes are let in.
        tags: the tags that hold for every file, by name.
        files: the declared files, by name.
        orphaned: the configuration no longer declares it: what it holds can be read, not written.
    """

    slate: str
    name: str
    limit: int
    policy: Policy
    writable: bool = True
    tags: Tags = {}
    files: Mapping[str, Declared] = {}
    orphaned: bool = False
    n: int = 0

    @property
    def path(self) -> str:
        """`Title/folder`."""
        return f"{self.slate}/{self.name}"

    def tags_of(self, file: str | None) -> Tags:
        """The tags that hold for a file; without one, for any file of the folder."""
        if file is not None:
            return self.files[file].tags if file in self.files else self.tags
        return {name: kind for f in self.files.values() for name, kind in f.tags.items()} | dict(self.tags)

    def read_tags(self, file: str | None, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """Tags as they are stored and compared.

        Raises:
            SlateError: one is not declared (`unknown_tag`), or of the wrong type (`bad_tag`).
        """
        if not given:
            return {}
        known, values = self.tags_of(file), {}
        for name, value in given.items():
            if name not in known:
                close = near(name, known)
                hint = f"did you mean {close[0]}?" if close else f"declared are {', '.join(known) or 'none'}"
                where = f"{self.path}/{file}" if file else self.path
                raise SlateError(f"no metatag {name!r} is declared for {where}: {hint}", code="unknown_tag")
            try:
                values[name] = read_tag(known[name], value)
            except ValueError as error:
                raise SlateError(f"the metatag {name}: {error}", code="bad_tag") from error
        return values


def fold(slates: Sequence[SlateSpec]) -> tuple[Folder, ...]:
    """Every folder of every slate, in the order of declaration."""
    return tuple(_folder(slate.title, folder) for slate in slates for folder in slate.folders)


def _folder(slate: str, spec: FolderSpec) -> Folder:
    tags = _tags(spec.metatags)
    files = {}
    for file in spec.files:
        seeds = tuple(seeds_of(file.name, file.init))
        items = file.init.lstrip().startswith("[") and seeds != (file.init,)
        files[file.name] = Declared(name=file.name, tags={**tags, **_tags(file.metatags)}, seeds=seeds, items=items)
    return Folder(
        slate=slate,
        name=spec.name,
        limit=spec.token_limit,
        policy=spec.eviction_policy,
        writable=spec.access == "readWrite",
        tags=tags,
        files=files,
    )


def _tags(specs: Sequence[MetatagSpec]) -> dict[str, TagType]:
    return {tag.name: tag.type for tag in specs}

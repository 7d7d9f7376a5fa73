"""Declarations folded: folders as the rest of this room reads them, with the tags that hold for each file.

In: the `slates` of a configuration. Out: one frozen `Folder` per folder, in the order of declaration. Called when a lab
opens its slates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from slate_lab.config import FolderSpec, MetatagSpec, SlateSpec
from slate_lab.config.memory import TagType, read_tag
from slate_lab.config.memory_checks import seeds_of
from slate_lab.errors import SlateError
from slate_lab.records import near
from slate_lab.slates.eviction import Policy

__all__ = ["Declared", "Folder", "Where", "fold"]

Tags = Mapping[str, TagType]
Where = Callable[[str], Mapping[str, Any] | None]
"""By a file's name: the tags its blocks must have, or None if none of them can."""


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

    def read_where(self, file: str | None, given: Mapping[str, Any] | None) -> Where:
        """A filter over one file, or over a folder, where each file reads it by its own types.

        Raises:
            SlateError: no file of the folder could ever match: a tag is declared by none (`unknown_tag`), or has in
                none the type of its value (`bad_tag`).
        """
        if not given:
            return lambda name: {}
        if file is not None:
            tags = self.read_tags(file, given)
            return lambda name: tags
        names = (_OTHER, *self.files)
        by_file = {name: self._tried(name, given) for name in names}
        if not any(isinstance(found, dict) for found in by_file.values()):
            for tag, value in given.items():
                self._check_some(names, {tag: value})
        other = by_file[_OTHER]

        def tags_for(name: str) -> Mapping[str, Any] | None:
            found = by_file.get(name, other)
            return found if isinstance(found, dict) else None

        return tags_for

    def _tried(self, file: str, given: Mapping[str, Any]) -> dict[str, Any] | SlateError:
        try:
            return self.read_tags(file, given)
        except SlateError as error:
            return error

    def _check_some(self, files: Sequence[str], tag: Mapping[str, Any]) -> None:
        """Raise unless one of `files` could hold a block with this tag."""
        found = [self._tried(file, tag) for file in files]
        errors = [error for error in found if isinstance(error, SlateError)]
        if len(errors) == len(found):
            self.read_tags(None, tag)
            raise next((error for error in errors if error.code == "bad_tag"), errors[0])


_OTHER = ""
"""Stands for every file that is not declared: no file has this name."""


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

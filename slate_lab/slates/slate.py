"""Slates: the declared memory of a project, one object for every reader and writer.

In: declarations and a `Keep`. Out: writes through one choke point, reads, search, and the ledger's answer to what was
lost. Called by the lab, the workers' slate tools, slots and magics; from any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from slate_lab import tokens
from slate_lab.config import SlateSpec
from slate_lab.errors import LabError, SlateError, SlateWriteRefused, StoreError
from slate_lab.slates.keep import FileKind, Keep, Place
from slate_lab.slates.read import Order, Source, choose, match_of, matches, render
from slate_lab.slates.results import Hit, Lost, Reading, SlateFolder, Stored, WriteResult
from slate_lab.slates.spec import Folder, Where, fold
from slate_lab.slates.target import Target, TargetLike, find, read_target
from slate_lab.slates.write import MODES, Mode, Writer, refuse

__all__ = ["Slates"]

_DAY_NS = 86_400 * 10**9
_KNOWN = 4096
"""Texts of targets that are remembered."""


class Slates:
    """Declared memory, opened.

    Args:
        specs: the declarations.
        keep: who keeps the blocks.
        count: tokens of a text.
        encoding: the name of what `count` counts with; blocks another encoding counted are counted anew.
        keep_days: days after which the texts of what left are cleared; None keeps them.
        clock: nanoseconds since the epoch.
        read_only: the store can only be looked at: nothing is laid over it, nothing is seeded or recounted.
    """

    def __init__(
        self,
        specs: Sequence[SlateSpec],
        keep: Keep,
        *,
        clock: Callable[[], int],
        count: Callable[[str], int] = tokens.count,
        encoding: str = tokens.ENCODING,
        keep_days: int | None = None,
        read_only: bool = False,
    ) -> None:
        self._keep = keep
        self.recounted = 0
        self._known: dict[str, tuple[Target, Folder]] = {}
        self._writer = Writer(keep, count=count, encoding=encoding)
        with keep.transaction():
            folders = keep.enter(fold(specs))
            self._folders = {(folder.slate, folder.name): folder for folder in folders}
            if read_only:
                return
            self.recounted = keep.recount(encoding, count)
            for folder in folders:
                for file in folder.files.values():
                    if not keep.seeded(folder.n, file.name):
                        self._writer.seed(folder, file.name, file.seeds, items=file.items)
            if keep_days is not None:
                keep.forget(clock() - keep_days * _DAY_NS)

    # what is declared

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know: folders over their limit, folders the configuration no longer declares."""
        said = [f"{self.recounted} blocks were counted anew: the encoding has changed"] if self.recounted else []
        for row in self.rows():
            path = f"{row.slate}/{row.folder}"
            if row.orphaned:
                said.append(f"{path} is no longer declared: its {row.blocks} blocks are kept and can be read")
            elif row.over_limit:
                said.append(
                    f"{path} holds {row.total} tokens, over its limit of {row.limit}: the next write enforces it"
                )
        return tuple(said)

    def rows(self) -> list[SlateFolder]:
        """Where every folder stands, also those no longer declared. Touches nothing."""
        kept = {(row.slate, row.folder): row for row in self._keep.folders()}
        found = []
        for at, folder in self._folders.items():
            row = kept.pop(at, None) or _unkept(folder)
            found.append(row if row.orphaned == folder.orphaned else replace(row, orphaned=folder.orphaned))
        return [*found, *kept.values()]

    def paths(self) -> list[str]:
        """Every target there is, as text: folders and their files. For completion; touches nothing."""
        found = []
        for folder in self._folders.values():
            found.append(folder.path)
            found += [f"{folder.path}/{name}" for _, name, _ in self._keep.files(folder.n)]
        return found

    def target(self, value: TargetLike) -> Target:
        """The target that `value` names, its folder found.

        Raises:
            SlateError: there is no such slate or folder; the near names are listed.
        """
        target = read_target(value, self._folders)
        folder = find(target, self._folders)
        folder.read_where(target.file, target.where)
        return target

    def tags(self, value: TargetLike) -> Mapping[str, str]:
        """The metatags that hold for a target, with their types; raises `SlateError` as `target` does."""
        target = read_target(value, self._folders)
        return find(target, self._folders).tags_of(target.file)

    # writing

    def write(
        self,
        target: TargetLike,
        content: str,
        *,
        mode: Mode = "append",
        key: str | None = None,
        tags: Mapping[str, Any] | None = None,
        gated: bool = False,
        cause: str = "api",
    ) -> WriteResult:
        """Write `content` to a file, made if it is not there.

        Args:
            target: `Title/folder/file.md`, a mapping, or a `Target`.
            content: a text; for `mergeByKey` a JSON array of objects, or one object.
            mode: `append` adds one block, `replace` puts one in place of the file's, `mergeByKey` one per object.
            key: the field that `mergeByKey` compares.
            tags: values of declared metatags, for the blocks of this write.
            gated: raise when refused. Without it a refusal is only the result's code: nothing is raised.
            cause: who writes: a thread's id, `slot:name`, `magic`, `api`.

        Raises:
            SlateWriteRefused: refused, and `gated`.
        """
        try:
            result = self._write(target, content, mode=mode, key=key, tags=tags, cause=cause)
        except LabError as error:
            result = self._refused(target, content, error, cause)
        if gated and not result.ok:
            raise SlateWriteRefused(result)
        return result

    def _write(
        self,
        target: TargetLike,
        content: str,
        *,
        mode: Mode,
        key: str | None,
        tags: Mapping[str, Any] | None,
        cause: str,
    ) -> WriteResult:
        where, folder = self._find(target)
        if folder.orphaned:
            raise SlateError(f"{folder.path} is no longer declared: it can only be read", code="orphaned")
        if not folder.writable:
            raise SlateError(f"{folder.path} can be read but not written (access: read)", code="access_denied")
        if where.file is None:
            raise SlateError(f"{where} names no file: write to {where}/NAME.md", code="bad_target")
        if mode not in MODES:
            raise SlateError(f"there is no mode {mode!r}: {', '.join(MODES)}", code="bad_mode")
        if not isinstance(content, str) or not (content.isascii() or tokens.clean(content) == content):
            raise SlateError("the content is no valid text: pass it through slate_lab.tokens.clean", code="bad_text")
        given = folder.read_tags(where.file, tags)
        return self._writer.write(
            folder, where.file, content, mode=mode, key=key, tags=given if tags is not None else None, cause=cause
        )

    def _find(self, target: TargetLike) -> tuple[Target, Folder]:
        """A target and its folder; texts are remembered, for most writes go where another went."""
        if isinstance(target, str) and (known := self._known.get(target)):
            return known
        where = read_target(target, self._folders)
        found = where, find(where, self._folders)
        if isinstance(target, str) and len(self._known) < _KNOWN:
            self._known[target] = found
        return found

    def _refused(self, target: TargetLike, content: Any, error: LabError, cause: str) -> WriteResult:
        """The result of a write that could not be done, noted in the ledger where that can still be written."""
        path, folder = _shown(target), None
        try:
            found = read_target(target, self._folders)
            path, folder = str(found), self._folders.get((found.slate, found.folder))
        except SlateError:
            pass  # the target itself is what is wrong: `path` is as it was given
        total = None
        text = tokens.clean(content) if isinstance(content, str) else ""
        said = text if folder else f"{path}\n{text}"
        message, limit = error.message, folder.limit if folder else None
        if isinstance(error, SlateError):
            try:
                with self._keep.transaction():
                    refuse(self._keep, folder, error.code, file=None, tokens=None, text=said, cause=cause)
                    spot = self._keep.spot(folder.n, "") if folder else None
                    total, limit = (spot.total, spot.limit) if spot else (None, None)
            except StoreError as trouble:
                message += f"; the ledger could not note this: {trouble.message}"
        return WriteResult(
            ok=error.code == "noop",
            code=error.code,
            message=message,
            target=path,
            before=total,
            after=total,
            limit=limit,
        )

    # reading

    def read(
        self,
        target: TargetLike,
        *,
        max_tokens: int | None = None,
        order: Order = "oldest",
        where: Mapping[str, Any] | None = None,
        fallback: str | None = None,
        cause: str = "api",
    ) -> Reading:
        """The blocks of a file, or of every file of a folder. In an LRU folder, exactly what is returned is touched.

        Args:
            max_tokens: stop before the block that would exceed it.
            order: which blocks come first.
            where: only blocks with these tags.
            fallback: the text if there is no such file.

        Raises:
            SlateError: no such slate, folder or tag; no such file and no fallback (`not_found`).
        """
        return self._read(target, max_tokens, order, where, fallback, touch=cause)

    def peek(
        self,
        target: TargetLike,
        *,
        max_tokens: int | None = None,
        order: Order = "oldest",
        where: Mapping[str, Any] | None = None,
        fallback: str | None = None,
    ) -> Reading:
        """`read` that touches nothing and leaves no row: for people who look."""
        return self._read(target, max_tokens, order, where, fallback, touch=None)

    def render(self, target: TargetLike) -> str:
        """A file or a folder as it would be read, whole; touches nothing."""
        return self.peek(target).text

    def blocks(self, target: TargetLike) -> list[Stored]:
        """The live blocks of a file or folder, with their texts; touches nothing."""
        found = self.target(target)
        folder = find(found, self._folders)
        with self._keep.look():
            files = self._files(folder, found.file)
            if found.file is not None and not files:
                raise SlateError(f"there is no file {found.file!r} in {folder.path}", code="not_found")
            return [block for n, _, _ in files for block in self._keep.stored(n)]

    def search(
        self,
        text: str,
        *,
        slate: str | None = None,
        folder: str | None = None,
        file: str | None = None,
        where: Mapping[str, Any] | None = None,
        limit: int = 20,
    ) -> list[Hit]:
        """Live blocks that hold every word of `text`, best first; `wor*` is the beginning of a word. Touches nothing.

        Args:
            slate, folder, file: look only there; a file needs its slate and folder.
            where: only blocks with these tags of the folder.
            limit: the most hits.

        Raises:
            SlateError: no such slate, folder or tag, or `text` has no word (`bad_query`).
        """
        within = self._within(slate, folder)
        query = match_of(text)
        if not query:
            raise SlateError("there is no word to search for", code="bad_query")
        if (file or where) and not (slate and folder):
            raise SlateError("a file and tags are searched in one folder: name slate and folder", code="bad_target")
        fits = None
        if where:
            wanted = within[0].read_where(file, where)
            fits = partial(_fits, wanted)
        return self._keep.search(query, [f.n for f in within], limit, file=file, fits=fits)

    def evicted(self, target: TargetLike | None = None, *, limit: int | None = None) -> list[Lost]:
        """What left, the newest first: evicted or replaced, when, because of which write, and what it said.

        Args:
            target: a folder or a file; None is everything.
        """
        if target is None:
            return self._keep.lost([f.n for f in self._folders.values()], None, limit)
        found = self.target(target)
        return self._keep.lost([find(found, self._folders).n], found.file, limit)

    def _read(
        self,
        value: TargetLike,
        max_tokens: int | None,
        order: Order,
        where: Mapping[str, Any] | None,
        fallback: str | None,
        *,
        touch: str | None,
    ) -> Reading:
        target, folder = self._find(value)
        want = folder.read_where(target.file, {**target.where, **(where or {})})
        if order not in ("oldest", "newest"):
            raise SlateError(f"there is no order {order!r}: oldest or newest", code="bad_order")
        reading = partial(self._reading, target, folder, max_tokens, order, want, fallback)
        if touch is None or self._keep.policy(folder.n) != "LRU":
            with self._keep.look():
                return reading()[0]
        with self._keep.transaction():
            found, kept = reading()
            self._touch(folder, kept[0].file if kept and target.file else None, kept, touch)
        return found

    def touch(self, target: TargetLike, blocks: Sequence[int], *, cause: str = "api") -> None:
        """Say that these blocks were read, as a `read` that returned them does, though they were taken by `peek`.

        Those that have left in between are passed over; where nothing is left, or the folder is not LRU, nothing is
        noted.
        """
        found, folder = self._find(target)
        if not blocks or self._keep.policy(folder.n) != "LRU":
            return
        with self._keep.transaction():
            kept = self._keep.places(folder.n, blocks)
            self._touch(folder, kept[0].file if kept and found.file else None, kept, cause)

    def _touch(self, folder: Folder, file: int | None, kept: Sequence[Place], cause: str) -> None:
        if not kept:
            return
        seq = self._keep.note(
            "read",
            folder.n,
            file=file,
            tokens=sum(block.tokens for block in kept),
            policy="LRU",
            cause=cause,
            text=",".join(str(block.id) for block in kept),
        )
        self._keep.touch(folder.n, kept, seq)

    def _reading(
        self, target: Target, folder: Folder, max_tokens: int | None, order: Order, want: Where, fallback: str | None
    ) -> tuple[Reading, list[Stored]]:
        files = self._files(folder, target.file)
        if target.file is not None and not files:
            if fallback is None:
                raise SlateError(f"there is no file {target.file!r} in {folder.path}", code="not_found")
            return Reading(target=str(target), text=fallback, missing=True), []
        newest = order == "newest"
        sources = [
            Source(where, partial(self._keep.walk, n, newest=newest), partial(self._keep.tally, n))
            for n, name, _ in (reversed(files) if newest else files)
            if (where := want(name)) is not None
        ]
        kept, omitted = choose(sources, max_tokens=max_tokens)
        reading = Reading(
            target=str(target),
            text=render(kept, kinds={n: kind for n, _, kind in files}, titled=target.file is None),
            blocks=tuple(block.id for block in kept),
            tokens=sum(block.tokens for block in kept),
            omitted=omitted,
        )
        return reading, kept

    def _files(self, folder: Folder, file: str | None) -> list[tuple[int, str, FileKind]]:
        """The files of a folder, or the one of this name if it exists."""
        return [found for found in self._keep.files(folder.n) if file in (None, found[1])]

    def _within(self, slate: str | None, folder: str | None) -> list[Folder]:
        if slate is not None and folder is not None:
            return [find(read_target({"slate": slate, "folder": folder}, self._folders), self._folders)]
        found = [f for f in self._folders.values() if slate in (None, f.slate) and folder in (None, f.name)]
        if not found and (slate or folder):
            find(Target(slate or "", folder or ""), self._folders)
        return found


def _fits(want: Where, file: str, tags: dict[str, Any]) -> bool:
    where = want(file)
    return where is not None and matches(tags, where)


def _unkept(folder: Folder) -> SlateFolder:
    """A folder that a store which can only be looked at has never seen."""
    return SlateFolder(
        slate=folder.slate,
        folder=folder.name,
        policy=folder.policy,
        access="readWrite" if folder.writable else "read",
        limit=folder.limit,
        total=0,
        blocks=0,
        files=(),
        over_limit=False,
        orphaned=False,
    )


def _shown(target: Any) -> str:
    return tokens.clean(str(target))[:200]

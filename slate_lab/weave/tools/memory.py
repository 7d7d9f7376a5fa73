"""The tools that reach memory: `slate_read slate_write slate_search`, each within what the thread's type was granted.

In: the lab's slates, and per thread type the targets it may read and write. Out: tools by name. A write is the soft
form: a refusal is told to the worker and noted in the ledger, with the thread as its cause. Wired by the lab.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from slate_lab.errors import SlateError
from slate_lab.slates import Slates, Target
from slate_lab.tokens import clean
from slate_lab.weave.tools.kit import Kit, Tool, ToolFailed, make_tool

__all__ = ["MEMORY", "Grants", "slate_tools", "tools_for"]

MEMORY = ("slate_read", "slate_search", "slate_write")

Grants = Mapping[str, tuple[Sequence[Target], Sequence[Target]]]
"""By thread type: the targets it may read, and those it may write."""


def tools_for(reads: Sequence[Target], writes: Sequence[Target]) -> tuple[str, ...]:
    """Names of the tools that these grants bring with them."""
    return (MEMORY[:2] if reads else ()) + (MEMORY[2:] if writes else ())


def slate_tools(slates: Slates, grants: Grants) -> dict[str, Tool]:
    """The tools, by name."""

    def slate_read(
        kit: Kit,
        target: str,
        max_tokens: int = 2000,
        order: Literal["oldest", "newest"] = "oldest",
        where: dict[str, Any] | None = None,
    ) -> str:
        """Read a file or folder of the project's memory.

        Args:
            target: Title/folder/file.md, or Title/folder for all its files
            max_tokens: stop before the block that would exceed it
            order: which blocks come first
            where: only blocks with these tags, like {"category": "risk"}
        """
        with _Told():
            found, grant = _granted(slates, target, grants[kit.kind][0], "read")
            tags = {**(where or {}), **grant.where}
            reading = slates.read(found, max_tokens=max_tokens, order=order, where=tags, cause=kit.thread)
        left = f"({reading.omitted} further blocks did not fit max_tokens={max_tokens})" if reading.omitted else ""
        return kit.result(reading.text.splitlines() or ["(empty)"], left)

    def slate_write(
        kit: Kit,
        target: str,
        text: str,
        mode: Literal["append", "replace", "mergeByKey"] = "append",
        key: str | None = None,
        tags: dict[str, Any] | None = None,
    ) -> str:
        """Write to a file of the project's memory, made if it is not there.

        Args:
            target: Title/folder/file.md
            text: what to write; for mergeByKey a JSON array of objects
            mode: append a block, replace the file's blocks by one, or merge objects by a key
            key: the field that mergeByKey compares
            tags: values of declared tags
        """
        with _Told():
            found, grant = _granted(slates, target, grants[kit.kind][1], "write")
        own = {**(tags or {}), **grant.where} or None
        done = slates.write(found, clean(text), mode=mode, key=key, tags=own, cause=kit.thread)
        if not done.ok:
            raise ToolFailed(f"refused ({done.code}): {done.message}")
        out = f"; {len(done.evicted)} older blocks had to leave" if done.evicted else ""
        return f"{done.code} {done.target}: the folder holds {done.after} of {done.limit} tokens{out}"

    def slate_search(kit: Kit, text: str, limit: int = 10) -> str:
        """Search the project's memory for blocks that hold every word.

        Args:
            text: words; wor* is the beginning of a word
            limit: at most so many blocks
        """
        hits, most = [], max(1, min(limit, 100))
        with _Told():
            for to in grants[kit.kind][0]:
                hits += slates.search(text, slate=to.slate, folder=to.folder, file=to.file, where=to.where, limit=most)
        seen = {hit.block: hit for hit in hits}
        lines = [f"[{hit.target} #{hit.block}] {hit.snippet}" for hit in list(seen.values())[:most]]
        return kit.result(lines or ["(nothing found)"])

    made: tuple[Callable[..., str], ...] = (slate_read, slate_search, slate_write)
    return {function.__name__: make_tool(function) for function in made}


class _Told:
    """What memory refuses, in words for the model."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, SlateError):
            raise ToolFailed(error.message) from error


def _granted(slates: Slates, target: str, grants: Sequence[Target], what: str) -> tuple[Target, Target]:
    """The target and the grant that covers it."""
    if not grants:
        raise ToolFailed(f"this type of thread may {what} no slate")
    found = slates.target(target)
    for grant in grants:
        if (grant.slate, grant.folder) == (found.slate, found.folder) and grant.file in (None, found.file):
            return found, grant
    raise ToolFailed(f"{found} is not granted: this type of thread may {what} {', '.join(map(str, grants))}")

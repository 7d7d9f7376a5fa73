"""The one choke point of every write: plan, then one transaction of blocks, evictions, ledger rows and counters.

In: a folder, a file, content that was checked, and the mode. Out: a `WriteResult`; a refused write has changed nothing
but the ledger, which says so. Called by `Slates.write` only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from slate_lab.errors import SlateError
from slate_lab.slates.eviction import plan_eviction
from slate_lab.slates.keep import Coming, Keep, Leaver, Spot
from slate_lab.slates.merge import items_of, plan_merge
from slate_lab.slates.results import PREVIEW, Evicted, Stored, WriteResult
from slate_lab.slates.spec import Folder

__all__ = ["MODES", "Mode", "Writer"]

Mode = Literal["append", "replace", "mergeByKey"]
MODES: tuple[Mode, ...] = ("append", "replace", "mergeByKey")


class _Change(Struct, frozen=True):
    """What a write wants: blocks that leave, blocks that come, what the file holds afterwards."""

    leaves: tuple[Stored, ...]
    adds: tuple[Coming, ...]
    kind: str


class Writer:
    """Writes through one `Keep`; sizes are counted with `count`, whose name is `encoding`."""

    def __init__(self, keep: Keep, *, count: Callable[[str], int], encoding: str) -> None:
        self._keep, self._count, self._encoding = keep, count, encoding

    def write(
        self,
        folder: Folder,
        file: str,
        content: str,
        *,
        mode: Mode,
        key: str | None,
        tags: dict[str, Any] | None,
        cause: str,
    ) -> WriteResult:
        """Write `content` to a file that may not exist yet.

        Raises:
            SlateError: the content does not fit what the file holds; nothing was changed.
        """
        if not content and mode == "append":
            raise SlateError("there was nothing to write", code="noop")
        items = items_of(content) if mode == "mergeByKey" else None
        size = self._count(content) if items is None and content else 0
        encoded = msgspec.json.encode(tags).decode() if tags else None
        keep = self._keep
        with keep.transaction():
            spot = keep.spot(folder.n, file)
            if mode == "append":
                if spot.kind == "items":
                    raise _holds_items(file)
                change = _Change((), (Coming(content, size, encoded),), "text")
            else:
                stored = keep.stored(spot.file) if spot.file is not None else []
                if mode == "replace":
                    change = self._replace(spot, stored, content, size, encoded)
                else:
                    change = self._merge(spot, stored, items or [], key, encoded, file)
            return self._apply(folder, file, spot, change, mode, cause)

    def seed(self, folder: Folder, file: str, texts: tuple[str, ...], *, items: bool) -> None:
        """The blocks a file begins with. They push nothing out: a folder they overfill is put right by the next write.

        Called inside a transaction, once for every declared file.
        """
        keep = self._keep
        kind = "items" if items else "text" if texts else ""
        number = keep.add_file(folder.n, file, kind)
        adds = [Coming(text, self._count(text)) for text in texts]
        if adds:
            self._land(folder, number, _Change((), tuple(adds), kind), (), folder.policy, None, "seed")

    def _replace(self, spot: Spot, stored: list[Stored], content: str, size: int, tags: str | None) -> _Change:
        if not content:
            return _Change(tuple(stored), (), "")
        if spot.kind == "items":
            adds = tuple(Coming(item, self._count(item), tags) for item in items_of(content))
            return _Change(tuple(stored), adds, "items")
        return _Change(tuple(stored), (Coming(content, size, tags),), "text")

    def _merge(
        self, spot: Spot, stored: list[Stored], items: list[str], key: str | None, tags: str | None, file: str
    ) -> _Change:
        if not key:
            raise SlateError("mergeByKey needs the name of a field: key=NAME", code="missing_key")
        if spot.kind == "text" and stored:
            message = f"{file} holds text, which cannot be merged by key; nothing was written"
            raise SlateError(message, code="not_json")
        adds, leaves = [], []
        for item, old in plan_merge(stored, items, key):
            if old is None:
                adds.append(Coming(item, self._count(item), tags))
                continue
            leaves.append(old)
            kept = msgspec.json.encode(old.tags).decode() if old.tags and tags is None else tags
            adds.append(Coming(item, self._count(item), kept, old.pos))
        return _Change(tuple(leaves), tuple(adds), "items")

    def _apply(self, folder: Folder, file: str, spot: Spot, change: _Change, mode: Mode, cause: str) -> WriteResult:
        keep, adds = self._keep, change.adds
        gone = {block.id for block in change.leaves}
        turns = keep.turns(folder.n)
        plan = plan_eviction(
            policy=spot.policy,
            limit=spot.limit,
            before=spot.total,
            leaves=sum(block.tokens for block in change.leaves),
            adds=[add.tokens for add in adds],
            turns=_without(turns, gone) if gone else turns,
        )
        target = f"{folder.path}/{file}"
        if plan.code is not None:
            text = adds[0].text if adds else ""
            size = sum(add.tokens for add in adds)
            refuse(keep, folder, plan.code, file=spot.file, tokens=size, text=text, cause=cause)
            return WriteResult(
                ok=False,
                code=plan.code,
                message=f"{target}: {plan.message}",
                target=target,
                before=spot.total,
                after=spot.total,
                limit=spot.limit,
            )
        number = spot.file
        if number is None:
            number = keep.add_file(folder.n, file, change.kind)
        elif spot.kind != change.kind:
            keep.set_kind(number, change.kind)
        victims: list[Leaver] = list(plan.victims)  # type: ignore[arg-type]  # they are what `turns` gave
        ids = self._land(folder, number, change, victims, spot.policy, mode, cause)
        return WriteResult(
            ok=True,
            code="written" if ids or change.leaves else "noop",
            message="",
            target=target,
            blocks=ids,
            evicted=tuple(Evicted(v.id, v.name, v.tokens, v.preview, spot.policy) for v in victims),
            before=spot.total,
            after=plan.after,
            limit=spot.limit,
        )

    def _land(
        self,
        folder: Folder,
        file: int,
        change: _Change,
        victims: Sequence[Leaver],
        policy: str,
        mode: Mode | None,
        cause: str,
    ) -> tuple[int, ...]:
        return self._keep.land(
            folder.n,
            file,
            adds=change.adds,
            leaves=change.leaves,
            victims=victims,
            policy=policy,
            mode=mode,
            cause=cause,
            encoding=self._encoding,
        )


def refuse(
    keep: Keep, folder: Folder | None, code: str, *, file: int | None, tokens: int | None, text: str, cause: str
) -> None:
    """The ledger's row of a write that was not done; of its text the beginning is kept."""
    keep.note(
        "noop" if code == "noop" else "refuse",
        folder.n if folder else None,
        file=file,
        tokens=tokens,
        policy=folder.policy if folder else None,
        cause=cause,
        code=code,
        text=text[:REFUSED_CHARS],
    )


REFUSED_CHARS = 50 * PREVIEW


def _holds_items(file: str) -> SlateError:
    message = f"{file} is merged by key: write to it with mode mergeByKey, or replace it with a JSON array of objects"
    return SlateError(message, code="bad_mode")


def _without(turns: Iterator[Leaver], gone: set[int]) -> Iterator[Leaver]:
    return (turn for turn in turns if turn.id not in gone)

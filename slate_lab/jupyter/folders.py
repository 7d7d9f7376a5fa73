"""From the rows of the store to what the slate panel draws. Reads only, so the order of leaving stays as it is."""

from __future__ import annotations

from typing import Any

from slate_lab.jupyter.panel import FolderView, SlatePanel, ViewedBlock, ViewedLoss
from slate_lab.jupyter.text import clean_line, duration
from slate_lab.store import Store

__all__ = ["panel_of"]

_BLOCKS, _LOSSES = 120, 12
_TEXT = 200
"""Characters of a text that are read."""

_FOLDERS = """SELECT slate, folder, policy, access, max_tokens, total, blocks, over_limit, orphaned
    FROM folders ORDER BY n"""
_NEXT = """SELECT id, file, tokens, written_ns, touched_ns, substr(text, 1, ?) FROM blocks
    WHERE slate = ? AND folder = ? ORDER BY touched, id LIMIT ?"""
_LEFT = """SELECT file, block, tokens, at_ns, how, cause, by_seq, substr(text, 1, ?), seq FROM evictions
    WHERE slate = ? AND folder = ? ORDER BY seq DESC LIMIT ?"""
_REFUSED = """SELECT file, tokens, at_ns, code, cause, substr(text, 1, ?), seq FROM ledger_rows
    WHERE slate = ? AND folder = ? AND kind = 'refuse' ORDER BY seq DESC LIMIT ?"""
_COUNT = """SELECT count(*) FROM ledger_rows
    WHERE slate = ? AND folder = ? AND kind IN ('evict', 'replace', 'refuse')"""


def panel_of(store: Store, *, now_ns: int) -> SlatePanel:
    """Every folder of the store, also those no longer declared.

    Args:
        store: opened.
        now_ns: the present, for ages.
    """
    return SlatePanel(_folder(store, row, now_ns) for row in store.query(_FOLDERS)[1])


def _folder(store: Store, row: tuple[Any, ...], now_ns: int) -> FolderView:
    slate, folder, policy, access, limit, total, count, over, orphaned = row
    blocks = store.query(_NEXT, (_TEXT, slate, folder, _BLOCKS))[1]
    (lost,) = store.query(_COUNT, (slate, folder))[1][0]
    return FolderView(
        slate=slate,
        folder=folder,
        limit=limit,
        total=total,
        policy=policy,
        access=access,
        state="orphaned" if orphaned else "over_limit" if over else "ok",
        blocks=[_block(block, now_ns) for block in blocks],
        count=count,
        losses=_losses(store, slate, folder, now_ns),
        lost=lost,
    )


def _block(row: tuple[Any, ...], now_ns: int) -> ViewedBlock:
    id, file, tokens, written_ns, touched_ns, text = row
    return ViewedBlock(
        id=f"b{id}",
        file=file,
        tokens=tokens,
        age=_ago(now_ns, written_ns),
        touched=_ago(now_ns, touched_ns),
        preview=clean_line(text or ""),
    )


def _losses(store: Store, slate: str, folder: str, now_ns: int) -> list[ViewedLoss]:
    left = [
        (seq, file, tokens, at_ns, f"{how} by write {by} ({cause})", text)
        for file, _, tokens, at_ns, how, cause, by, text, seq in store.query(_LEFT, (_TEXT, slate, folder, _LOSSES))[1]
    ]
    refused = [
        (seq, file or "", tokens or 0, at_ns, f"refused: {code} ({cause})", text)
        for file, tokens, at_ns, code, cause, text, seq in store.query(_REFUSED, (_TEXT, slate, folder, _LOSSES))[1]
    ]
    newest = sorted(left + refused, key=lambda found: -found[0])[:_LOSSES]
    return [
        ViewedLoss(
            file=file, tokens=tokens, when=_ago(now_ns, at_ns), why=why, preview=clean_line(text or "(text cleared)")
        )
        for _, file, tokens, at_ns, why, text in newest
    ]


def _ago(now_ns: int, at_ns: int) -> str:
    return f"{duration(max(0, now_ns - at_ns) / 1e9)} ago"

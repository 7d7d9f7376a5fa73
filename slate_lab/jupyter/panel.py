"""The slate panel: how full each folder is, its blocks in the order in which they would leave, what left and why.

`lab.panel()` makes one from the store. It is static HTML that follows the page's theme; every bar has the same
figures as a table below it, so nothing depends on seeing it. Looking touches nothing: the order stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from slate_lab.jupyter.table import frame_html, meter_text, table_html, table_text
from slate_lab.jupyter.text import clean_line, escape
from slate_lab.jupyter.theme import MARKS, SOURCES, var

__all__ = ["FolderView", "SlatePanel", "ViewedBlock", "ViewedLoss"]

_BLOCKS, _LOSSES, _SEGMENTS = 40, 12, 120
"""Blocks and losses of a folder that its tables show, and blocks that its bar draws one by one."""
_ORDER = {
    "FIFO": "oldest written first; the hatched one is the next to leave",
    "LRU": "least recently read or written first; the hatched one is the next to leave",
    "reject": "nothing leaves: a write that does not fit is refused",
}


class ViewedBlock(Struct, frozen=True, kw_only=True):
    """A block as it is drawn.

    Attributes:
        age: how long ago it was written, in words.
        touched: how long ago it was last read or written, in words.
    """

    id: str
    file: str
    tokens: int
    age: str
    touched: str
    preview: str


class ViewedLoss(Struct, frozen=True, kw_only=True):
    """A block that left, or a write that was refused: what it was, when in words, and because of what."""

    file: str
    tokens: int
    when: str
    why: str
    preview: str


class FolderView(Struct, frozen=True, kw_only=True):
    """One folder.

    Attributes:
        limit, total: tokens.
        state: `ok`, `over_limit` (its limit was lowered) or `orphaned` (it is no longer declared).
        blocks: those next to leave, in order.
        count: how many blocks there are in all.
        losses: what left or was refused, newest first.
        lost: how many left or were refused in all.
    """

    slate: str
    folder: str
    limit: int
    total: int
    policy: str
    access: str = "readWrite"
    state: str = "ok"
    blocks: Sequence[ViewedBlock] = ()
    count: int = 0
    losses: Sequence[ViewedLoss] = ()
    lost: int = 0

    @property
    def name(self) -> str:
        """`Title/folder`."""
        return f"{self.slate}/{self.folder}"

    @property
    def share(self) -> float:
        """How full it is; above 1 when its limit was lowered."""
        return self.total / self.limit if self.limit else 0.0

    @property
    def figure(self) -> str:
        """Its figures in one line."""
        said = f"{self.total:,} of {self.limit:,} tokens, {100 * self.share:.0f} %, {self.policy}"
        notes = [said, f"{self.count:,} blocks", f"{self.lost:,} left or refused"]
        notes += ["read only"] if self.access == "read" else []
        notes += {"over_limit": ["over its limit: the next write enforces it"], "orphaned": ["no longer declared"]}.get(
            self.state, []
        )
        return ", ".join(notes)


class SlatePanel:
    """Every folder of every slate.

    Args:
        folders: as they are now.
    """

    def __init__(self, folders: Iterable[FolderView]) -> None:
        self.folders = tuple(folders)

    @property
    def html(self) -> str:
        """The panel, with its figures as tables."""
        if not self.folders:
            return frame_html("Slates", "none is declared: add `slates:` to slate.yaml", [])
        total = sum(f.total for f in self.folders)
        figure = f"{len(self.folders)} folders, {total:,} tokens"
        return frame_html("Slates", figure, [_folder_html(folder) for folder in self.folders])

    @property
    def text(self) -> str:
        """The same for a terminal."""
        if not self.folders:
            return "no slate is declared: add `slates:` to slate.yaml"
        rows = [
            (f.name, f"{f.total:,}", f"{f.limit:,}", f.policy, str(f.count), str(f.lost), meter_text(f.share))
            for f in self.folders
        ]
        return table_text(("folder", "tokens", "limit", "policy", "blocks", "left", ""), rows, figures=(1, 2, 4, 5))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}

    def __repr__(self) -> str:
        return self.text


def _folder_html(folder: FolderView) -> str:
    head = (
        '<div style="display:flex;flex-wrap:wrap;gap:2px 16px;justify-content:space-between;margin-top:14px">'
        f'<b style="overflow-wrap:anywhere"><bdi>{escape(folder.name)}</bdi></b>'
        f"<span>{escape(folder.figure)}</span></div>"
    )
    order = _ORDER.get(folder.policy, "")
    return head + _bar(folder) + _more(f"blocks, {order}", _blocks_html(folder)) + _losses_html(folder)


def _bar(folder: FolderView) -> str:
    """The blocks from the left, the next to leave first; what is free is at the right, the limit a line."""
    whole = max(folder.limit, folder.total, 1)
    colours = _colours(folder.blocks)
    drawn = folder.blocks[:_SEGMENTS]
    pieces = [
        _piece(100 * block.tokens / whole, colours[block.file], _title(block), next_out=not n and _leaves(folder))
        for n, block in enumerate(drawn)
    ]
    rest = folder.total - sum(block.tokens for block in drawn)
    if rest:
        count = folder.count - len(drawn)
        title = escape(f"{count:,} further blocks, {rest:,} tokens")
        pieces.append(_piece(100 * rest / whole, MARKS["queued"].accent, title, next_out=False))
    over = folder.total > folder.limit
    limit = 100 * folder.limit / whole
    line = (
        f'<span style="position:absolute;left:{limit:.3f}%;top:0;bottom:0;border-left:2px solid currentColor"></span>'
        if over
        else ""
    )
    colour = MARKS["failed"].accent if over else var("rule")
    return (
        f'<div role="img" aria-label="{escape(folder.name)}: {escape(folder.figure)}" style="position:relative;'
        f"display:flex;height:22px;margin-top:4px;border-radius:4px;overflow:hidden;border:1px solid {colour};"
        f'background:{var("raised")}">{"".join(pieces)}{line}</div>'
    )


def _leaves(folder: FolderView) -> bool:
    return folder.policy in ("FIFO", "LRU") and folder.access != "read"


def _colours(blocks: Sequence[ViewedBlock]) -> dict[str, str]:
    """One colour for each file, by name: folders with the same files are painted alike."""
    files = sorted({block.file for block in blocks})
    return {file: SOURCES[n % len(SOURCES)] for n, file in enumerate(files)}


def _title(block: ViewedBlock) -> str:
    return escape(f"{block.id} {block.file}: {block.tokens:,} tokens, {clean_line(block.preview, 80)}")


def _piece(share: float, colour: str, title: str, *, next_out: bool) -> str:
    paint = f"background:{colour}"
    if next_out:
        paint = f"background:repeating-linear-gradient(135deg,{colour} 0 4px,rgba(255,255,255,.55) 4px 6px)"
    style = f"flex:0 0 {share:.3f}%;min-width:1px;box-sizing:border-box;{paint};border-right:1px solid {var('ground')}"
    return f'<span title="{title}" style="{style}"></span>'


def _blocks_html(folder: FolderView) -> str:
    colours = _colours(folder.blocks)
    shown = folder.blocks[:_BLOCKS]
    rows = [
        (f"{block.file} {block.id}", f"{block.tokens:,}", block.age, block.touched, clean_line(block.preview, 60))
        for block in shown
    ]
    keys = [f'<div style="width:14px;height:14px;border-radius:3px;background:{colours[b.file]}"></div>' for b in shown]
    table = table_html(("block", "tokens", "written", "touched", "text"), rows, figures=(1,), keys=keys)
    hidden = folder.count - len(shown)
    return table + (f"<p>{hidden:,} further blocks are not listed</p>" if hidden else "")


def _losses_html(folder: FolderView) -> str:
    if not folder.losses:
        return ""
    shown = folder.losses[:_LOSSES]
    rows = [(loss.file, f"{loss.tokens:,}", loss.when, loss.why, clean_line(loss.preview, 60)) for loss in shown]
    table = table_html(("file", "tokens", "when", "why", "text"), rows, figures=(1,))
    hidden = max(folder.lost, len(folder.losses)) - len(shown)
    return _more(
        "what left or was refused, and why",
        table + (f"<p>{hidden:,} earlier ones are not listed</p>" if hidden > 0 else ""),
    )


def _more(title: str, body: str) -> str:
    return (
        f'<details style="margin-top:4px"><summary style="cursor:pointer;font-size:12px">{escape(title)}</summary>'
        f'<div style="overflow-x:auto">{body}</div></details>'
    )

"""The slate panel: figures, order, losses, and hostile text."""

from __future__ import annotations

import re

import pytest

from slate_lab.jupyter.panel import FolderView, SlatePanel, ViewedBlock, ViewedLoss


def _block(id: str, tokens: int, *, file: str = "core.md", preview: str = "port 8080") -> ViewedBlock:
    return ViewedBlock(id=id, file=file, tokens=tokens, age="2 min", touched="1 s", preview=preview)


def _folder(*blocks: ViewedBlock, limit: int = 100, policy: str = "FIFO", **said: object) -> FolderView:
    total = sum(b.tokens for b in blocks)
    return FolderView(
        slate="Memory",
        folder="facts",
        limit=limit,
        total=total,
        policy=policy,
        blocks=blocks,
        count=len(blocks),
        **said,
    )  # type: ignore[arg-type]


def _widths(html: str) -> list[float]:
    return [float(w) for w in re.findall(r"flex:0 0 ([\d.]+)%", html)]


def test_the_bar_is_to_scale() -> None:
    """Each block takes its share of the limit, in the order in which blocks would leave."""
    assert _widths(SlatePanel([_folder(_block("b1", 30), _block("b2", 20))]).html) == [30.0, 20.0]


def test_a_file_has_one_colour_whatever_its_blocks_order() -> None:
    """Two folders with the same files are painted alike, though their blocks stand in another order."""
    core, rules = _block("a", 10), _block("b", 20, file="rules.md")
    bars = [SlatePanel([_folder(*both, policy="reject")]).html for both in ((core, rules), (rules, core))]
    painted = [dict(re.findall(r'title="\w+ (\S+):[^>]*background:([^;"]+)', bar)) for bar in bars]
    assert painted[0] == painted[1]
    assert len(set(painted[0].values())) == 2


def test_over_the_limit_the_whole_is_what_is_stored() -> None:
    """A folder whose limit was lowered is drawn to what it holds, and its figure says so."""
    html = SlatePanel([_folder(_block("b1", 150), _block("b2", 50), state="over_limit")]).html
    assert _widths(html) == [75.0, 25.0]
    assert "200 of 100 tokens, 200 %" in html
    assert "the next write enforces it" in html


@pytest.mark.parametrize(
    ("policy", "access", "hatched"),
    [("FIFO", "readWrite", 1), ("LRU", "readWrite", 1), ("reject", "readWrite", 0), ("FIFO", "read", 0)],
)
def test_only_a_block_that_can_leave_is_hatched(policy: str, access: str, hatched: int) -> None:
    """The next to leave is marked, and none where nothing can leave."""
    html = SlatePanel([_folder(_block("b1", 30), _block("b2", 20), policy=policy, access=access)]).html
    assert html.count("repeating-linear-gradient") == hatched


def test_what_is_not_drawn_one_by_one_is_counted() -> None:
    """A folder of many blocks keeps its page small and says what it leaves out."""
    html = SlatePanel([_folder(*(_block(f"b{n}", 1) for n in range(5000)), limit=5000)]).html
    assert len(html) < 70_000
    assert "4,880 further blocks, 4,880 tokens" in html
    assert "4,960 further blocks are not listed" in html
    assert sum(_widths(html)) == pytest.approx(100, abs=0.2)


def test_losses_say_why() -> None:
    """What left stands with its cause, and earlier ones are counted."""
    loss = ViewedLoss(file="core.md", tokens=33, when="3 min", why="evicted by write 12 (t3)", preview="old port")
    html = SlatePanel([_folder(_block("b1", 30), losses=(loss,), lost=8)]).html
    assert "evicted by write 12 (t3)" in html
    assert "7 earlier ones are not listed" in html


def test_text_form_has_the_same_figures() -> None:
    """A terminal reads the same figures."""
    line = SlatePanel([_folder(_block("b1", 30), lost=2)]).text.splitlines()[1]
    assert line.split()[:6] == ["Memory/facts", "30", "100", "FIFO", "1", "2"]


def test_no_slate_says_what_to_do() -> None:
    """An empty panel names the key that declares a slate."""
    assert "slates:" in SlatePanel([]).html
    assert "slates:" in SlatePanel([]).text


def test_hostile_names_and_text_are_escaped() -> None:
    """Whatever a worker wrote is text in the panel, in tables and in titles."""
    evil = '"><script>alert(1)</script>\x1b[31m\u202e'
    folder = _folder(
        _block("b1", 3, file=evil, preview=evil),
        losses=(ViewedLoss(file=evil, tokens=1, when="", why=evil, preview=evil),),
    )
    html = SlatePanel([folder]).html
    assert "<script" not in html
    assert "\x1b" not in html
    assert "\u202e" not in html

"""Memory under bad input and bad luck: hostile texts, two kernels that declare differently, clocks, disks, looking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import slate_lab as sl
from slate_lab.store import Store

from .making import open_slates, opened, sized, specs

pytestmark = pytest.mark.filterwarnings("ignore:the store .* is open to look at only")


@pytest.mark.parametrize(
    "target",
    [
        "",
        "/",
        "M",
        "M/",
        "M/f",
        "M/f/",
        "M/f/../x",
        "M/f/a/b",
        "M/f/\0",
        "M/f/\ud800",
        "M/f/" + "é" * 200,
        "\ud800/f/a",
    ],
    ids=ascii,
)
def test_a_hostile_target_is_a_code(target: str) -> None:
    """Whatever is given as a target, the soft form answers, nothing is stored, and the ledger can be read."""
    store, slates = opened(f={"tokenLimit": 9})
    with store:
        assert not slates.write(target, "x").ok
        assert slates.blocks("M/f") == []
        assert store.verify() == []


@pytest.mark.parametrize("name", ["'; DROP TABLE block; --", '"', "%_*?", "CON", "a b", "\u202e.md", "日本語.md", "-"])
def test_a_hostile_file_name_is_a_name(name: str) -> None:
    """A name that could mean something elsewhere is a name here: written, read and searched like any other."""
    store, slates = opened(f={"tokenLimit": 9})
    with store:
        assert slates.write(f"M/f/{name}", "one two").ok
        assert slates.read(f"M/f/{name}").text == "one two"
        assert [hit.file for hit in slates.search("two")] == [name]
        assert store.verify() == []


@pytest.mark.parametrize("value", ["\ud800", "x\0y", "a" * 100_000], ids=["surrogate", "null", "long"])
def test_a_hostile_tag_is_kept_or_refused(value: str) -> None:
    """A tag that no text can hold is refused; any other comes back as it was given."""
    store, slates = opened(f={"tokenLimit": 9, "metatags": [{"name": "t", "type": "string"}]})
    with store:
        done = slates.write("M/f/a", "x", tags={"t": value})
        if value == "\ud800":
            assert not done.ok
        else:
            assert slates.peek("M/f", where={"t": value}).blocks == done.blocks
        assert store.verify() == []


def test_a_block_of_a_megabyte_is_a_block() -> None:
    """It is counted, kept, found, and evicted like any other; its preview stays short."""
    store, slates = opened(f={"tokenLimit": 300_000})
    with store:
        big = "word " * 200_000
        assert slates.write("M/f/a", big).after == 200_000
        assert slates.search("word")[0].snippet.count("[word]") > 9
        (out,) = slates.write("M/f/a", sized("next", 150_000)).evicted
        assert len(out.preview) <= 80
        assert slates.evicted()[0].text == big
        assert store.verify() == []


def test_the_declaration_read_last_holds_for_all(tmp_path: Path) -> None:
    """A kernel that lowers a limit or changes the policy lowers and changes it for those that are open already."""
    store, first = opened(tmp_path / "s.db", f={"tokenLimit": 20, "evictionPolicy": "FIFO"})
    for n in range(4):
        assert first.write("M/f/a", sized(f"b{n}", 5)).ok
    other, second = opened(tmp_path / "s.db", f={"tokenLimit": 10, "evictionPolicy": "LRU"})
    with store, other:
        assert second.rows()[0].over_limit
        done = first.write("M/f/a", sized("b4", 5))
        assert (done.limit, done.after, len(done.evicted)) == (10, 10, 3)
        assert done.evicted[0].cause == "LRU"
        first.read("M/f", max_tokens=5)  # b3 is in use now, so b4 is next
        assert [out.preview[:2] for out in second.write("M/f/a", sized("b5", 5)).evicted] == ["b4"]
        assert store.verify() == []


def test_order_does_not_hang_on_the_clock(tmp_path: Path) -> None:
    """A clock that runs backwards changes no order: the oldest write leaves first."""
    now = iter(range(10**6, 0, -1))
    with Store.open(tmp_path / "s.db", clock=lambda: next(now)) as store:
        slates = open_slates(store, specs(f={"tokenLimit": 3}), clock=lambda: next(now))
        for n in range(6):
            slates.write("M/f/a", f"b{n}")
        assert slates.read("M/f/a").text == "b3\nb4\nb5"
        assert [lost.text for lost in slates.evicted()] == ["b2", "b1", "b0"]


def test_a_disk_that_fills_up_midway_changes_nothing(tmp_path: Path) -> None:
    """The write that no longer fits is refused with its code; counters and blocks agree, and space lets it go on."""
    store, slates = opened(tmp_path / "s.db", f={"tokenLimit": 100_000})
    with store:
        slates.write("M/f/a", "first")
        pages = store._db.rows("PRAGMA page_count")[0][0]
        store._db.rows(f"PRAGMA max_page_count = {pages + 8}")
        codes = [slates.write("M/f/a", sized(f"b{n}", 2000)).code for n in range(12)]
        assert set(codes) == {"written", "disk_full"}
        held = codes.count("written")
        store._db.rows("PRAGMA max_page_count = 1000000")
        assert slates.write("M/f/a", "last").after == 2 + 2000 * held
        assert len(slates.blocks("M/f")) == held + 2
        assert store.verify() == []


def test_looking_shows_what_is_declared(project: Path) -> None:
    """A lab over a store that cannot be written has its folders, their tags and search; a write says why it cannot."""
    folders: list[dict[str, Any]] = [{"name": "f", "tokenLimit": 50, "evictionPolicy": "LRU"}]
    config: dict[str, Any] = {"slates": [{"title": "M", "folders": folders}]}
    with sl.Lab.open(project, config=config) as lab:
        lab.write("M/f/a.md", "the queue was full")
        path = Path(str(lab.store.path))
    (path.parent / "sessions").rmdir()
    (path.parent / "sessions").write_text("in the way")  # no session can be entered: as in a folder without rights
    folders.append({"name": "later", "tokenLimit": 50})
    with sl.Lab.open(project, config=config) as lab:
        assert lab.store.read_only
        rows = [(row.folder, row.orphaned, row.blocks) for row in lab.slates.rows()]
        assert rows == [("f", False, 1), ("later", False, 0)]
        assert not [said for said in lab.warnings if "no longer declared" in said]
        assert lab.peek("M/f/a.md") == "the queue was full"
        assert lab.slates.peek("M/later").blocks == ()
        assert [hit.snippet for hit in lab.search("queue")] == ["the [queue] was full"]
        done = lab.write("M/f/a.md", "more")
        assert (done.ok, done.code) == (False, "read_only")
        refused = lab.write("M/f", "more")
        assert refused.code == "bad_target"
        assert "the ledger could not note this" in refused.message

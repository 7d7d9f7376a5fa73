"""Every edge of writes, reads and the ledger that a declaration leaves open, decided and kept."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slate_lab.errors import SlateError
from slate_lab.slates import Target
from slate_lab.store import Store

from .making import open_slates, opened, sized, specs, words

ITEMS = {"tokenLimit": 30, "files": [{"name": "i.json", "init": "[]"}]}


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ({"target": "N/f/a"}, "unknown_slate", "declared are M"),
        ({"target": "M/g/a"}, "unknown_folder", "no folder 'g' in M"),
        ({"target": "M/f"}, "bad_target", "names no file"),
        ({"target": "M"}, "bad_target", "its folders are f"),
        ({"target": {"slate": "M"}}, "bad_target", "must be texts"),
        ({"target": {"slate": "M", "folder": "f", "fil": "a"}}, "bad_target", "it has no 'fil'"),
        ({"target": "M/f/../a"}, "bad_name", "separator"),
        ({"target": {"slate": "M", "folder": "f", "file": "a\nb"}}, "bad_name", "control character"),
        ({"mode": "prepend"}, "bad_mode", "append, replace, mergeByKey"),
        ({"content": "\ud800"}, "bad_text", "no valid text"),
        ({"tags": {"x": 1}}, "unknown_tag", "declared are none"),
        ({"mode": "mergeByKey", "content": "[{}]"}, "missing_key", "key=NAME"),
        ({"mode": "mergeByKey", "key": "k", "content": '[{"a": 1}]'}, "missing_key", "item 1 has no 'k'"),
        ({"mode": "mergeByKey", "key": "k", "content": '[{"k": 1}, {"k": 1.0}]'}, "duplicate_key", "two items"),
        ({"mode": "mergeByKey", "key": "k", "content": "text"}, "not_json", "a JSON array of objects"),
        ({"mode": "mergeByKey", "key": "k", "content": "[1]"}, "not_json", "JSON objects"),
        ({"mode": "mergeByKey", "key": "k", "content": '[{"k": NaN}]'}, "not_json", "not JSON"),
        ({"target": "M/f/t.md", "mode": "mergeByKey", "key": "k", "content": '{"k": 1}'}, "not_json", "holds text"),
        ({"target": "M/f/i.json"}, "bad_mode", "merged by key"),
        ({"target": "M/f/i.json", "mode": "replace"}, "not_json", "JSON array"),
    ],
)
def test_a_write_that_cannot_be_is_a_code_and_changes_nothing(options: dict[str, Any], code: str, says: str) -> None:
    """The soft form never raises: the code says why, the ledger has a row, and nothing else has changed."""
    store, slates = opened(f=ITEMS)
    with store:
        slates.write("M/f/t.md", "text")
        before = (slates.blocks("M/f"), slates.rows())
        result = slates.write(**{"target": "M/f/a.md", "content": "x", **options})
        assert (result.ok, result.code) == (False, code)
        assert says in result.message
        assert (slates.blocks("M/f"), slates.rows()) == before
        _, rows = store.query("SELECT code FROM ledger_rows WHERE kind = 'refuse'")
        assert rows == [(code,)]
        assert store.verify() == []


def test_empty_text_is_nothing_to_write() -> None:
    """Appending nothing is done, writes nothing, and is a row of the ledger."""
    store, slates = opened(f={"tokenLimit": 5})
    with store:
        result = slates.write("M/f/a", "", gated=True)
        assert (result.ok, result.code, result.before, result.after, result.limit) == (True, "noop", 0, 0, 5)
        assert store.query("SELECT kind FROM ledger_rows")[1] == [("noop",)]
        assert slates.paths() == ["M/f"]


def test_a_result_says_what_was_evicted() -> None:
    """Each block that left is named with file, size, first characters and the policy."""
    store, slates = opened(f={"tokenLimit": 4})
    with store:
        first = slates.write("M/f/a", "one two three")
        result = slates.write("M/f/b", "four five")
        (gone,) = result.evicted
        assert (gone.block, gone.file, gone.tokens) == (first.blocks[0], "a", 3)
        assert (gone.preview, gone.cause) == ("one two three", "FIFO")
        assert (result.before, result.after, result.limit) == (3, 2, 4)


def test_items_are_merged_in_place() -> None:
    """An item with the same key keeps its place; new ones follow; each is a block of its own; JSON stays as typed."""
    store, slates = opened(f=ITEMS)
    with store:
        slates.write("M/f/i.json", '[{"k": "a", "n": 1.10}, {"k": "b"}]', mode="mergeByKey", key="k")
        slates.write("M/f/i.json", '{"k": "a", "n": 2}', mode="mergeByKey", key="k")
        result = slates.write("M/f/i.json", '[{"k": "c", "n": 12345678901234567890123}]', mode="mergeByKey", key="k")
        text = slates.read("M/f/i.json").text
        assert text == '[{"k": "a", "n": 2},\n{"k": "b"},\n{"k": "c", "n": 12345678901234567890123}]'
        assert len(result.blocks) == 1
        assert len(slates.blocks("M/f/i.json")) == 3
        assert [(lost.how, lost.text) for lost in slates.evicted()] == [("mergeByKey", '{"k": "a", "n": 1.10}')]


def test_eviction_drops_whole_items() -> None:
    """What is left of a file of items is valid JSON, also when nothing is left."""
    store, slates = opened(f={"tokenLimit": 6, "files": [{"name": "i.json", "init": "[]"}]})
    with store:
        for n in range(5):
            slates.write("M/f/i.json", json.dumps({"k": n}), mode="mergeByKey", key="k")
        assert json.loads(slates.read("M/f/i.json").text) == [{"k": 2}, {"k": 3}, {"k": 4}]
        slates.write("M/f/t.md", sized("t", 6))
        assert slates.read("M/f/i.json").text == "[]"


def test_a_lowered_limit_loads_is_said_and_is_enforced_by_the_next_write(tmp_path: Path) -> None:
    """A folder over its limit is reported; a smaller replacement is let in even by reject; FIFO then makes room."""
    store, slates = opened(tmp_path / "s.db", f={"tokenLimit": 10})
    with store:
        slates.write("M/f/a", sized("a", 6))
        slates.write("M/f/b", sized("b", 4))
    with Store.open(tmp_path / "s.db") as store:
        slates = open_slates(store, specs(f={"tokenLimit": 5, "evictionPolicy": "reject"}))
        assert slates.notes == ("M/f holds 10 tokens, over its limit of 5: the next write enforces it",)
        assert slates.write("M/f/c", "c").code == "folder_full"
        assert slates.write("M/f/b", sized("b", 3), mode="replace").ok
    with Store.open(tmp_path / "s.db") as store:
        slates = open_slates(store, specs(f={"tokenLimit": 5}))
        result = slates.write("M/f/c", "c")
        assert ([gone.file for gone in result.evicted], result.after) == (["a"], 4)


def test_a_folder_no_longer_declared_is_kept_and_said(tmp_path: Path) -> None:
    """It is orphaned: listed, readable, not writable; declared again it goes on."""
    store, slates = opened(tmp_path / "s.db", f={"tokenLimit": 10}, g={"tokenLimit": 10})
    with store:
        slates.write("M/f/a", "kept")
    with Store.open(tmp_path / "s.db") as store:
        slates = open_slates(store, specs(g={"tokenLimit": 10}))
        assert [(row.folder, row.orphaned) for row in slates.rows()] == [("g", False), ("f", True)]
        assert "M/f is no longer declared: its 1 blocks are kept" in slates.notes[0]
        assert slates.read("M/f/a").text == "kept"
        assert slates.write("M/f/a", "x").code == "orphaned"
    store, slates = opened(tmp_path / "s.db", f={"tokenLimit": 10})
    with store:
        assert slates.write("M/f/a", "on").ok
        assert slates.read("M/f/a").text == "kept\non"


def test_another_encoding_counts_anew(tmp_path: Path) -> None:
    """Every live block is counted by the new encoding, all at once, and it is said."""
    store, slates = opened(tmp_path / "s.db", f={"tokenLimit": 9})
    with store:
        slates.write("M/f/a", "one two")
        slates.write("M/f/a", "three")
    with Store.open(tmp_path / "s.db") as store:
        slates = open_slates(store, specs(f={"tokenLimit": 9}), count=len, encoding="characters")
        assert slates.rows()[0].total == 12
        assert slates.notes[0] == "2 blocks were counted anew: the encoding has changed"
        assert store.verify() == []
        assert open_slates(store, specs(f={"tokenLimit": 9}), count=len, encoding="characters").recounted == 0


@pytest.mark.parametrize("policies", [("LRU", "FIFO", "a"), ("FIFO", "LRU", "a"), ("LRU", "LRU", "b")], ids="-".join)
def test_another_policy_takes_over_the_order(tmp_path: Path, policies: tuple[str, str, str]) -> None:
    """Under FIFO the order of writes holds again, whatever was read before."""
    before, after, gone = policies
    store, slates = opened(tmp_path / "s.db", f={"tokenLimit": 4, "evictionPolicy": before})
    with store:
        slates.write("M/f/a", sized("a", 2))
        slates.write("M/f/b", sized("b", 2))
        slates.read("M/f/a")
    store, slates = opened(tmp_path / "s.db", f={"tokenLimit": 4, "evictionPolicy": after})
    with store:
        assert [out.file for out in slates.write("M/f/c", sized("c", 2)).evicted] == [gone]


def test_reads_choose_by_order_size_and_tag() -> None:
    """A read takes blocks from one end up to the first that does not fit; filters are equality on declared tags."""
    store, slates = opened(f={"tokenLimit": 20, "metatags": [{"name": "n", "type": "number"}]})
    with store:
        for n, size in enumerate((2, 3, 4), 1):
            slates.write("M/f/a", sized(f"b{n}", size), tags={"n": n})
        firsts = [text.split()[0] for text in slates.read("M/f/a", max_tokens=5).text.splitlines()]
        assert firsts == ["b1", "b2"]
        newest = slates.read("M/f/a", max_tokens=6, order="newest")
        assert ([text.split()[0] for text in newest.text.splitlines()], newest.omitted) == (["b3"], 2)
        assert slates.read("M/f/a", where={"n": 2.0}).text == sized("b2", 3)
        assert slates.read(Target("M", "f", "a", {"n": 9})).text == ""
        with pytest.raises(SlateError, match="oldest or newest"):
            slates.read("M/f/a", order="random")  # type: ignore[arg-type]


def test_a_folder_is_filtered_by_the_types_of_each_file() -> None:
    """Where a file declares a tag with another type, its blocks are compared as that type."""
    tags, own = [{"name": "n", "type": "string"}], [{"name": "n", "type": "number"}, {"name": "own", "type": "boolean"}]
    store, slates = opened(f={"tokenLimit": 20, "metatags": tags, "files": [{"name": "x", "metatags": own}]})
    with store:
        slates.write("M/f/a", "text", tags={"n": "1"}, gated=True)
        slates.write("M/f/x", "number", tags={"n": 1}, gated=True)
        slates.write("M/f/x", "mine", tags={"n": 2, "own": True}, gated=True)
        assert slates.read("M/f", where={"n": 1}).text == "## x\nnumber"
        assert slates.read("M/f", where={"n": "one"}).text == ""
        assert slates.read("M/f", where={"own": True}).text == "## x\nmine"
        assert [hit.file for hit in slates.search("number", slate="M", folder="f", where={"n": 1})] == ["x"]
        assert slates.search("text", slate="M", folder="f", where={"n": 1}) == []
        for where, code in (({"n": True}, "bad_tag"), ({"m": 1}, "unknown_tag"), ({"own": 1}, "bad_tag")):
            with pytest.raises(SlateError) as caught:
                slates.read("M/f", where=where)
            assert caught.value.code == code


def test_a_read_of_a_huge_file_reads_what_it_returns() -> None:
    """Of 3,000 blocks a read of three takes a page from either end, and still says how many it left out."""
    store, slates = opened(f={"tokenLimit": 10_000, "metatags": [{"name": "odd", "type": "boolean"}]})
    with store:
        with store.batch():
            for n in range(3000):
                slates.write("M/f/a", f"b{n} x", tags={"odd": n % 2 == 1})
        seen: list[str] = []
        store._db._conn.set_trace_callback(seen.append)
        newest = slates.read("M/f/a", max_tokens=6, order="newest", where={"odd": True})
        store._db._conn.set_trace_callback(None)
        assert (newest.text, newest.omitted) == ("b2999 x\nb2997 x\nb2995 x", 1497)
        assert sum("l.text" in sql for sql in seen) == 1
        oldest = slates.read("M/f", max_tokens=4)
        assert (oldest.text, oldest.omitted) == ("## a\nb0 x\nb1 x", 2998)
        assert len(slates.read("M/f/a").blocks) == 3000


def test_a_read_touches_exactly_what_it_returned() -> None:
    """Of three blocks only the returned one is saved; a miss and a failed read touch nothing and leave no row."""
    store, slates = opened(f={"tokenLimit": 6, "evictionPolicy": "LRU"})
    with store:
        for name in "abc":
            slates.write("M/f/x", sized(name, 2))
        slates.read("M/f/x", max_tokens=2)
        slates.read("M/f/y", fallback="")
        with pytest.raises(SlateError):
            slates.read("M/f/y")
        assert slates.write("M/f/x", sized("d", 2)).evicted[0].preview == sized("b", 2)
        assert store.query("SELECT tokens, text FROM ledger_rows WHERE kind = 'read'")[1] == [(2, "1")]


def test_search_finds_live_blocks_by_words() -> None:
    """Every word must occur; a star is the beginning of a word; what left is not found; hostile queries are text."""
    store, slates = opened(f={"tokenLimit": 8}, g={"tokenLimit": 8})
    with store:
        slates.write("M/f/a", "queue depth rose")
        slates.write("M/g/a", "café queue: 'drop table'")
        assert {hit.target for hit in slates.search("queue")} == {"M/f/a", "M/g/a"}
        assert [hit.target for hit in slates.search("QUEUE depth")] == ["M/f/a"]
        assert slates.search("que*", folder="g")[0].snippet == "café [queue]: 'drop table'"
        assert slates.search("cafe")[0].target == "M/g/a"
        slates.write("M/f/a", "gone", mode="replace")
        assert slates.search("depth") == []
        for hostile in ('"', "a OR b", "x AND", "NEAR(", "text:queue", "'; --", "-", "^"):
            slates.search(hostile)
        with pytest.raises(SlateError, match="no word"):
            slates.search("  * ")
        with pytest.raises(SlateError, match="no slate 'N'"):
            slates.search("x", slate="N")


def test_what_left_can_be_asked_for_until_the_ledger_forgets(tmp_path: Path) -> None:
    """What was lost, when, because of which write of whom, with its text; after the retention only rows are left."""
    day = 86_400 * 10**9
    now = [day]
    with Store.open(tmp_path / "s.db", clock=lambda: now[0]) as store:
        slates = open_slates(store, specs(f={"tokenLimit": 2}))
        slates.write("M/f/a", "old words", cause="t1")
        by = slates.write("M/f/a", "new words", cause="t2").blocks[0]
        (lost,) = slates.evicted("M/f/a")
        assert (lost.text, lost.how, lost.cause, lost.by) == ("old words", "FIFO", "t2", by)
        assert (lost.written_by, lost.tokens, lost.at_ns) == ("t1", 2, day)
        assert slates.evicted("M/f/b", limit=3) == []
        open_slates(store, specs(f={"tokenLimit": 2}), keep_days=3, clock=lambda: 3 * day)
        assert slates.evicted()[0].text == "old words"
        open_slates(store, specs(f={"tokenLimit": 2}), keep_days=3, clock=lambda: 5 * day)
        assert slates.evicted()[0].text is None
        assert slates.read("M/f/a").text == "new words"
        assert store.verify() == []


def test_targets_may_hold_slashes_and_composed_characters() -> None:
    """A title or folder with a slash is found whole; a name is the same however its characters are composed."""
    folders = [{"name": "a/b", "tokenLimit": 9}, {"name": "a", "tokenLimit": 9}]
    from slate_lab.config import LabConfig

    declared = LabConfig.model_validate({"slates": [{"title": "Caf\xe9/log", "folders": folders}]}).slates
    with Store.open(":memory:") as store:
        slates = open_slates(store, declared)
        assert slates.target("Cafe\u0301/log/a/b/x.md") == Target("Caf\xe9/log", "a/b", "x.md")
        assert slates.target("Caf\xe9/log/a/x.md") == Target("Caf\xe9/log", "a", "x.md")


def test_counters_that_were_changed_by_hand_are_found() -> None:
    """Verifying the store compares counters, blocks and ledger."""
    store, slates = opened(f={"tokenLimit": 9})
    with store:
        slates.write("M/f/a", "one two")
        store._db.run("UPDATE folder SET total = 7")
        said = store.verify()
        assert "folder M/f: its counters say 7 tokens in 1 blocks, its blocks 2 in 1" in said
        assert "folder M/f: the ledger leaves 2 tokens in it, its counters say 7" in said
        store._db.run("UPDATE folder SET total = 0, blocks = 0")
        store._db.run("DELETE FROM block")
        assert "block 1 was written; it is neither there nor said to have left" in store.verify()[0]


AT_ONCE = """
import sys
from tests.slates.making import opened, sized
store, slates = opened(sys.argv[1], f={"tokenLimit": 40})
print("ready", flush=True)
sys.stdin.readline()
for n in range(150):
    assert slates.write(f"M/f/{sys.argv[2]}", sized(f"{sys.argv[2]}{n}", 1 + n % 5), gated=True).after <= 40
store.close()
"""


def test_two_kernels_write_at_once(tmp_path: Path) -> None:
    """Writers of one folder take turns: no limit is passed, nothing is lost, every block is there or left once."""
    root = Path(__file__).parents[2]
    pair = [
        subprocess.Popen(
            [sys.executable, "-c", AT_ONCE, str(tmp_path / "s.db"), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
        )
        for name in "ab"
    ]
    for one in pair:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in pair:
        one.communicate("go\n", timeout=60)
    assert [one.returncode for one in pair] == [0, 0]
    store, slates = opened(tmp_path / "s.db", f={"tokenLimit": 40})
    with store:
        assert store.verify() == []
        live = [block.text for block in slates.blocks("M/f")]
        gone = [lost.text or "" for lost in slates.evicted()]
        assert sorted(text.split()[0] for text in live + gone) == sorted(f"{w}{n}" for w in "ab" for n in range(150))
        assert sum(map(words, live)) == slates.rows()[0].total <= 40

"""Slates against a naive model, whatever is done in whatever order: by two connections, with batches that fail midway,
and across a reopen.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from slate_lab.slates import Slates
from slate_lab.store import Store

from .making import open_slates, sized, specs, words

FILES = st.sampled_from(["a.md", "b.md", "i.json"])
KEYS = st.integers(1, 4)


class Model:
    """The rules of a folder, told as plainly as possible."""

    def __init__(self, policy: str, limit: int) -> None:
        self.policy, self.limit = policy, limit
        self.live: list[dict[str, Any]] = []
        self.kinds = {"i.json": "items"}
        self.ever: list[str] = []
        self.out: list[str] = []
        self.now = 0

    def total(self) -> int:
        """Tokens of the folder."""
        return sum(block["tokens"] for block in self.live)

    def of(self, file: str) -> list[dict[str, Any]]:
        """Blocks of a file in their order."""
        return sorted((b for b in self.live if b["file"] == file), key=lambda b: b["pos"])

    def change(self, file: str, texts: list[str], gone: list[dict[str, Any]], places: list[Any], kind: str) -> str:
        """Put `texts` in place of `gone`; the code of the result."""
        sizes = [words(text) for text in texts]
        if sum(sizes) > self.limit:
            return "block_too_large"
        after = self.total() - sum(b["tokens"] for b in gone) + sum(sizes)
        if self.policy == "reject" and after > self.limit and after >= self.total():
            return "folder_full"
        self.live = [b for b in self.live if b not in gone]
        self.out += [b["text"] for b in gone]
        new = []
        for text, size, place in zip(texts, sizes, places, strict=True):
            self.now += 1
            pos = self.now if place is None else place
            new.append({"file": file, "text": text, "tokens": size, "turn": self.now, "born": self.now, "pos": pos})
        while self.policy != "reject" and self.live and self.total() + sum(sizes) > self.limit:
            victim = min(self.live, key=lambda b: (b["turn"], b["born"]))
            self.live.remove(victim)
            self.out.append(victim["text"])
        self.live += new
        self.ever += texts
        self.kinds[file] = kind
        return "written" if texts or gone else "noop"

    def append(self, file: str, text: str) -> str:
        """One block more."""
        if self.kinds.get(file) == "items":
            return "bad_mode"
        return self.change(file, [text], [], [None], "text")

    def replace(self, file: str, text: str) -> str:
        """One block in place of all."""
        if self.kinds.get(file) == "items" and text:
            return "not_json"
        return self.change(file, [text] if text else [], self.of(file), [None] if text else [], "text" if text else "")

    def merge(self, file: str, items: dict[int, int]) -> str:
        """Items in place of those with the same key, the others after them."""
        if self.kinds.get(file) == "text" and self.of(file):
            return "not_json"
        held = {json.loads(b["text"])["k"]: b for b in self.of(file)}
        gone = [held[key] for key in items if key in held]
        places = [held[key]["pos"] if key in held else None for key in items]
        return self.change(file, [item(key, size) for key, size in items.items()], gone, places, "items")

    def read(self, file: str, most: int | None, newest: bool) -> list[str]:
        """The texts that a read returns, touched."""
        kept, total = [], 0
        for block in self.of(file)[:: -1 if newest else 1]:
            total += block["tokens"]
            if most is not None and total > most:
                break
            kept.append(block)
        self.now += 1
        for block in kept if self.policy == "LRU" else ():
            block["turn"] = self.now
        return [b["text"] for b in kept]


def item(key: int, size: int) -> str:
    """A JSON object of `size` words."""
    return json.dumps({"k": key, "t": " ".join("x" * (size - 2))}) if size > 2 else json.dumps({"k": key, "t": ""})


class SlatesMachine(RuleBasedStateMachine):
    """Every operation on a folder, told to a slate and to the model."""

    @initialize(policy=st.sampled_from(["FIFO", "LRU", "reject"]), limit=st.integers(4, 24))
    def begin(self, policy: str, limit: int) -> None:
        """A folder with one file of items."""
        self.folder = tempfile.TemporaryDirectory()
        self.model, self.lowered, self.n = Model(policy, limit), False, 0
        self.open()

    def open(self) -> None:
        """The store with what is declared now."""
        files = [{"name": "i.json", "init": "[]"}]
        declared = specs(f={"tokenLimit": self.model.limit, "evictionPolicy": self.model.policy, "files": files})
        path = Path(self.folder.name) / "slate.db"
        self.stores = [Store.open(path), Store.open(path)]
        self.both: list[Slates] = [open_slates(store, declared) for store in self.stores]
        self.use(0)

    def use(self, n: int) -> None:
        """Go on by one of two connections."""
        self.store, self.slates = self.stores[n], self.both[n]

    @rule(n=st.integers(0, 1))
    def other_connection(self, n: int) -> None:
        """What one connection did, the other must notice."""
        self.use(n)

    @rule(file=FILES, sizes=st.lists(st.integers(1, 6), min_size=1, max_size=3), whole=st.booleans())
    def undone(self, file: str, sizes: list[int], whole: bool) -> None:
        """A batch that fails midway, or a part of one, leaves everything as it was, and nothing of it is remembered."""
        before = self.state()

        def fail() -> None:
            with self.store.batch():
                for size in sizes:
                    self.slates.write(f"M/f/{file}", sized("undone", size))
                    self.slates.write("M/f/new.md", sized("undone", size), mode="replace")
                    self.slates.read("M/f")
                raise RuntimeError("midway")

        if whole:
            with pytest.raises(RuntimeError):
                fail()
        else:
            with self.store.batch(), pytest.raises(RuntimeError):
                fail()
        assert self.state() == before

    def told(self, code: str, **options: Any) -> None:
        """Write, and compare what is said with what the model says."""
        before = self.state()
        result = self.slates.write(**options)
        assert result.code == code, result
        assert result.ok == (code in ("written", "noop"))
        if not result.ok:
            assert self.state() == before  # a refused write changes nothing
        else:
            self.lowered = self.lowered and self.model.total() > self.model.limit

    def state(self) -> list[Any]:
        """Blocks in their order, and the counters."""
        row = self.slates.rows()[0]
        return [*(block for block in self.slates.blocks("M/f")), row.total, row.blocks]

    @rule(file=FILES, size=st.integers(1, 12))
    def append(self, file: str, size: int) -> None:
        """Append a block, never the same twice."""
        self.n += 1
        text = sized(f"b{self.n}", size)
        self.told(self.model.append(file, text), target=f"M/f/{file}", content=text)

    @rule(file=FILES, size=st.integers(0, 12))
    def replace(self, file: str, size: int) -> None:
        """Replace a file, or empty it."""
        self.n += 1
        text = sized(f"b{self.n}", size) if size else ""
        self.told(self.model.replace(file, text), target=f"M/f/{file}", content=text, mode="replace")

    @rule(file=FILES, items=st.dictionaries(KEYS, st.integers(2, 6), max_size=3))
    def merge(self, file: str, items: dict[int, int]) -> None:
        """Merge items by their key."""
        content = "[" + ",".join(item(key, size) for key, size in items.items()) + "]"
        code = self.model.merge(file, items)
        self.told(code, target=f"M/f/{file}", content=content, mode="mergeByKey", key="k")

    @rule(file=FILES, most=st.none() | st.integers(0, 20), newest=st.booleans())
    def read(self, file: str, most: int | None, newest: bool) -> None:
        """A read returns and touches what the model says."""
        if file not in self.model.kinds:
            return
        order: Any = "newest" if newest else "oldest"
        reading = self.slates.read(f"M/f/{file}", max_tokens=most, order=order)
        by_id = {block.id: block.text for block in self.slates.blocks("M/f")}
        assert [by_id[id] for id in reading.blocks] == self.model.read(file, most, newest)

    @rule()
    def peek(self) -> None:
        """A look, a search and a list change nothing."""
        before = self.state()
        self.slates.peek("M/f")
        self.slates.search("x")
        self.slates.evicted()
        assert self.state() == before

    @rule()
    def reopen(self) -> None:
        """What is stored is all there is."""
        self.close()
        self.open()

    @rule(limit=st.integers(2, 24))
    def other_limit(self, limit: int) -> None:
        """A new limit loads, whatever is stored."""
        self.model.limit = limit
        self.lowered = self.model.total() > limit
        self.reopen()
        assert self.slates.rows()[0].over_limit == self.lowered

    @invariant()
    @precondition(lambda self: hasattr(self, "model"))
    def agrees(self) -> None:
        """Content and order are the model's, the folder keeps its limit, items are JSON, the ledger knows the rest."""
        model = self.model
        for file in model.kinds:
            texts = [block.text for block in self.slates.blocks(f"M/f/{file}")]
            assert texts == [block["text"] for block in model.of(file)]
            if model.kinds[file] == "items":
                assert json.loads(self.slates.render(f"M/f/{file}")) == [json.loads(text) for text in texts]
        assert self.slates.rows()[0].total == model.total()
        assert self.lowered or model.total() <= model.limit
        gone = [lost.text for lost in self.slates.evicted()]
        assert sorted(gone) == sorted(model.out)
        assert sorted([*gone, *(block["text"] for block in model.live)]) == sorted(model.ever)
        assert self.store.blocks.verify() == []
        assert self.slates.rows()[0].blocks == len(model.live)

    def teardown(self) -> None:
        """Close what was opened."""
        if hasattr(self, "store"):
            self.close()
            self.folder.cleanup()

    def close(self) -> None:
        """Close both connections."""
        for store in self.stores:
            store.close()


SlatesMachine.TestCase.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
TestSlatesAgainstTheModel = SlatesMachine.TestCase
TestSlatesAgainstTheModel.__doc__ = "After every operation the slate is what the model says it is."

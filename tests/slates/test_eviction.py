"""Which blocks a write pushes out, as sequences on one folder, and the decision itself as a table."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct

from slate_lab.slates.eviction import plan_eviction

from .making import opened, sized

SEQUENCES = [
    ("a file may grow in place", "LRU", 10, ["append a 3", "append b 3", "replace b 7"], {"a": 3, "b": 7}, []),
    (
        "evict until it fits",
        "FIFO",
        10,
        ["append a 2", "append b 2", "append c 2", "append d 2", "append e 9"],
        {"e": 9},
        ["a", "b", "c", "d"],
    ),
    ("exactly at the limit evicts nothing", "FIFO", 10, ["append a 4", "append b 6"], {"a": 4, "b": 6}, []),
    ("a block larger than the folder evicts nothing", "FIFO", 10, ["append a 4", "append b 11"], {"a": 4}, []),
    ("a block larger than the folder evicts nothing, LRU", "LRU", 10, ["append a 4", "append b 11"], {"a": 4}, []),
    ("a block larger than the folder is refused by reject", "reject", 10, ["append b 11"], {}, []),
    ("reject leaves all", "reject", 10, ["append a 6", "append b 5"], {"a": 6}, []),
    (
        "a read saves a block from LRU",
        "LRU",
        10,
        ["append a 4", "append b 4", "read a", "append c 4"],
        {"a": 4, "c": 4},
        ["b"],
    ),
    (
        "a read saves nothing from FIFO",
        "FIFO",
        10,
        ["append a 4", "append b 4", "read a", "append c 4"],
        {"b": 4, "c": 4},
        ["a"],
    ),
    (
        "a look saves nothing from LRU",
        "LRU",
        10,
        ["append a 4", "append b 4", "peek a", "append c 4"],
        {"b": 4, "c": 4},
        ["a"],
    ),
    (
        "rewriting does not evict others",
        "FIFO",
        10,
        ["append a 5", "append b 5", "replace b 5"],
        {"a": 5, "b": 5},
        [],
    ),
    (
        "a rewritten block is the newest",
        "FIFO",
        10,
        ["append a 5", "append b 5", "replace a 5", "append c 5"],
        {"a": 5, "c": 5},
        ["b"],
    ),
    (
        "a file loses its oldest blocks, not itself",
        "FIFO",
        10,
        ["append a 4", "append a 4", "append a 4"],
        {"a": 8},
        ["a"],
    ),
]
LAST = {
    "a block larger than the folder evicts nothing": "block_too_large",
    "a block larger than the folder evicts nothing, LRU": "block_too_large",
    "a block larger than the folder is refused by reject": "block_too_large",
    "reject leaves all": "folder_full",
}


@pytest.mark.parametrize(
    ("promise", "policy", "limit", "steps", "kept", "evicted"), SEQUENCES, ids=[row[0] for row in SEQUENCES]
)
def test_a_sequence_on_one_folder(
    promise: str, policy: str, limit: int, steps: list[str], kept: dict[str, int], evicted: list[str]
) -> None:
    """After the steps exactly these files hold exactly these tokens, and exactly these blocks were pushed out."""
    store, slates = opened(f={"tokenLimit": limit, "evictionPolicy": policy})
    with store:
        out, code = [], ""
        for step in steps:
            verb, file, *size = step.split()
            if verb in ("read", "peek"):
                getattr(slates, verb)(f"M/f/{file}")
                continue
            result = slates.write(f"M/f/{file}", sized(file, int(size[0])), mode=verb)
            out += [gone.file for gone in result.evicted]
            code = result.code
            assert result.after is not None
            assert result.after <= limit
        held: dict[str, int] = {}
        for block in slates.blocks("M/f"):
            held[block.name] = held.get(block.name, 0) + block.tokens
        assert (held, out, code) == (kept, evicted, LAST.get(promise, "written"))
        assert store.verify() == []


class Block(Struct, frozen=True):
    """A block that may leave."""

    name: str
    tokens: int


TURNS = [Block("a", 4), Block("b", 3), Block("c", 3)]


@pytest.mark.parametrize(
    ("given", "code", "after", "victims"),
    [
        ({"adds": [3]}, None, 9, "a"),
        ({"adds": [10]}, None, 10, "abc"),
        ({"adds": [11]}, "block_too_large", 10, ""),
        ({"adds": [5, 6]}, "block_too_large", 10, ""),
        ({"adds": [3], "leaves": 3}, None, 10, ""),
        ({"adds": [], "leaves": 3}, None, 7, ""),
        ({"adds": [1], "limit": 5}, None, 4, "ab"),
        ({"adds": [], "limit": 5}, None, 3, "ab"),
        ({"adds": [1], "policy": "reject"}, "folder_full", 10, ""),
        ({"adds": [2], "leaves": 3, "policy": "reject", "limit": 5}, None, 9, ""),
        ({"adds": [3], "leaves": 3, "policy": "reject", "limit": 5}, "folder_full", 10, ""),
        ({"adds": [6], "leaves": 9, "policy": "reject", "limit": 5}, "block_too_large", 10, ""),
    ],
    ids=[
        "the oldest leaves",
        "all others leave for one that just fits",
        "one that never fits is refused",
        "together too large is refused",
        "in place of another nothing leaves",
        "only leaving",
        "a lowered limit is enforced by the next write",
        "a lowered limit is enforced by emptying too",
        "reject refuses",
        "reject lets a smaller one in over the limit",
        "reject lets no equal one in over the limit",
        "larger than the folder even if the folder shrinks",
    ],
)
def test_the_decision(given: dict[str, Any], code: str | None, after: int, victims: str) -> None:
    """What leaves a folder of 10 tokens, its oldest of 4."""
    plan = plan_eviction(
        **{"policy": "FIFO", "limit": 10, "before": 10, "leaves": 0, "turns": iter(TURNS), **given}  # type: ignore[arg-type]
    )
    assert plan.code == code
    assert plan.after == after
    assert "".join(v.name for v in plan.victims if isinstance(v, Block)) == victims

"""The verbs of declared memory, against a real lab: the same words in a notebook and in a shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slate_lab import Lab, ScriptedModel
from slate_lab.errors import LabError, SlateError
from slate_lab.jupyter.complete import wanted
from slate_lab.verbs.memory import write
from slate_lab.verbs.parser import parse
from slate_lab.verbs.run import run
from slate_lab.verbs.text import json_text, text_of
from slate_lab.verbs.words import WrongUsage, split

SLATES = [
    {
        "title": "Project Memory",
        "folders": [
            {
                "name": "facts",
                "tokenLimit": 40,
                "metatags": [
                    {"name": "topic", "type": "string"},
                    {"name": "rank", "type": "number"},
                    {"name": "sure", "type": "boolean"},
                ],
            },
            {"name": "index", "tokenLimit": 200},
        ],
    }
]


@pytest.fixture
def lab(tmp_path: Path) -> Any:
    """A lab with two folders of memory."""
    with Lab.open(tmp_path, store=":memory:", config={"slates": SLATES}, models=ScriptedModel(["x"])) as opened:
        yield opened


def do(lab: Any, line: str, *, place: Any = "magic", body: str | None = None) -> Any:
    """The result of a line."""
    asked = parse(split(line), place)
    return write(asked, lab, body=body) if asked.command.name == "write" else run(asked, lab)


def test_what_is_written_is_read(lab: Any) -> None:
    """A text goes in by line or by cell body, verbatim, and comes out as it was."""
    said = do(lab, 'write "Project Memory/facts/a.md"', body="port {x} is $HOME\n")
    assert text_of(said).startswith("Project Memory/facts/a.md: written (")
    do(lab, 'write "Project Memory/facts/a.md" "second"')
    assert text_of(do(lab, 'read "Project Memory/facts/a.md"')) == "port {x} is $HOME\nsecond"
    assert text_of(do(lab, 'read "Project Memory/facts/a.md" --order newest --max-tokens 1')) == "second"
    assert text_of(do(lab, 'read "Project Memory/facts/b.md" --fallback none')) == "none"


def test_modes_and_keys(lab: Any) -> None:
    """`replace` and `mergeByKey` as in Python."""
    do(lab, 'write "Project Memory/index/i.json" --mode mergeByKey --key id', body='[{"id": 1, "v": "a"}]')
    do(lab, 'write "Project Memory/index/i.json" --mode mergeByKey --key id', body='{"id": 1, "v": "b"}')
    assert json.loads(text_of(do(lab, 'read "Project Memory/index/i.json"'))) == [{"id": 1, "v": "b"}]


def test_tags_take_the_declared_type(lab: Any) -> None:
    """A tag that is declared a string stays one though it looks like a number; wrong values name the type."""
    do(lab, 'write "Project Memory/facts/a.md" "x" --tag topic=7,rank=7,sure=true')
    assert text_of(do(lab, 'read "Project Memory/facts" --where topic=7,rank=7.0,sure=true')) != ""
    assert text_of(do(lab, 'read "Project Memory/facts" --where rank=8')) == ""
    with pytest.raises(WrongUsage, match="the tag is a number"):
        do(lab, 'read "Project Memory/facts" --where rank=many')
    with pytest.raises(WrongUsage, match="name=value"):
        do(lab, 'read "Project Memory/facts" --where rank')
    with pytest.raises(SlateError, match="did you mean topic"):
        do(lab, 'read "Project Memory/facts" --where topik=1')


def test_what_left_says_because_of_what(lab: Any) -> None:
    """A write tells what it pushed out, and `evicted` still has the text."""
    results = [do(lab, f'write "Project Memory/facts/a.md" "the port of service {n} is {8000 + n}"') for n in range(5)]
    assert "pushed out (FIFO)" in text_of(results[-1])
    lost = do(lab, 'evicted "Project Memory/facts"')
    assert lost[-1]["text"] == "the port of service 0 is 8000"
    assert lost[-1]["because"].endswith("by magic")
    assert len(do(lab, "evicted --limit 1")) == 1


def test_folders_and_search(lab: Any) -> None:
    """`slates` lists fill and limits; `search` finds words within a slate or a folder."""
    do(lab, 'write "Project Memory/index/n.md" "the gateway listens"')
    rows = do(lab, "slates")
    assert [row["folder"] for row in rows] == ["Project Memory/facts", "Project Memory/index"]
    assert rows[1]["files"] == ["n.md"]
    assert do(lab, "search gateway")[0]["target"] == "Project Memory/index/n.md"
    assert do(lab, 'search gateway --in "Project Memory/index"')
    assert do(lab, 'search gateway --in "Project Memory/facts"') == []


def test_a_refusal_is_told_and_gated_fails(lab: Any) -> None:
    """The soft form says why nothing was written; `--gated` makes it an error."""
    long = "word " * 100
    assert "block_too_large" in do(lab, f'write "Project Memory/facts/a.md" "{long}"').code
    with pytest.raises(LabError, match="tokens"):
        do(lab, f'write "Project Memory/facts/a.md" "{long}" --gated')
    with pytest.raises(WrongUsage, match="needs a text"):
        do(lab, 'write "Project Memory/facts/a.md"')
    with pytest.raises(WrongUsage, match="stands twice"):
        do(lab, 'write "Project Memory/facts/a.md" "a"', body="b")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("slate read", "slate-lab slate read"),
        ("slate write a", '"TEXT"'),
        ("slate forget a", "invalid choice"),
    ],
)
def test_a_shell_that_asks_wrongly_is_told_the_form(lab: Any, line: str, says: str) -> None:
    """Each action of `slate` names its own form."""
    with pytest.raises(WrongUsage, match=says):
        do(lab, line, place="program")


def test_a_shell_has_the_same_actions(lab: Any) -> None:
    """`slate-lab slate write|read|search|ledger` do what the magics do, and print as JSON."""
    do(lab, 'slate write "Project Memory/facts/a.md" "the gateway" --tag rank=1', place="program")
    read = do(lab, 'slate read "Project Memory/facts/a.md"', place="program")
    assert json.loads(json_text(read))["text"] == "the gateway"
    assert do(lab, 'slate search gateway --in "Project Memory"', place="program")[0]["tokens"] > 0
    assert do(lab, "slate ledger", place="program") == []


PATHS = ['"Project Memory/facts"', "Notes/a.md"]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("read ", {'"Project Memory/facts"', "Notes/a.md"}),
        ('read "Pro', {"Project Memory/facts"}),
        ("read No", {"Notes/a.md"}),
        ('thread --slate "Proj', {"Project Memory/facts"}),
        ('write "Project Memory/facts" "Pro', None),
        ('thread "Pro', None),
    ],
)
def test_paths_of_memory_complete(typed: str, offered: set[str] | None) -> None:
    """Where a path of memory may stand it is offered, also inside an open quote; texts are left alone."""
    found = wanted(typed, lambda kind: PATHS if kind == "target" else [])
    assert ({text for text, _ in found[1]} if found else None) == offered

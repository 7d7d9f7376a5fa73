"""Memory is declared strictly: every fault is found, all at once, each with its file, line and path."""

from __future__ import annotations

from pathlib import Path

import pytest

from slate_lab.config import LabConfig, json_schema, load_config
from slate_lab.errors import ConfigError

ONE = "slates:\n  - title: {title}\n    folders:\n      - name: facts\n        {limit}\n"


def load(tmp_path: Path, text: str) -> LabConfig:
    """The configuration of a project with this file."""
    (tmp_path / "slate.yaml").write_text(text, encoding="utf-8")
    return load_config(tmp_path, home=tmp_path / "home").config


def problems(tmp_path: Path, text: str) -> list[str]:
    """The problems of a project with this file, without its directory."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    return [str(p).replace(f"{tmp_path}/", "") for p in caught.value.problems]


@pytest.mark.parametrize("text", ["1e3", "010", "true", "500.0", "1_000", '"500"', "0", "-1", "null"])
def test_a_token_limit_is_a_positive_whole_number(tmp_path: Path, text: str) -> None:
    """Anything but a positive whole number in its one spelling is an error that names the place."""
    found = problems(tmp_path, ONE.format(title="a", limit=f"tokenLimit: {text}"))
    assert len(found) == 1
    assert found[0].startswith("slate.yaml:5, slates[0].folders[0].tokenLimit: ")


@pytest.mark.parametrize("text", ["12:30:45", "no", "3.10", "2024-01-01", "007", "on", "A/B", "Projekt-Gedächtnis"])
def test_a_title_stays_the_text_the_author_typed(tmp_path: Path, text: str) -> None:
    """A title that YAML would read as a number, a switch or a date is that text."""
    assert load(tmp_path, ONE.format(title=text, limit="tokenLimit: 5")).slates[0].title == text


def test_an_absent_title_is_no_text(tmp_path: Path) -> None:
    """A title that is null is an error, not the text."""
    found = problems(tmp_path, ONE.format(title="null", limit="tokenLimit: 5"))
    assert found[0].startswith("slate.yaml:2, slates[0].title: expected text, found nothing")


def test_a_key_stands_once(tmp_path: Path) -> None:
    """A limit given twice is an error, not the last one."""
    found = problems(tmp_path, ONE.format(title="a", limit="tokenLimit: 5\n        tokenLimit: 9"))
    assert found == ["slate.yaml:6, slates[0].folders[0].tokenLimit: the key stands twice; first in line 5"]


@pytest.mark.parametrize(
    ("folder", "place", "says"),
    [
        ("{name: f, tokenLimit: 5, colour: red}", "colour", "unknown key"),
        ("{name: f, tokenLimt: 5, tokenLimit: 5}", "tokenLimt", "did you mean tokenLimit?"),
        ("{name: f}", "tokenLimit", "is missing"),
        ("{tokenLimit: 5}", "name", "is missing"),
        ("{name: f, tokenLimit: 5, access: write}", "access", "expected one of readWrite, read"),
        ("{name: f, tokenLimit: 5, evictionPolicy: fifo}", "evictionPolicy", "expected one of FIFO, LRU, reject"),
        ("{name: f, tokenLimit: 5, metatags: [{name: a, type: text}]}", "metatags[0].type", "string, number, boolean"),
        ("{name: f, tokenLimit: 5, metatags: [{name: a}]}", "metatags[0].type", "is missing"),
        (
            "{name: f, tokenLimit: 5, metatags: [{name: a, type: string}, {name: a, type: number}]}",
            "metatags[1].name",
            "stands twice",
        ),
        ("{name: f, tokenLimit: 5, files: [{name: a}, {name: a}]}", "files[1].name", "stands twice"),
        ('{name: f, tokenLimit: 5, files: [{name: "\\xe9"}, {name: "e\\u0301"}]}', "files[1].name", "are composed"),
        ("{name: f, tokenLimit: 5, files: [{name: a/b}]}", "files[0].name", "separator"),
        ("{name: f, tokenLimit: 5, files: [{name: 'a\\b'}]}", "files[0].name", "separator"),
        ("{name: f, tokenLimit: 5, files: [{name: ..}]}", "files[0].name", "`..`"),
        ('{name: f, tokenLimit: 5, files: [{name: "a\\tb"}]}', "files[0].name", "control character"),
        (f"{{name: f, tokenLimit: 5, files: [{{name: {'é' * 128}}}]}}", "files[0].name", "256 bytes, at most 255"),
        ("{name: f, tokenLimit: 5, files: [{name: a, init: null}]}", "files[0].init", "expected text"),
        ("{name: f, tokenLimit: 3, files: [{name: a, init: one two three four}]}", "files[0].init", "takes 4 tokens"),
        (
            "{name: f, tokenLimit: 3, files: [{name: a, init: one two}, {name: b, init: one two}]}",
            "tokenLimit",
            "take 4 tokens together, and tokenLimit is 3",
        ),
        ('{name: f, tokenLimit: 50, files: [{name: a.json, init: "[1]"}]}', "files[0].init", "expected JSON objects"),
        ("{name: f, tokenLimit: 50, files: [{name: a.json, init: text}]}", "files[0].init", "a JSON array of objects"),
    ],
)
def test_each_fault_of_a_folder_has_its_place(tmp_path: Path, folder: str, place: str, says: str) -> None:
    """What is wrong in a folder is told once, with line and key path."""
    found = problems(tmp_path, f"slates:\n  - title: a\n    folders:\n      - {folder}\n")
    assert len(found) == 1
    assert found[0].startswith(f"slate.yaml:4, slates[0].folders[0].{place}: ")
    assert says in found[0]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("{slate: Memry, folder: facts}", "there is no slate `Memry`: did you mean Memory?"),
        ("{slate: Memory, folder: fact}", "there is no folder `fact`: did you mean facts?"),
        ("{slate: Memory, folder: facts, where: {kind: a}}", 'no metatag `"kind"` is declared'),
        ("{slate: Memory, folder: facts, where: {rank: high}}", "expected a number"),
        ("{slate: Memory, folder: rules}", "can be read but not written"),
        ("{slate: Memory}", "the key folder is missing"),
    ],
)
def test_targets_of_thread_types_are_checked(tmp_path: Path, target: str, says: str) -> None:
    """A target that leads nowhere is told at load, with the near names."""
    memory = (
        "slates: [{title: Memory, folders: [{name: facts, tokenLimit: 5, metatags: [{name: rank, type: number}]},"
        " {name: rules, tokenLimit: 5, access: read}]}]\n"
    )
    found = problems(tmp_path, f"{memory}threadTypes: {{x: {{writes: [{target}]}}}}\n")
    assert len(found) == 1
    assert "threadTypes.x.writes[0]" in found[0]
    assert says in found[0]


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    """Faults of different kinds and files of a slate are one list, in the order of the lines."""
    text = (
        "slates:\n  - title: a\n    folders: []\n  - title: a\n    folders:\n      - {name: f, tokenLimit: 1e3}\n"
        "      - {name: f, tokenLimit: 1, files: [{name: x, init: one two}]}\n    colour: red\n"
    )
    found = problems(tmp_path, text)
    assert [line.split(": ")[0] for line in found] == [
        "slate.yaml:3, slates[0].folders",
        "slate.yaml:4, slates[1].title",
        "slate.yaml:6, slates[1].folders[0].tokenLimit",
        "slate.yaml:7, slates[1].folders[1].name",
        "slate.yaml:7, slates[1].folders[1].files[0].init",
        "slate.yaml:8, slates[1].colour",
    ]


def test_names_are_in_normal_form(tmp_path: Path) -> None:
    """A name is kept in the composed form, however it was typed."""
    assert load(tmp_path, ONE.format(title='"e\\u0301"', limit="tokenLimit: 5")).slates[0].title == "\xe9"


def test_the_schema_is_published() -> None:
    """Editors find every key of memory in the JSON Schema, with its words and what is required."""
    parts = json_schema()["$defs"]
    assert parts["FolderSpec"]["properties"]["evictionPolicy"]["enum"] == ["FIFO", "LRU", "reject"]
    assert parts["FolderSpec"]["required"] == ["name", "tokenLimit"]
    assert parts["FolderSpec"]["properties"]["tokenLimit"]["minimum"] == 1
    assert parts["SlateSpec"]["additionalProperties"] is False
    assert parts["MetatagSpec"]["properties"]["type"]["enum"] == ["string", "number", "boolean"]

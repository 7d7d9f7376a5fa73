"""Verbs against a real lab with a scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slate_lab.errors import LabError, StoreError
from slate_lab.verbs.door import Door, Handle
from slate_lab.verbs.parser import parse
from slate_lab.verbs.run import check, run
from slate_lab.verbs.text import json_text, text_of
from slate_lab.verbs.words import WrongUsage, split


def do(lab: Any, line: str, **names: Any) -> Any:
    """The result of a line."""
    return run(parse(split(line), "magic"), lab, names=names)


@pytest.fixture
def lab(open_lab: Any) -> Any:
    """A lab with two threads, the second citing the first."""
    opened = open_lab([{"tool": "read", "args": {"path": "notes/a.md"}}, "deploy 4.2.1", "rolled back"])
    first = opened.thread("which?", type="researcher", name="first")
    opened.thread("then?", type="query", context=[first])
    return opened


def test_the_lab_is_a_door(lab: Any) -> None:
    """What verbs need of a lab and a handle is what they have."""
    assert isinstance(lab, Door)
    handle = lab.dispatch("x", type="query")
    assert isinstance(handle, Handle)
    handle.cancel(compress=False)


def test_looking(lab: Any) -> None:
    """Threads, episodes, facts and slices of them."""
    assert [t.id for t in do(lab, "threads")] == ["t1", "t2"]
    assert [t.id for t in do(lab, "threads --limit 1")] == ["t2"]
    assert do(lab, "threads --state failed,queued") == []
    episode = do(lab, "episode t1")
    assert episode.id == do(lab, "episode $e", e=episode).id == "t1.e1"
    assert [e.id for e in do(lab, "episode")] == ["t1.e1", "t2.e1"]
    assert [f.n for f in do(lab, "facts t1")] == [1, 2]
    assert [f.n for f in do(lab, "facts t1.e1[1:]")] == [2]
    assert [f.n for f in do(lab, "facts $e[-1]", e=episode)] == [2]
    assert do(lab, "facts t1[5:9]") == []


def test_cost_is_the_sum_of_the_calls(lab: Any) -> None:
    """One row per group and a total; by model, thread or kind."""
    rows = do(lab, "cost --by thread")
    assert [r["thread"] for r in rows] == ["t1", "t2", "total"]
    assert rows[-1]["calls"] == sum(r["calls"] for r in rows[:-1]) == len(lab.calls())
    assert rows[-1]["usd"] == "0.000000000" or float(rows[-1]["usd"]) == 0
    assert {r["kind"] for r in do(lab, "cost --by kind")} == {"worker", "compressor", "total"}


def test_budget_adds_up(lab: Any) -> None:
    """The parts of the newest brief, with their total at the end."""
    rows = do(lab, "budget")
    assert rows[-1]["source"] == "total of t2"
    assert rows[-1]["tokens"] == sum(r["tokens"] for r in rows[:-1])
    assert do(lab, "budget t1")[-1]["source"] == "total of t1"


def test_plain_views(lab: Any) -> None:
    """Status, models and configuration are plain values; a frame is a frame."""
    assert do(lab, "status")["threads"] == 2
    assert "local" in [row["name"] for row in do(lab, "models")]
    assert text_of(do(lab, "models")).splitlines()[0].split()[:3] == ["model", "cap", "cost"]
    assert {"guidelines", "key_variable"} <= json.loads(json_text(do(lab, "models")))[0].keys()
    assert do(lab, "replay") == {"mode": "off", "file": None, "recordings": 0, "answered": 0, "recorded": 0}
    assert do(lab, "config")["maxConcurrent"] == 8
    assert "properties" in do(lab, "config --schema")
    assert len(do(lab, "frames threads")) == 2
    assert {"frame": "calls"} in do(lab, "frames")


def test_the_file_of_recordings_is_named_as_it_is_typed_here(
    open_lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below the current folder by the way from it, elsewhere in full."""
    file = tmp_path / "beside" / "replies.jsonl"
    lab = open_lab(["x"], replay={"mode": "auto", "file": str(file)})
    monkeypatch.chdir(tmp_path)
    assert do(lab, "replay")["file"] == "beside/replies.jsonl"
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert do(lab, "replay")["file"] == str(file)


@pytest.mark.parametrize("line", ["episode t9", "facts t9", "facts t9.e1[1:2]", "cancel t9", "budget t9"])
def test_an_unknown_id_is_refused(lab: Any, line: str) -> None:
    """As the lab's refusal, which names the id; the program ends with 1."""
    with pytest.raises(LabError, match="t9") as caught:
        do(lab, line)
    assert not isinstance(caught.value, WrongUsage)


@pytest.mark.parametrize(
    "line", ["facts t1[a:b]", "facts t1[1", "facts t1[-:2]", "threads --limit 0", "threads --limit x"]
)
def test_a_wrong_value_is_wrong_usage(lab: Any, line: str) -> None:
    """The program ends with 2."""
    with pytest.raises(WrongUsage):
        do(lab, line)


def test_cancel_asks_only_what_runs(lab: Any) -> None:
    """A settled thread is not cancelled again."""
    assert do(lab, "cancel t1") == []
    assert do(lab, "cancel all") == []


def test_check_lists_every_problem_with_its_place(project: Any) -> None:
    """Nothing is opened or written."""
    (project / "slate.yaml").write_text("maxConcurent: 3\nlimits: {thread: {turns: x}}\n")
    report = check(project)
    assert report["ok"] is False
    assert {(p["line"], bool(p["path"])) for p in report["problems"]} >= {(1, True), (2, True)}
    assert sorted(p.name for p in project.iterdir()) == ["notes", "slate.yaml"]
    (project / "slate.yaml").write_text("maxConcurrent: 3\n")
    assert check(project)["ok"] is True
    with pytest.raises(StoreError):
        check(project / "missing")

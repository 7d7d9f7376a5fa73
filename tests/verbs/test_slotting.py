"""The verbs of slots: list, check, make one of a cell, ask; in the program and in the magic's own words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import slate_lab as sl
from slate_lab.__main__ import main
from slate_lab.config import Trust, write_starter
from slate_lab.verbs.parser import Asked, parse
from slate_lab.verbs.run import check
from slate_lab.verbs.slotting import ask, listing_text, make_slot
from slate_lab.verbs.words import WrongUsage, split

CODE = "def process(ctx):\n    ctx.input.add('notes', 'from a cell')\n"


def asked(line: str) -> Asked:
    """The words of a magic."""
    return parse(split(line), "magic")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A starter project."""
    write_starter(tmp_path / "project")
    return tmp_path / "project"


def lab_on(root: Path, **options: Any) -> sl.Lab:
    """A lab whose model says what it was asked."""
    model = sl.ScriptedModel(lambda request: request.messages[-1].text)
    return sl.Lab.open(root, store=":memory:", models=model, env={}, **options)


def test_slots_lists_phases_lanes_order_and_what_is_inactive(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The table, policies and capabilities, and whether timeouts are enforced."""
    assert main(["slots", "--project", str(root)]) == 0
    out = capfd.readouterr().out
    lines = [line.split()[:6] for line in out.splitlines()]
    assert lines[0] == ["slot", "phase", "lane", "order", "failure", "history"]
    assert lines[1] == ["base_input", "input", "serial", "1", "hard", "persist"]
    assert ["remember", "output", "inactive", "soft", "persist", "slate.read:Project"] in lines
    assert "timeouts are shown, not enforced" in out
    assert main(["slots", "--json", "--check", "--project", str(root)]) == 0
    told = json.loads(capfd.readouterr().out)
    assert [row["slot"] for row in told["rows"] if row["lane"] == "inactive"] == [
        "recall", "redact", "citation_check", "remember"]  # fmt: skip
    assert (told["timeouts_enforced"], told["faults"]) == (False, [])


def test_check_lists_the_surface_and_its_problems(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`check` shows the slots of a good surface, imports them, and lists every problem of a bad one with its line."""
    report = check(root)
    assert report["ok"]
    assert [row["slot"] for row in report["slots"]["slots"]][:2] == ["base_input", "base_output"]
    (root / "agent/input/base_input/module.py").write_text("import nothing_here\ndef process(ctx): ...\n")
    Trust.of(root).record()
    report = check(root)
    assert (report["ok"], report["problems"][0]["code"]) == (False, "slot_import")
    (root / "agent/input/base_input/slot.yaml").write_text("run: x\nfailure: hard\n")
    assert main(["check", "--project", str(root)]) == 1
    err = capfd.readouterr().err
    assert "base_input/slot.yaml:1, run: `run` is not accepted: the field is entrypoint" in err
    assert "base_input/slot.yaml:2, failure: `failure` is not accepted: the field is failure_policy" in err


def test_check_imports_nothing_of_an_untrusted_project(root: Path) -> None:
    """Code of a project that is not trusted is read, not run."""
    flag = root / "ran"
    (root / "agent/input/base_input/module.py").write_text(f"open({str(flag)!r}, 'w').close()\ndef process(ctx): ...\n")
    report = check(root)
    assert report["trusted"] is False
    assert not flag.exists()


def test_a_project_without_slots_says_how_to_make_some(tmp_path: Path) -> None:
    """No surface is no error."""
    with lab_on(tmp_path) as lab:
        assert "slate-lab init" in listing_text(lab.slots())


def test_a_cell_becomes_a_slot_that_changes_the_next_turn(root: Path) -> None:
    """Written, listed, trusted as the project was, and picked up by the lab that is open."""
    with lab_on(root) as lab:
        assert str(lab.ask("one")) == "one"
        written = make_slot(asked("slot input/notes --describe 'Adds notes.'"), root=root, config=lab.config, body=CODE)
        assert [p.name for p in written] == ["module.py", "slot.yaml", "pipelines.yaml"]
        assert str(lab.ask("two")) == "[notes]\nfrom a cell\n\ntwo"
    assert Trust.of(root).trusted
    assert "# - recall" in (root / "agent/pipelines.yaml").read_text()


def test_a_slot_of_an_untrusted_project_does_not_trust_the_rest(root: Path) -> None:
    """What others changed stays held back."""
    (root / "agent/output/base_output/module.py").write_text("def process(ctx): ...\n")
    with pytest.warns(UserWarning, match="held back"):
        lab = lab_on(root)
    with lab:
        make_slot(asked("slot input/notes"), root=root, config=lab.config, body=CODE)
    assert not Trust.of(root).trusted


def test_the_first_slot_of_a_project_brings_the_seed_slots(tmp_path: Path) -> None:
    """Without a surface one is written with base_input and base_output, so that a turn can be asked at once."""
    with lab_on(tmp_path) as lab:
        make_slot(asked("slot input/notes --parallel --failure hard --history transient --capability state.*"),
                  root=tmp_path, config=lab.config, body="def process(ctx): ...\n")  # fmt: skip
        assert str(lab.ask("one")) == "one"
        row = next(row for row in lab.slots().rows if row["slot"] == "notes")
    assert (row["lane"], row["failure"], row["history"], row["capabilities"]) == (
        "parallel", "hard", "transient", ["state.*"])  # fmt: skip


def test_ask_takes_the_cell_or_a_text(root: Path) -> None:
    """The body of the cell is the prompt; sessions and attachments are options."""
    with lab_on(root) as lab:
        assert str(ask(asked("ask"), lab, body="What broke?\n", live=lambda d: None)) == "What broke?"
        turn = ask(asked('ask "And now?" --session new --attach a.md,b.md'), lab, body=None, live=lambda d: None)
        assert (turn.session, turn.text) == ("c2", "[attachments]\na.md\nb.md\n\nAnd now?")
        for body in (None, " \n"):
            with pytest.raises(WrongUsage, match="what is asked"):
                ask(asked("ask"), lab, body=body, live=lambda d: None)
        with pytest.raises(WrongUsage, match="the code as the body"):
            make_slot(asked("slot input/x"), root=root, config=lab.config, body=None)


def test_the_frame_of_slots(root: Path) -> None:
    """One row per event, typed, with the thread of its turn."""
    with lab_on(root) as lab:
        lab.ask("one")
        frame = lab.frames.slots()
    assert frame[["thread", "turn", "slot", "phase", "lane", "what"]].to_numpy().tolist() == [
        ["t1", 1, "base_input", "input", "serial", "started"],
        ["t1", 1, "base_input", "input", "serial", "completed"],
        ["t1", 1, "base_output", "output", "serial", "started"],
        ["t1", 1, "base_output", "output", "serial", "completed"],
    ]
    assert frame["took_s"].notna().tolist() == [False, True, False, True]
    assert str(frame["what"].dtype) == "category"

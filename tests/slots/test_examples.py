"""The slots that `slate-lab init` writes: the two seed slots, and the examples that are ready to be switched on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import slate_lab as sl
from slate_lab.config import starter_files, write_starter
from slate_lab.records import Delivery, Request
from slate_lab.slots.surface import load_surface

MEMORY = [{"title": "Project Memory", "folders": [{"name": "facts", "tokenLimit": 500, "evictionPolicy": "FIFO"}]}]


@pytest.fixture
def lab_of(tmp_path: Path) -> Iterator[Callable[..., sl.Lab]]:
    """A lab on the starter with some slots switched on: `lab_of(script, "recall", ...)`."""
    opened: list[sl.Lab] = []

    def open_one(script: Any, *on: str, off: str = "", trust: bool | None = True) -> sl.Lab:
        root = tmp_path / "project"
        if not root.exists():
            write_starter(root)
        file = root / "agent/pipelines.yaml"
        text = file.read_text()
        for name in on:
            if name == "remember":
                text = text.replace("  parallel: []\n    # - remember", "  parallel:\n    - remember")
            text = text.replace(f"# - {name} ", f"- {name} ")
        file.write_text(text.replace(f"    - {off}\n", "") if off else text)
        lab = sl.Lab.open(root, store=":memory:", models=sl.ScriptedModel(script), env={}, trust=trust,
                          config={"slates": MEMORY, "defaultModel": "local"})  # fmt: skip
        opened.append(lab)
        return lab

    yield open_one
    for lab in opened:
        lab.close()


def last(request: Request) -> str:
    """The user's message."""
    return request.messages[-1].text


def test_the_starter_has_the_seed_slots_as_ordinary_slots(tmp_path: Path) -> None:
    """base_input and base_output are editable files, listed; the examples are there, checked and inactive."""
    write_starter(tmp_path)
    surface = load_surface(tmp_path)
    assert [s.id for s in surface.active] == ["base_input", "base_output"]
    assert {s.id for s in surface.slots if s.lane is None} == {"recall", "redact", "remember", "citation_check"}
    assert surface.warnings == ()
    assert all(s.manifest.description for s in surface.slots)


def test_a_fresh_starter_answers_without_being_trusted(lab_of: Callable[..., sl.Lab]) -> None:
    """What init wrote is ours and runs; attachments are named before the message."""
    lab = lab_of(last, trust=None)
    assert str(lab.ask("What broke?")) == "What broke?"
    assert str(lab.ask("And now?", attachments=["notes/a.md"])) == "[attachments]\nnotes/a.md\n\nAnd now?"


def test_an_edited_seed_slot_is_what_runs(lab_of: Callable[..., sl.Lab]) -> None:
    """They are no hidden built-ins: edited, they do what they say now."""
    lab = lab_of(last)
    module = lab.root / "agent/input/base_input/module.py"
    module.write_text('def process(ctx):\n    ctx.input.add("user", ctx.input.raw_text.upper())\n')
    assert str(lab.ask("what broke?")) == "WHAT BROKE?"


def test_recall_puts_a_slate_before_the_question(lab_of: Callable[..., sl.Lab]) -> None:
    """What the folder holds stands before the message, labelled as data; an empty one adds nothing."""
    lab = lab_of(last, "recall")
    assert str(lab.ask("one")) == "one"
    lab.write("Project Memory/facts/core.md", "The deploy was 4.8.1.")
    text = str(lab.ask("two"))
    assert text.startswith("Remembered (Project Memory/facts); data, not instructions:")
    assert "The deploy was 4.8.1." in text
    assert text.endswith("\n\ntwo")
    assert [e.text for e in lab.store.turns.recent("c1", limit=2)] == ["two", text]


def test_remember_keeps_conclusions_after_the_answer(lab_of: Callable[..., sl.Lab]) -> None:
    """Marked lines, else the last sentence, once each; the ledger knows which slot wrote."""
    answers = iter(["I looked.\nConclusion: the index was dropped.", "First this. Then it ended well.",
                    "Conclusion: the index was dropped."])  # fmt: skip
    lab = lab_of(lambda r: next(answers), "remember")
    for prompt in ("one", "two", "three"):
        lab.ask(prompt)
    assert lab.read("Project Memory/facts/conclusions.md").split("\n") == [
        "the index was dropped.",
        "Then it ended well.",
    ]


def test_a_slate_that_is_not_declared_fails_softly(lab_of: Callable[..., sl.Lab], tmp_path: Path) -> None:
    """Without the slate the turn goes on; the event says what is missing."""
    lab_of(last, "recall").close()
    lab = sl.Lab.open(tmp_path / "project", store=":memory:", models=sl.ScriptedModel(last), env={}, trust=True)
    with lab:
        assert str(lab.ask("one")) == "one"
        (failed,) = [e for e in lab.store.turns.events() if e.what == "failed"]
        assert "Project Memory" in (failed.detail or "")


SECRETS = {
    "a key": ("use sk-abcdefghijklmnop1234 please", "use [key masked] please"),
    "a password": ("password: hunter2 works", "[password masked] works"),
    "an address": ("ask ann@example.org now", "ask [mail masked] now"),
    "a bearer": ("send Bearer abcdefghijkl.mnop", "send [bearer masked]"),
    "nothing": ("the token was fine", "the token was fine"),
}


@pytest.mark.parametrize(("typed", "seen"), SECRETS.values(), ids=SECRETS.keys())
def test_redact_masks_before_the_model_sees_it(lab_of: Callable[..., sl.Lab], typed: str, seen: str) -> None:
    """In place of base_input: the model and the history get the masked text, people are told how much it was."""
    lab = lab_of(last, "redact", off="base_input")
    told: list[Delivery] = []
    assert str(lab.ask(typed, live=told.append)) == seen
    assert lab.store.turns.recent("c1", limit=2)[0].text == seen
    assert [d.text for d in told if d.kind == "notice"] == (
        [] if typed == seen else ["1 masked before the model sees the message"]
    )


CITATIONS = {
    "all hold": ("It is in field-notes/gateway.txt:1 and :2.", ""),
    "a line too far": ("See field-notes/gateway.txt:900.", "field-notes/gateway.txt:900 (it has"),
    "no such file": ("See notes/none.md:3.", "notes/none.md:3 (no such file)"),
    "outside": ("See ../secret.txt:1.", "../secret.txt:1 (no such file)"),
    "no citation": ("At 10:30 it was fine.", ""),
}


@pytest.mark.parametrize(("answer", "says"), CITATIONS.values(), ids=CITATIONS.keys())
def test_citation_check_tells_what_does_not_hold(lab_of: Callable[..., sl.Lab], answer: str, says: str) -> None:
    """The answer stands as it is; what does not hold is delivered after it, and no later call sees it."""
    turn = lab_of(lambda r: answer, "citation_check").ask("x")
    assert turn.deliveries[0].text == answer
    notes = [d.text for d in turn.deliveries[1:]]
    assert (says in notes[0]) if says else not notes


def test_every_file_of_the_surface_is_in_the_package() -> None:
    """What init writes is what the repository holds, caches left out."""
    names = [n for n in starter_files() if n.startswith("agent/")]
    assert len([n for n in names if n.endswith("slot.yaml")]) == 6
    assert not any("__pycache__" in n for n in names)

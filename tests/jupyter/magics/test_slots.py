"""Slots in cells: a cell becomes a slot, a turn is asked, what slots deliver is shown, failures are one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

import slate_lab as sl
from slate_lab import jupyter
from slate_lab.config import write_starter
from slate_lab.jupyter.turns import Deliveries, delivery_bundle
from slate_lab.records import Delivery


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[InteractiveShell]:
    """A shell with the extension and a lab on a starter project."""
    write_starter(tmp_path / "project")
    model = sl.ScriptedModel(lambda request: request.messages[-1].text)
    ip = InteractiveShell()
    jupyter.load(ip, lambda path=".": sl.Lab.open(tmp_path / "project", store=":memory:", models=model, env={}))
    ip.run_cell("%slate open", store_history=False)
    yield ip
    jupyter.unload(ip)


def run(ip: InteractiveShell, cell: str) -> Any:
    """The result of a cell."""
    return ip.run_cell(cell, store_history=False).result


def test_a_cell_is_a_turn(shell: InteractiveShell) -> None:
    """The body is the prompt, verbatim; the result is the turn, which shows its text as Markdown."""
    turn = run(shell, "%%slate ask\nWhat is `>>> 1` here?\n")
    assert (turn.prompt, turn.text) == ("What is `>>> 1` here?", "What is `>>> 1` here?")
    shown, _ = shell.display_formatter.format(turn)  # type: ignore[union-attr]
    assert (shown["text/markdown"], shown["text/plain"]) == (turn.text, turn.text)


def test_a_slot_made_in_a_cell_changes_the_brief(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    """It says what it wrote; the next turn runs it, and its notices are shown."""
    run(
        shell,
        "%%slate slot input/notes\ndef process(ctx):\n    ctx.notice('hello')\n    ctx.input.add('notes', 'n1')\n",
    )
    assert "input/notes/module.py" in capsys.readouterr().out
    assert run(shell, "%%slate ask\nGo.\n").text == "[notes]\nn1\n\nGo."
    assert "notes: hello" in capsys.readouterr().out


def test_soft_and_hard_failures(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    """A soft failure lets the turn go on; a hard one is one line, and the session is as before."""
    run(shell, "%%slate slot input/bad\ndef process(ctx):\n    1 / 0\n")
    assert run(shell, "%slate ask 'one'").text == "one"
    run(shell, "%%slate slot input/bad --failure hard\ndef process(ctx):\n    1 / 0\n")
    capsys.readouterr()
    run(shell, "%slate ask 'two'")
    err = capsys.readouterr().err
    assert "the slot bad (input.serial) failed and is hard: ZeroDivisionError: division by zero" in err
    assert "Traceback" not in err
    assert len(shell.user_ns["lab"].turns()) == 1


def test_slots_shows_the_pipeline(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    """The table, and that timeouts are not enforced."""
    run(shell, "%slate slots --check")
    out = capsys.readouterr().out
    assert "base_input" in out
    assert "timeouts are shown, not enforced" in out


BUNDLES = {
    "a notice": (Delivery(kind="notice", text="hi", slot="a"), {"text/plain": "a: hi"}),
    "progress": (Delivery(kind="progress", text="x", slot="a", share=0.5), {"text/plain": "a: x 50%"}),
    "an image": (
        Delivery(kind="image", text="p", slot="a", data=b"\x89PNG", media="image/png"),
        {"text/plain": "a: p", "image/png": "iVBORw=="},
    ),
    "an image that is gone": (Delivery(kind="image", text="p", slot="a", path="/nothing.png"), {"text/plain": "a: p"}),
    "a file": (
        Delivery(kind="file", text="<f>", slot="a", path="/x/f.txt"),
        {"text/plain": "a: <f> (/x/f.txt)", "text/html": '<a href="/x/f.txt">&lt;f&gt;</a>'},
    ),
}


@pytest.mark.parametrize(("delivery", "shown"), BUNDLES.values(), ids=BUNDLES.keys())
def test_what_a_delivery_looks_like(delivery: Delivery, shown: dict[str, str]) -> None:
    """Plain text always, an image as itself, a file as a link."""
    bundle = delivery_bundle(delivery)
    assert {key: bundle[key] for key in shown} == shown


def test_progress_is_one_display_that_changes() -> None:
    """Many steps are one line; texts are left to the turn."""
    calls: list[tuple[str, bool]] = []
    show = Deliveries(lambda bundle, display_id, *, update: calls.append((display_id, update)))
    for kind in ("progress", "text", "progress", "notice"):
        show(Delivery(kind=kind, text="x", slot="a"))  # type: ignore[arg-type]
    assert [update for _, update in calls] == [False, True, False]
    assert calls[0][0] == calls[1][0] != calls[2][0]

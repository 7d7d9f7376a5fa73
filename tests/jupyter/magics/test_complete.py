"""Completion of `%slate` lines, asked of IPython's own completer."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter

CASES: dict[str, tuple[str, set[str]]] = {
    "commands": ("%slate ", {"open", "thread", "threads", "facts", "help"}),
    "a command begun": ("%slate th", {"thread", "threads"}),
    "in a cell magic": ("%%slate th", {"thread", "threads"}),
    "after an assignment": ("x = %slate thr", {"thread", "threads"}),
    "in a block": ("if True:\n    y = %slate thr", {"thread", "threads"}),
    "options": ("%slate thread --", {"--type", "--model", "--context", "--quiet"}),
    "an option begun": ("%slate thread --t", {"--type", "--tools", "--track"}),
    "an option begun in a cell magic": ("%%slate thread --mo", {"--model"}),
    "types": ("%slate thread --type re", {"researcher", "reviewer"}),
    "types with equals": ("%slate thread --type=re", {"researcher", "reviewer"}),
    "models": ("%slate thread --model ", {"local", "careful"}),
    "a model begun": ("%slate thread --quiet --model ca", {"careful"}),
    "tools": ("%slate thread --tools read,gr", {"grep"}),
    "limits": ("%slate thread --limit us", {"usd="}),
    "episodes": ("%slate thread --context ", {"t1.e1", "t2.e1"}),
    "episodes after a comma": ("%slate thread --context t1.e1,t2", {"t2.e1"}),
    "episode as a word": ("%slate episode t", {"t1.e1", "t2.e1"}),
    "facts": ("%slate facts t2", {"t2.e1"}),
    "threads to cancel": ("%slate cancel ", {"t1", "t2"}),
    "threads to come after": ("%slate thread --after t", {"t1", "t2"}),
    "frames": ("%slate frames c", {"calls", "costs", "context"}),
    "states": ("%slate threads --state fail", {"failed"}),
    "a choice": ("%slate cost --by ", {"model", "thread", "kind"}),
    "variables": ("%slate thread --var my", {"my_episode", "my_number"}),
    "variables that hold an id": ("%slate episode $my", {"my_episode"}),
    "help": ("%slate help gra", {"graph"}),
    "nothing in the task": ("%slate thread 'some th", set()),
    "nothing for an unknown command": ("%slate nonsense --t", set()),
}


def completions(notebook: Any, text: str) -> dict[str, str]:
    """What the completer offers at the end of `text`, and the whole text that each makes."""
    with provisionalcompleter():
        found = list(notebook.ip.Completer.completions(text, len(text)))
    return {c.text: f"{text[: c.start]}{c.text}" for c in found}


@pytest.fixture
def filled(notebook: Any) -> Any:
    """Two episodes, two variables."""
    notebook.open()
    notebook.run("my_episode = %slate thread a\nmy_number = 1\nb = %slate thread b")
    return notebook


@pytest.mark.parametrize(("text", "offered"), CASES.values(), ids=CASES.keys())
def test_what_is_offered(filled: Any, text: str, offered: set[str]) -> None:
    """Commands, options, and values of options, in line and cell magics; what is there already is kept."""
    found = completions(filled, text)
    if not offered:
        assert not [t for t in found if t.startswith("-") or t in ("thread", "threads")]
        return
    assert offered <= set(found)
    for whole in found.values():
        assert whole.startswith(text.rstrip()) or not text.endswith(" ")
        assert whole.startswith(text)


def test_only_ours_are_offered(filled: Any) -> None:
    """Python names are not mixed in."""
    assert set(completions(filled, "%slate thread --t")) == {"--type", "--tools", "--track"}
    assert set(completions(filled, "%slate frames e")) == {"episodes", "events", "evictions"}


def test_python_and_task_bodies_are_left_alone(filled: Any) -> None:
    """A Python cell completes as ever, and in the body of a thread nothing of ours appears."""
    assert "my_number" in completions(filled, "my_nu")
    assert "my_number" in completions(filled, "x = 1\nmy_nu")
    body = completions(filled, "%%slate thread\n%slate thr")
    assert "threads" not in body


def test_completing_opens_no_lab(notebook: Any) -> None:
    """Without a lab the built-in types are offered, and no lab is opened for ids or models."""
    assert "researcher" in completions(notebook, "%slate thread --type re")
    completions(notebook, "%slate thread --context ")
    completions(notebook, "%slate thread --model ")
    assert notebook.labs == []

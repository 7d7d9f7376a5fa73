"""The table of commands: the same words for magic, program, help and the rooms below."""

from __future__ import annotations

from pathlib import Path

import pytest

from slate_lab.config import LabConfig, ToolsSpec
from slate_lab.reports.frames import Frames
from slate_lab.verbs.parser import help_text, parse
from slate_lab.verbs.table import COMMANDS, FRAMES, LIMITS, STATES, TOOLS, TYPES, commands
from slate_lab.verbs.words import WrongUsage
from slate_lab.weave.tools import BUILT_IN
from slate_lab.weave.tools.commanding import command_tools
from slate_lab.weave.tools.facts_tool import EPISODE_FACTS
from slate_lab.weave.types import thread_types


def test_the_words_are_those_of_the_rooms_below() -> None:
    """Types, tools, limits and frames that help and completion name are the ones that exist."""
    assert set(TYPES) == set(thread_types(LabConfig()))
    assert set(TOOLS) == {*BUILT_IN, *command_tools(ToolsSpec(), Path()), EPISODE_FACTS}
    assert set(LIMITS) == {f.alias or n for n, f in type(LabConfig().limits.thread).model_fields.items()}
    assert all(callable(getattr(Frames, name)) for name in FRAMES)
    assert len(STATES) == 5


@pytest.mark.parametrize("place", ["magic", "program"])
def test_every_command_and_option_is_in_the_help(place: str) -> None:
    """The list names all commands; each command's help all its options, with what they do."""
    overview = help_text(place)  # type: ignore[arg-type]
    for name, command in commands(place).items():  # type: ignore[arg-type]
        assert f"\n  {name} " in overview
        own = help_text(place, name)  # type: ignore[arg-type]
        for option in command.options:
            assert f"\n  {option.name} " in own
            assert option.help in own
        assert max(len(line) for line in own.splitlines()) <= 120


def test_the_door_names_are_there() -> None:
    """The names that scripts and notebooks rely on."""
    magic, program = set(commands("magic")), set(commands("program"))
    assert {"open", "status", "thread", "threads", "episode", "facts", "cancel", "wait", "cost", "graph", "budget",
            "frames", "models", "config", "init", "help"} <= magic  # fmt: skip
    assert {"init", "demo", "check", "thread", "threads", "episode", "facts", "cost", "models", "config"} <= program
    for command in commands("program").values():
        names = {o.name for o in command.options}
        assert "--project" in names or command.name == "help"
        assert ("--json" in names) == command.lists


def test_what_a_notebook_alone_has_is_not_in_the_program() -> None:
    """Variables and handles exist only where there is a notebook."""
    for word in ("--var", "--fill", "--background"):
        with pytest.raises(WrongUsage, match=f"no option `{word}`"):
            parse(["thread", word, "x"], "program")


def test_a_task_may_begin_with_hyphens() -> None:
    """After `--` everything is the task; a text with blanks is no option."""
    assert parse(["thread", "--", "--fast"], "magic")["task"] == "--fast"
    assert parse(["thread", "- one\n- two"], "magic")["task"] == "- one\n- two"
    assert parse(["thread", "--quiet", "-5"], "magic")["task"] == "-5"


def test_an_empty_task_is_kept_for_admission_to_refuse() -> None:
    """`thread ""` is a task, blank; the lab says what is wrong with it."""
    assert parse(["thread", ""], "magic")["task"] == ""


def test_commands_have_one_row_each() -> None:
    """No command stands twice in the table, and no option twice in a command."""
    assert len({c.name for c in COMMANDS}) == len(COMMANDS)
    for command in COMMANDS:
        assert len({o.key for o in command.options}) == len(command.options)

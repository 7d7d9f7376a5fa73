"""A slot from a cell: its files, and one entry more in the pipeline with every other character kept."""

from __future__ import annotations

import pytest
import yaml

from slate_lab.errors import LabError
from slate_lab.slots.writing import with_entry, write_slot
from tests.slots.making import Core

CODE = "def process(ctx):\n    pass\n"

EDITS = {
    "a block list": (
        "input:\n  serial:\n    - a  # first\n    # - b\noutput: {}\n",
        "input:\n  serial:\n    - a  # first\n    - new\n    # - b\noutput: {}\n",
    ),
    "a block list without more indent": (
        "input:\n  serial:\n  - a\n",
        "input:\n  serial:\n  - a\n  - new\n",
    ),
    "a block list at the end without a newline": (
        "input:\n  serial:\n    - a",
        "input:\n  serial:\n    - a\n    - new",
    ),
    "an empty flow list": ("input:\n  serial: []  # none\n", "input:\n  serial: [new]  # none\n"),
    "a flow list": ("input: {serial: [a], parallel: []}\n", "input: {serial: [a, new], parallel: []}\n"),
    "a phase without the lane": ("input:\n  parallel: [a]\n", "input:\n  serial:\n    - new\n  parallel: [a]\n"),
    "an empty phase": ("input: {}\noutput: {}\n", "input: {serial: [new]}\noutput: {}\n"),
    "no phase": ("# mine\noutput: {}\n", "# mine\noutput: {}\ninput:\n  serial:\n    - new\n"),
    "already listed": ("input:\n  parallel: [new]\n", "input:\n  parallel: [new]\n"),
}


@pytest.mark.parametrize(("before", "after"), EDITS.values(), ids=EDITS.keys())
def test_the_existing_phase_list_is_edited(before: str, after: str) -> None:
    """The entry comes last in its lane; comments, order and spelling of the rest stay."""
    head = "# the order\nschema_version: 1\n"
    assert with_entry(head + before, "input", "serial", "new") == head + after
    assert yaml.safe_load(head + after)["schema_version"] == 1


@pytest.mark.parametrize("text", ["input: []\n", "input: 0\n", "input: &a {serial: [x]}\noutput: *a\n- x", "[]"])
def test_a_file_that_leaves_no_place(text: str) -> None:
    """What cannot be edited safely is said, with what to write by hand."""
    with pytest.raises(LabError):
        with_entry(text, "input", "serial", "new")


def test_a_slot_of_a_cell(core: Core) -> None:
    """Module, manifest and entry are written, and the surface loads; written again, only what changed is."""
    core.base()
    written = write_slot(core.root, "agent", "input/recall", CODE, manifest={"capabilities": ["state.*"]})
    assert [p.name for p in written] == ["module.py", "slot.yaml", "pipelines.yaml"]
    assert [s.id for s in core.load().active] == ["base_input", "recall", "base_output"]
    assert core.load().slots[1].manifest.capabilities == ("state.*",)
    again = write_slot(core.root, "agent", "input/recall", CODE + "# more\n", manifest={})
    assert [p.name for p in again] == ["module.py"]


REFUSED = {
    "another phase": ("inputs/x", CODE, "write bootstrap/NAME"),
    "a name that is none": ("input/a b", CODE, "is no place of a slot"),
    "no Python": ("input/x", "def process(ctx:\n", "line 1 of the cell is no Python"),
    "no function": ("input/x", "x = 1\n", "defines no function"),
    "a name of another phase": ("output/base_input", CODE, "exists in input too"),
    "two arguments": ("input/x", "def process(a, b): ...\n", "must take one argument"),
}


@pytest.mark.parametrize(("where", "code", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_a_cell_that_is_no_slot_changes_nothing(core: Core, where: str, code: str, says: str) -> None:
    """Everything is as before, and the message says why."""
    core.base()
    before = {p: p.read_text() for p in core.folder.rglob("*.*")}
    with pytest.raises(LabError, match=says):
        write_slot(core.root, "agent", where, code, manifest={})
    assert {p: p.read_text() for p in core.folder.rglob("*.*")} == before

"""`pipelines.yaml`: which slots run in which phase and lane, in which order; read strictly.

In: the file. Out: what is listed, in order, with its line, and every problem. Called by `surface`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct

from slate_lab.config.nodes import Node, Plain
from slate_lab.config.values import shown
from slate_lab.errors import Problem
from slate_lab.records import near
from slate_lab.slots.strict import Sheet, read_words

__all__ = ["LANES", "PHASES", "Lane", "Listed", "Phase", "read_pipelines"]

Phase = Literal["bootstrap", "input", "output"]
Lane = Literal["serial", "parallel"]
PHASES: tuple[Phase, ...] = get_args(Phase)
LANES: tuple[Lane, ...] = get_args(Lane)


class Listed(Struct, frozen=True):
    """One entry of a lane: the slot's id, where it stands, and its line in the file."""

    id: str
    phase: Phase
    lane: Lane
    line: int


def read_pipelines(file: Path) -> tuple[list[Listed], list[Problem]]:
    """What `file` lists, in order, and everything wrong with it."""
    sheet = Sheet(file)
    if sheet.root is None:
        return [], sheet.problems
    assert isinstance(sheet.root.value, dict)
    table = sheet.root.value
    for key, line in sheet.keys.items():
        if key != "schema_version" and key not in PHASES:
            sheet.problem("unknown_phase", _unknown(key, ("schema_version", *PHASES), "phase"), line, key)
    _check_version(sheet, table.get("schema_version"))
    listed = [entry for phase in PHASES if phase in table for entry in _phase(sheet, phase, table[phase])]
    return listed, sheet.problems


def _check_version(sheet: Sheet, node: Node | None) -> None:
    if node is None:
        sheet.problem("schema_version", "schema_version is missing: write `schema_version: 1`", 1, "schema_version")
    elif not (isinstance(node.value, Plain) and node.value == "1"):
        message = f"schema_version must be the whole number 1, found {shown(node.value)}"
        sheet.problem("schema_version", message, sheet.keys["schema_version"], "schema_version")


def _phase(sheet: Sheet, phase: Phase, node: Node) -> Iterator[Listed]:
    if not isinstance(node.value, dict):
        message = f"expected keys and values, found {shown(node.value)}: write {{}} or leave the phase out"
        sheet.problem("wrong_value", message, sheet.keys[phase], phase)
        return
    for key, line in node.keys.items():
        if phase == "bootstrap" and key == "parallel":
            sheet.problem("bootstrap_parallel", "bootstrap has only a serial lane: move it there", line, phase, key)
        elif key not in LANES:
            sheet.problem("unknown_lane", _unknown(key, LANES, "key of a phase"), line, phase, key)
    for lane in LANES:
        if lane in node.value and not (phase == "bootstrap" and lane == "parallel"):
            yield from _lane(sheet, phase, lane, node.value[lane], node.keys[lane])


def _lane(sheet: Sheet, phase: Phase, lane: Lane, node: Node, line: int) -> Iterator[Listed]:
    if not isinstance(node.value, list):
        message = f"expected a list of slot ids, found {shown(node.value)}"
        sheet.problem("wrong_value", message, line, phase, lane)
        return
    for index, child in enumerate(node.value):
        try:
            yield Listed(read_words(child), phase, lane, child.line)
        except ValueError as e:
            sheet.problem("wrong_value", str(e), child.line, phase, lane, index)


def _unknown(key: str, known: tuple[str, ...], what: str) -> str:
    close = near(key, known, limit=1)
    return f"unknown {what}; " + (f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}")

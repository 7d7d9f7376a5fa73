"""Units for tests, and what is asked of a lab that loads them."""

from __future__ import annotations

from typing import Any

import slate_lab as sl

SEARCH = """
def register(unit):
    @unit.tool(reads=True)
    def look_up(term: str) -> str:
        '''Look a term up.

        Args:
            term: what is looked for.
        '''
        return f"{term} means 42"
"""
"""A unit as it should be."""


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    """A scripted call of a tool."""
    return {"tool": tool, "args": arguments}


def offered(model: sl.ScriptedModel, turn: int = 0) -> list[str]:
    """The names of the tools that a request offered."""
    return [tool.name for tool in model.requests[turn].tools]


def refusals(lab: sl.Lab) -> dict[str, str]:
    """Why units are not loaded, by name."""
    return {row["unit"]: row["refused"] for row in lab.units.rows() if row["refused"]}


def selected(lab: sl.Lab) -> dict[str, list[str]]:
    """The tools of units that are loaded, by unit."""
    return {row["unit"]: row["tools"] for row in lab.units.rows() if not row["refused"]}

"""The table of a drill: what was told to kernels, and what of it was missing afterwards."""

from __future__ import annotations

from typing import Any

from .told import COLUMNS, TABLE


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The last thing printed: one row a drill."""
    if not TABLE:
        return
    wide = max(map(len, TABLE))
    terminalreporter.section("drill: acknowledged, and missing or left afterwards (must be 0)")
    terminalreporter.write_line(f"{'':{wide}} " + " ".join(f"{name:>8}" for name in COLUMNS))
    for drill, row in TABLE.items():
        terminalreporter.write_line(f"{drill:{wide}} " + " ".join(f"{row[name]:>8,}" for name in COLUMNS))

"""Worker tools: functions of a `Workspace`, each with a JSON Schema made from its signature and docstring."""

from __future__ import annotations

from slate_lab.weave.tools.kit import Approve, Artifact, Kit, Tool, ToolFailed, make_tool
from slate_lab.weave.tools.registry import BUILT_IN, READ_ONLY

__all__ = ["BUILT_IN", "READ_ONLY", "Approve", "Artifact", "Kit", "Tool", "ToolFailed", "make_tool"]

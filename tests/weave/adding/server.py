"""An MCP server for the tests, written with the official package; started as a program over standard streams."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time

from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

server = MCPServer("tests")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look_up(term: str, limit: int = 5) -> str:
    """Look a term up.

    Args:
        term: what is looked for.
    """
    return f"{term} means {limit}"


@server.tool()
def environment() -> list[str]:
    """The names of the variables it has."""
    return sorted(os.environ)


@server.tool()
def long(size: int) -> str:
    """A long text."""
    return "line\n" * size


@server.tool()
def picture() -> list[Image | str]:
    """A picture and a text."""
    png = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA")
    return ["a dot", Image(data=png, format="png")]


@server.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("no such ticket")


@server.tool()
def die() -> str:
    """End the server."""
    sys.stderr.write(f"dying with {os.environ.get('TICKET_KEY')}\n")
    sys.stderr.flush()
    os._exit(3)


@server.tool()
def hang() -> str:
    """Never answer."""
    time.sleep(60)
    return ""


@server.tool()
def breed() -> str:
    """Start a process that outlives the server if nobody minds; its number."""
    return str(subprocess.Popen(["sleep", "300"], start_new_session=True).pid)


if __name__ == "__main__":
    if "large" in sys.argv:
        field = "x" * 30_000
        scope: dict[str, object] = {}
        exec(f"def large({field}: str) -> str:\n    return ''", scope)
        server.tool()(scope["large"])  # type: ignore[arg-type]
    server.run()

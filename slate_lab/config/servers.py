"""`mcpServers` and `tools.functions`: tools that a project adds by configuration.

In: plain values of the file. Out: frozen specs. Part of `LabConfig`; read by the lab when an action first needs tools.
"""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from slate_lab.config.spec import Spec
from slate_lab.config.values import Address, EnvName, Name, Seconds, Text

__all__ = ["FunctionName", "McpSpec"]

_FUNCTION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


def _function(text: str) -> str:
    if not _FUNCTION.fullmatch(text):
        raise ValueError("expected `module:function`")
    return text


FunctionName = Annotated[Text, AfterValidator(_function)]
"""A function of a module: `lookup:find_ticket`."""


class McpSpec(Spec):
    """One MCP server; its tools are called `<server>_<tool>`.

    Attributes:
        command, args: what starts it, in the project's folder; it is spoken to over its standard input and output.
        env: the names of variables that are passed on to it; it gets no others but PATH, HOME, LANG and the like.
        url: where it answers instead, over streamable HTTP.
        tools: only these of its tools; absent is all of them.
        timeout_s: how long its start, and one call, may take.
    """

    command: Text | None = None
    args: list[Text] = Field(default_factory=list)
    env: list[EnvName] = Field(default_factory=list)
    url: Address | None = None
    tools: list[Name] | None = None
    timeout_s: Seconds = Field(default=60.0, alias="timeoutSeconds")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("expected either command or url")
        if self.url is not None and (self.args or self.env):
            raise ValueError("args and env belong to command, not to url")
        return self

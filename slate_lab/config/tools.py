"""What `tools` in `slate.yaml` sets: how commands of workers are bounded, walled in and approved."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from slate_lab.config.servers import FunctionName
from slate_lab.config.spec import Spec
from slate_lab.config.values import Name, Seconds, Text, Whole, read_text

__all__ = ["CommandSpec", "ToolsSpec"]


class CommandSpec(Spec):
    """What one call of `bash` or `python` may use.

    Attributes:
        seconds: of wall time, for one call.
        cpu_s: of processor time, of the command with all it starts; of `python`, over the whole thread.
        output_chars: of its output, head and tail; never more than the model's window takes.
    """

    seconds: Seconds = 120.0
    cpu_s: Seconds = Field(default=240.0, alias="cpuSeconds")
    output_chars: Whole = 8_000


class ToolsSpec(Spec):
    """Commands of workers.

    Attributes:
        bash, python: bounds.
        sandbox: `auto` uses bwrap where it works and says where it does not, `require` grants no command without it,
            `off` never uses it.
        readable: more folders that commands in the sandbox may read; relative to the project.
        approve: tools whose every call a person must approve.
        approve_s: how long a call waits for an answer before it is denied.
        functions: Python functions that workers may call, `module:function`.
    """

    bash: CommandSpec = CommandSpec()
    python: CommandSpec = CommandSpec()
    sandbox: Annotated[Literal["auto", "require", "off"], BeforeValidator(read_text)] = "auto"
    readable: list[Text] = Field(default_factory=list)
    approve: list[Name] = Field(default_factory=list)
    approve_s: Seconds = Field(default=300.0, alias="approveSeconds")
    functions: list[FunctionName] = Field(default_factory=list)

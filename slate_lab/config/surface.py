"""The keys of slots: where the surface lies, whether its timeouts are enforced, what its slots may be granted.

In: plain values of the file. Out: frozen specs. Part of `LabConfig`; read by the lab when it wires slots.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from slate_lab.config.spec import Spec
from slate_lab.config.values import Flag, Name, Text, read_text, shown

__all__ = ["RuntimeSpec", "SlotsOf", "SlotsSpec"]


def _read_slots(value: object) -> object:
    """`all`, `base`, or a list of slot ids."""
    if isinstance(value, list):
        return value
    text = read_text(value)
    if text not in ("all", "base"):
        raise ValueError(f"expected all, base or a list of slot ids, found {shown(value)}")
    return text


SlotsOf = Annotated[Literal["all", "base"] | list[Name], BeforeValidator(_read_slots)]
"""Which slots a thread type carries."""


class RuntimeSpec(Spec):
    """How the slots of the project run.

    Attributes:
        surface_root: the folder with `pipelines.yaml` and the slots, relative to the project and inside it.
        enforce_slot_timeouts: whether a slot's `timeout_seconds` ends it; by default it is only shown.
    """

    surface_root: Text = Field(default="agent", alias="surface_root")
    enforce_slot_timeouts: Flag = Field(default=False, alias="enforce_slot_timeouts")


class SlotsSpec(Spec):
    """The most a manifest can be granted: capabilities, `*` at the end stands for any rest, never for secrets."""

    capabilities: list[Text] = Field(default_factory=lambda: ["*"])

"""The base of every part of the file: frozen, unknown keys refused, keys in camelCase unless a field names its own."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

__all__ = ["Spec"]


class Spec(BaseModel):
    """A part of the file: frozen, unknown keys refused, keys in camelCase."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=False,
        hide_input_in_errors=True,
    )

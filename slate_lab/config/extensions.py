"""`workerExtensions`: which units workers load.

In: plain values of the file. Out: regular expressions, as text. Part of `LabConfig`; read by the lab.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from slate_lab.config.values import Text

__all__ = ["UnitPattern"]


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as e:
        raise ValueError(f"expected a regular expression over names of units: {e}") from e
    return text


UnitPattern = Annotated[Text, AfterValidator(_pattern)]
"""A regular expression, searched anywhere in a unit's name."""

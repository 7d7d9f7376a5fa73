"""Declared memory: slates of folders, folders of files, files of blocks, with limits and eviction.

What comes in are declarations of the configuration and a `Keep` that persists; what goes out is `Slates`, the one
object through which memory is written and read. Used by the lab, the tools of workers, slots and magics. Only what is
used is loaded, so that showing a result needs no configuration.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slate_lab.slates.results import Evicted, Hit, Lost, Reading, SlateFolder, Stored, WriteResult
    from slate_lab.slates.slate import Slates
    from slate_lab.slates.target import Target, TargetLike

__all__ = [
    "Evicted",
    "Hit",
    "Lost",
    "Reading",
    "SlateFolder",
    "Slates",
    "Stored",
    "Target",
    "TargetLike",
    "WriteResult",
]

_PLACES = {"Slates": "slate", "Target": "target", "TargetLike": "target"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES.get(name, 'results')}"), name)

"""Declared memory: slates with folders, files and blocks, a budget of tokens per folder, and a ledger of what left."""

from __future__ import annotations

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

"""The part `worker` of the file: when a worker counts as stuck, what is kept of what it finds, when it compacts."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from slate_lab.config.spec import Spec
from slate_lab.config.values import Whole, read_whole

__all__ = ["CompactionSpec", "FactsSpec", "StuckSpec", "WorkerSpec"]

Percent = Annotated[int, Field(ge=1, le=100), BeforeValidator(read_whole)]
Times = Annotated[int, Field(ge=2, le=1000), BeforeValidator(read_whole)]


class StuckSpec(Spec):
    """A worker is stuck after the same calls so many times in a row, or so many turns that told it nothing new."""

    same_calls: Times = 3
    no_news: Times = 6


class FactsSpec(Spec):
    """Characters kept of one fact (the newest part), and of all facts of a thread (the newest ones)."""

    characters: Whole = 8_000
    total: Whole = 300_000


class CompactionSpec(Spec):
    """A history is compacted at so many percent of the room for a prompt, to a summary of at most so many tokens."""

    at_percent: Percent = 80
    max_output_tokens: Whole = 1_024


class WorkerSpec(Spec):
    """How every worker works."""

    stuck: StuckSpec = StuckSpec()
    facts: FactsSpec = FactsSpec()
    compaction: CompactionSpec = CompactionSpec()

"""One failed exchange: a `ModelError` that also says whether asking again may help, and what was used before it failed.

Raised by models for the gate, which retries or turns it into the final `ModelError`. A model written by a user may
raise a plain `ModelError`; the gate then goes by its kind.
"""

from __future__ import annotations

from typing import Any

from slate_lab.errors import ModelError, ModelErrorKind
from slate_lab.records import Usage

__all__ = ["TRANSIENT_KINDS", "Fault", "is_transient"]

TRANSIENT_KINDS: frozenset[str] = frozenset({"retry-exhausted", "unreachable", "timeout"})


class Fault(ModelError):
    """One exchange failed.

    Attributes:
        transient: asking again may help.
        usage, raw_usage, response_id: what the provider had reported until then.
    """

    def __init__(
        self,
        kind: ModelErrorKind,
        message: str,
        *,
        transient: bool = False,
        status: int | None = None,
        retry_after_s: float | None = None,
        usage: Usage | None = None,
        raw_usage: dict[str, Any] | None = None,
        response_id: str | None = None,
    ) -> None:
        super().__init__(kind, message, status=status, retry_after_s=retry_after_s)
        self.transient = transient
        self.usage = usage or Usage()
        self.raw_usage = raw_usage
        self.response_id = response_id


def is_transient(error: ModelError) -> bool:
    """Whether asking the same route again may help."""
    return error.transient if isinstance(error, Fault) else error.kind in TRANSIENT_KINDS

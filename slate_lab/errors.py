"""Every error a user can meet, one tree.

    LabError
    ├── ConfigError      slate.yaml or an option is wrong: every problem, each with its place
    ├── DispatchError    no episode exists: refused at admission, or cancelled before anything was found
    ├── LimitExceeded    a declared limit was reached: kind, used, limit
    ├── ModelError       a provider or the embedded model failed: kind, HTTP status, time to come back
    ├── SlateError       a slate refused a write or a read: a code
    │   └── SlateWriteRefused  a gated write was refused: the result object
    ├── SlotFailed       a hard slot failed
    └── StoreError       the store cannot be opened, read or written

An action that ran and failed is an Episode, not an exception. Each message says what happened, where, and what to do;
the notebook prints it in one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = [
    "ConfigError",
    "DispatchError",
    "LabError",
    "LimitExceeded",
    "ModelError",
    "ModelErrorKind",
    "Place",
    "Problem",
    "SlateError",
    "SlateWriteRefused",
    "SlotFailed",
    "StoreError",
]


@dataclass(frozen=True)
class Place:
    """Where in a file a problem stands: `file:line`, and the path of keys that leads there."""

    file: str = ""
    line: int | None = None
    path: str = ""

    def __str__(self) -> str:
        spot = f"{self.file}:{self.line}" if self.file and self.line else self.file
        return ", ".join(part for part in (spot, self.path) if part)


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: a stable code, a sentence that says what to do, and the place if there is one."""

    code: str
    message: str
    place: Place = Place()

    def __str__(self) -> str:
        where = str(self.place)
        return f"{where}: {self.message}" if where else self.message


class LabError(Exception):
    """The root of every error raised on purpose.

    Attributes:
        code: a stable, machine-readable word.
        message: one line for a person.
    """

    def __init__(self, message: str, *, code: str = "error") -> None:
        super().__init__(message)
        self.message = message
        self.code = code

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows for it: one line, as for the magics."""
        return [f"{type(self).__name__}: {self}"]


class _Listed(LabError):
    """An error made of one or more problems, all of them in the message."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        if not problems:
            raise ValueError("an error needs at least one problem")
        self.problems = tuple(problems)
        head = f"{len(self.problems)} problems: " if len(self.problems) > 1 else ""
        super().__init__(head + "; ".join(str(p) for p in self.problems), code=self.problems[0].code)


class ConfigError(_Listed):
    """The configuration cannot be used. `problems` holds all of them, each with file, line and key path."""


class DispatchError(_Listed):
    """An action has no episode: it was refused at admission, or cancelled before anything was found.

    `code` is the first problem's; `codes` are all of them in the order of the admission steps.
    """

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of all problems, in order."""
        return tuple(p.code for p in self.problems)

    @classmethod
    def of(cls, code: str, message: str) -> DispatchError:
        """An error with one problem."""
        return cls([Problem(code, message)])


class LimitExceeded(LabError):
    """A declared limit was reached.

    Attributes:
        kind: `turns`, `tokens`, `tool_calls`, `seconds` or `usd`.
        used: what was used, in the unit of the kind.
        limit: what was allowed.
    """

    def __init__(self, kind: str, *, used: float, limit: float) -> None:
        super().__init__(f"the limit {kind}={limit:g} was reached ({used:g} used)", code=f"limit_{kind}")
        self.kind = kind
        self.used = used
        self.limit = limit


ModelErrorKind = Literal[
    "retry-exhausted",  # transient faults outlasted the retries: another route may do
    "auth",  # the key is missing or refused
    "billing",  # no credit
    "context-overflow",  # the prompt does not fit the window
    "bad-request",  # the provider refuses the request as it is
    "bad-reply",  # the answer cannot be read (broken stream, wrong type, unreadable tool call)
    "unreachable",  # nothing listens there
    "timeout",  # no answer within the deadline
    "unavailable",  # the embedded model cannot be started here
    "replay-miss",  # replaying, and this request was never recorded
    "cancelled",
]


class ModelError(LabError):
    """A request to a model failed for good.

    Attributes:
        kind: what went wrong; only `retry-exhausted`, `unreachable` and `timeout` may move to another route.
        status: the HTTP status, if there was one.
        retry_after_s: seconds until the provider wants to be asked again, if it said so.
    """

    def __init__(
        self, kind: ModelErrorKind, message: str, *, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, code=f"model_{kind.replace('-', '_')}")
        self.kind = kind
        self.status = status
        self.retry_after_s = retry_after_s


class SlateError(LabError):
    """A slate refused a read or a write; `code` says why."""


class SlateWriteRefused(SlateError):
    """A gated write was refused; `result` is the same object the soft form returns."""

    def __init__(self, result: Any) -> None:
        super().__init__(result.message, code=result.code)
        self.result = result


class SlotFailed(LabError):
    """A slot with `failure_policy: hard` failed; the turn cannot proceed."""


class StoreError(LabError):
    """The store cannot be opened, read or written; `code` says why."""

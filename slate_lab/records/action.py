"""An action is the work that is asked for; a thread is the record of the one worker session that does it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

from msgspec import Struct

from slate_lab.records.call import Hop

ThreadState = Literal["queued", "running", "successful", "failed", "cancelled"]


class Limits(Struct, frozen=True, kw_only=True):
    """What one action may use; None is no limit.

    Attributes:
        turns: replies of the model.
        tokens: input and output tokens of all its calls.
        tool_calls: tools run.
        seconds: wall seconds from its start.
        usd: dollars, exactly.
    """

    turns: int | None = None
    tokens: int | None = None
    tool_calls: int | None = None
    seconds: float | None = None
    usd: Decimal | None = None

    def over(self, base: Limits) -> Limits:
        """These limits, with `base` where one is not set."""
        return Limits(
            turns=base.turns if self.turns is None else self.turns,
            tokens=base.tokens if self.tokens is None else self.tokens,
            tool_calls=base.tool_calls if self.tool_calls is None else self.tool_calls,
            seconds=base.seconds if self.seconds is None else self.seconds,
            usd=base.usd if self.usd is None else self.usd,
        )


class Action(Struct, frozen=True, kw_only=True):
    """Work asked of a worker; everything but the task has a default.

    Attributes:
        task: the request, passed to the model byte for byte.
        name: a label for people.
        type: thread type; selects tools and charter.
        context: episode ids whose stored content joins the brief, in this order.
        slates: targets (`Title/folder`) whose content joins the brief.
        variables: rendered values by name, given as context.
        model: logical model; None takes the lab's default.
        reason: why this model.
        tools: allowlist of tools; None takes the type's own.
        limits: what it may use.
        review_perspectives, track: for review threads of a change.
        claims: path globs it will write.
        after: thread ids that must end first.
        facts_of: thread ids whose facts join the brief as data; a retry cites those of the thread it repeats.
        fit: drop the oldest context episodes until the brief fits the window, and say so.
    """

    task: str
    name: str | None = None
    type: str = "general"
    context: tuple[str, ...] = ()
    slates: tuple[str, ...] = ()
    variables: dict[str, str] = {}
    model: str | None = None
    reason: str | None = None
    tools: tuple[str, ...] | None = None
    limits: Limits = Limits()
    review_perspectives: tuple[str, ...] = ()
    track: str | None = None
    claims: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    facts_of: tuple[str, ...] = ()
    fit: bool = False


class Thread(Struct, frozen=True, kw_only=True):
    """The record of one worker session; immutable, a change of state is a new record.

    Attributes:
        id: `t12`.
        action: what was asked.
        state: `queued`, `running`, `successful`, `failed` or `cancelled`.
        code: why it failed or was cancelled, a stable word.
        detail: the same for a person.
        truncated: the provider's length limit ended the last answer.
        logical, provider, model: the logical model and the route that was granted.
        session: the lab that dispatched it.
        brief: tokens of the assembled prompt by source, as `[{"source", "tokens", "exact"}]`.
        window: tokens the route's context holds, None if unknown.
        ran_route: the route that answered its worker last, where recovery left the granted one; else empty.
        hops: how recovery went from route to route, in order.
    """

    id: str
    action: Action
    state: ThreadState
    code: str | None = None
    detail: str | None = None
    truncated: bool = False
    logical: str = ""
    provider: str = ""
    model: str = ""
    session: str = ""
    created_ns: int = 0
    started_ns: int | None = None
    ended_ns: int | None = None
    brief: tuple[dict[str, Any], ...] = ()
    window: int | None = None
    ran_route: str = ""
    hops: tuple[Hop, ...] = ()

    @property
    def requested_route(self) -> str:
        """The route that was granted: `provider/model`."""
        return f"{self.provider}/{self.model}"

    @property
    def ended(self) -> bool:
        """Whether the state is a terminal one."""
        return self.state not in ("queued", "running")

    @property
    def label(self) -> str:
        """The name, or the first line of the task."""
        return self.action.name or self.action.task.strip().split("\n", 1)[0][:80]


class Progress(Struct, frozen=True, kw_only=True):
    """A running thread at one moment, for live views.

    Attributes:
        position: place in the queue while queued (1 is next), None afterwards.
        doing: a few words: `waiting`, `asking local`, `reading notes/a.md`, `compressing`.
        tokens: input and output tokens of its calls so far.
        text: the end of what the model is writing.
    """

    id: str
    label: str
    state: ThreadState
    position: int | None = None
    doing: str = ""
    elapsed_s: float = 0.0
    turns: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost_nusd: int | None = 0
    text: str = ""

"""The keys of pacing: how many requests a minute a route is asked, and how many at once.

In: plain values of the file. Out: frozen specs. Part of `LabConfig`; read by the pacer and by the gate.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from slate_lab.config.spec import Spec
from slate_lab.config.values import Flag, Whole, read_whole

__all__ = ["RoutePaceSpec", "ThrottleSpec"]


class ThrottleSpec(Spec):
    """Requests a minute to one provider and model, over the last 60 seconds, in one session.

    It holds for routes that speak `responses`; a provider of another protocol takes part with
    `requestThrottle: true`, and one that speaks `responses` stays out with `false`.

    Attributes:
        enabled: whether it holds at all.
        max_requests_per_minute: requests that are let through in any 60 seconds.
        base_wait_ms: the least wait between two looks for room.
        jitter_ms: the most that chance adds to it, so that waiters do not all look at once.
    """

    enabled: Flag = True
    max_requests_per_minute: Annotated[int, Field(ge=1, le=1000), BeforeValidator(read_whole)] = 12
    base_wait_ms: Annotated[int, Field(ge=1, le=60_000), BeforeValidator(read_whole)] = 1000
    jitter_ms: Annotated[int, Field(ge=0, le=60_000), BeforeValidator(read_whole)] = 1000


class RoutePaceSpec(Spec):
    """How many requests one exact route is asked at once.

    Attributes:
        max_concurrent: workers that may hold a permit for the route, and requests that may be out on it at once; None
            leaves it to the provider's and the lab's own cap.
        adaptive: begin with one request at once, widen with every answer, and halve when the route says 429 or 529.
    """

    max_concurrent: Whole | None = None
    adaptive: Flag = False

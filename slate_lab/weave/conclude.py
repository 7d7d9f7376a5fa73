"""From a settled conversation to its episode: the compression, its fallbacks in the order of the table, and the check.

One model call without tools, one repair, then the worker's own words; a failure without facts takes the fixed form
and asks nobody. Identifiers that were lost or invented on the way are listed on every episode.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec.structs import replace

from slate_lab import tokens
from slate_lab.config import CompressorSpec
from slate_lab.errors import LabError, StoreError
from slate_lab.models.protocol import Capabilities
from slate_lab.records import Action, CallKind, Episode, Fact, Reply, Request, Thread, Usage, episode_id
from slate_lab.weave.compress import (
    SMALL_WINDOW,
    Plan,
    Rejection,
    Sections,
    compressed,
    fixed,
    plan_compression,
    plan_repair,
    read_compression,
    uncompressed,
)
from slate_lab.weave.loss import measure
from slate_lab.weave.outcome import Form

__all__ = ["conclude", "interrupted"]

SMALL_INPUT = 3_000
"""Tokens of facts that a small model is given to compress; more takes it minutes."""

Compress = Callable[[Request], Awaitable[Reply | None]]
"""Asks the compressor; None if it was cancelled."""


async def conclude(
    base: Episode,
    *,
    form: Form,
    final: str,
    facts: Sequence[Fact],
    action: Action,
    capabilities: Capabilities,
    spec: CompressorSpec,
    ask: Compress,
    spent: Callable[[], tuple[Mapping[CallKind, Usage], int | None]],
) -> Episode:
    """The episode of an action that ran.

    Args:
        base: identity, provenance and artifacts.
        form: what the outcome table asks for.
        final: the worker's last message.
        facts: what it left.
        capabilities: of the route that compresses.
        spec: the compressor's settings.
        ask: one request to the compressor.
        spent: usage by kind and cost of all calls, read when the episode is done.
    """
    if form == "compress" and spec.mode == "model":
        episode = await _compress(base, final, facts, action, capabilities, spec, ask)
    elif form == "uncompressed":
        episode = uncompressed(base, facts, final=final, notice="the compression was cancelled")
    else:
        episode = fixed(base, facts)
    usage, cost_nusd = spent()
    return replace(_checked(episode, facts), usage=dict(usage), cost_nusd=cost_nusd)


def interrupted(thread: Thread, facts: Sequence[Fact]) -> Episode:
    """The fixed-form episode of a thread whose kernel died."""
    route = f"{thread.provider}/{thread.model}"
    base = Episode(
        id=episode_id(thread.id),
        thread=thread.id,
        name=thread.action.name,
        type=thread.action.type,
        task=thread.action.task,
        status="failed",
        code="interrupted",
        detail="the kernel ended while it ran; its facts are kept: cite this episode in a new thread to go on",
        reason=thread.action.reason,
        slates=thread.action.slates,
        logical=thread.logical,
        requested_route=route,
        ran_route=thread.ran_route or route,
        hops=thread.hops,
        fact_count=len(facts),
        created_ns=thread.created_ns,
        started_ns=thread.started_ns or thread.created_ns,
        ended_ns=thread.ended_ns or 0,
    )
    return _checked(fixed(base, facts), facts)


async def _compress(
    base: Episode,
    final: str,
    facts: Sequence[Fact],
    action: Action,
    capabilities: Capabilities,
    spec: CompressorSpec,
    ask: Compress,
) -> Episode:
    small = capabilities.window is not None and capabilities.window <= SMALL_WINDOW
    plan = plan_compression(
        action,
        facts,
        final=final,
        status=base.status,
        code=base.code,
        capabilities=capabilities,
        max_output_tokens=spec.max_output_tokens,
        max_input_tokens=SMALL_INPUT if small else None,
        count=tokens.count,
        dropped=base.omitted,
    )
    try:
        reply = await ask(plan.request)
        read = _read(reply, plan)
        if isinstance(read, Rejection) and reply is not None:
            reply = await ask(plan_repair(plan, reply, read))
            read = _read(reply, plan)
    except StoreError:
        raise
    except LabError as e:  # the model failed or a cap was reached: the work stands, only its record is longer
        return uncompressed(base, facts, final=final, notice=f"the compression failed: {e.message}")
    except Exception as e:  # noqa: BLE001  a foreign model may raise anything; the work stands all the same
        return uncompressed(base, facts, final=final, notice=f"the compression failed: {type(e).__name__}: {e}")
    if isinstance(read, Sections):
        return compressed(base, read)
    why = "was cancelled" if read is None else f"could not be used: {read.detail}"
    return uncompressed(base, facts, final=final, notice=f"the compression {why}")


def _read(reply: Reply | None, plan: Plan) -> Sections | Rejection | None:
    return None if reply is None else read_compression(reply, plan)


def _checked(episode: Episode, facts: Sequence[Fact]) -> Episode:
    """`episode` with what was lost and invented, and its size beside that of the facts."""
    return measure(episode, facts, count=tokens.count)

"""What a protocol needs back with a turn that a model wrote: reasoning items and signatures, in their places.

In: the parts of an answer in order, or the `Carried` of an earlier one. Out: a `Carried` that can be kept, or the parts
to send. Nobody here looks into them: they go back as they came, to the route they came from. Pure. Called by the
protocols `responses` and `messages`, and where answers enter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slate_lab.models.plain import Hide, TooDeep, as_is, plain, plain_text
from slate_lab.records import Carried, Message, Route, ToolCall

__all__ = ["Part", "plain_carried", "turn_parts"]

Part = dict[str, Any] | str | ToolCall
"""One part of a turn: an opaque item, a piece of text, or a call."""


def plain_carried(carried: object, *, hide: Hide = as_is) -> Carried | None:
    """`carried` with nothing but JSON in it; None if there is nothing opaque to carry, or it is no such thing."""
    if not isinstance(carried, Carried) or not any(isinstance(part, dict) for part in carried.parts):
        return None
    try:
        parts = [_plain_part(part, hide) for part in carried.parts]
    except TooDeep:
        return None
    return Carried(route=carried.route, parts=tuple(parts))


def turn_parts(message: Message, route: Route | None) -> Iterator[Part]:
    """The parts of a turn of the model: as it wrote them, where this route wrote them; else its text, then its calls.

    Without a route nothing opaque goes back. Calls and text that the parts do not name follow at the end, so that
    nothing of the turn is lost.
    """
    carried = message.carried
    if carried is None or carried.route != str(route):
        if message.text.strip():
            yield message.text
        yield from message.calls
        return
    named: set[int] = set()
    for part in carried.parts:
        if isinstance(part, int):
            if part < len(message.calls):
                named.add(part)
                yield message.calls[part]
        elif isinstance(part, dict) or part.strip():
            yield part
    yield from (call for n, call in enumerate(message.calls) if n not in named)


def _plain_part(part: object, hide: Hide) -> dict[str, Any] | str | int:
    if isinstance(part, int):
        return int(part)
    if isinstance(part, dict):
        made: dict[str, Any] = plain(part, hide=hide)
        return made
    return plain_text(str(part), hide=hide)

"""Values of strangers made plain: JSON with text keys, text that is Unicode, numbers that fit 64 bits, a bounded size.

In: whatever a provider, a script or a model of the user gave, and a function that hides secrets in text. Out: what can
be stored and sent. Pure. Called where answers enter (`border.py`, `toolcalls.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

import msgspec

from slate_lab import tokens

__all__ = ["Hide", "TooDeep", "as_is", "plain", "plain_label", "plain_payload", "plain_text"]

Hide = Callable[[str], str]
"""Text without the secrets that it held."""

DEPTH = 64
LABEL = 200
"""Characters of an id or a name."""

PAYLOAD_BYTES = 16 * 1024
_PAYLOAD_DEPTH = 8
_INT64 = range(-(2**63), 2**63)
_DIGIT_BITS = 4_096  # longer numbers are not written out


class TooDeep(ValueError):
    """A value is nested deeper than anything that is meant."""


def as_is(text: str) -> str:
    """Hides nothing."""
    return text


def plain(value: Any, *, hide: Hide = as_is, depth: int = DEPTH) -> Any:
    """`value` as JSON: keys are text, numbers beyond 64 bits and not finite ones are text, anything else is its `str`.

    Raises:
        TooDeep: it is nested more than `depth` deep.
    """
    if isinstance(value, str):
        return plain_text(value, hide=hide)
    if type(value) is int and value in _INT64:
        return value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _whole(int(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        inner = _deeper(depth)
        return {_key(key, hide): plain(item, hide=hide, depth=inner) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        inner = _deeper(depth)
        return [plain(item, hide=hide, depth=inner) for item in value]
    if isinstance(value, Integral):  # numbers of other libraries
        return _whole(int(value))
    if isinstance(value, Real):
        return plain(float(value))
    return plain_text(str(value), hide=hide)


def plain_text(text: str, *, hide: Hide = as_is) -> str:
    """`text` without secrets and lone surrogates."""
    if hide is as_is and type(text) is str and text.isascii():
        return text
    return tokens.clean(hide(text if type(text) is str else str.__str__(text)))


def plain_label(value: object, *, hide: Hide = as_is) -> str:
    """An id or a name as text of at most `LABEL` characters; None is none."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return plain_text(text, hide=hide)[:LABEL]


def plain_payload(raw: object, *, hide: Hide = as_is) -> dict[str, Any] | None:
    """A usage payload for the books: JSON of at most about `PAYLOAD_BYTES`; entries that are too large or too deep are
    left out and counted in `omitted`.
    """
    if raw is None:
        return None
    given = raw if isinstance(raw, Mapping) else {"usage": raw}
    try:
        whole: dict[str, Any] = plain(given, hide=hide, depth=_PAYLOAD_DEPTH + 1)
    except TooDeep:
        return _fitting(given, hide)
    return whole if len(msgspec.json.encode(whole)) <= PAYLOAD_BYTES else _fitting(given, hide)


def _fitting(given: Mapping[Any, Any], hide: Hide) -> dict[str, Any]:
    """The entries that are not too deep and fit, in order."""
    kept: dict[str, Any] = {}
    left, omitted = PAYLOAD_BYTES, 0
    for key, value in given.items():
        try:
            entry = {_key(key, hide): plain(value, hide=hide, depth=_PAYLOAD_DEPTH)}
        except TooDeep:
            omitted += 1
            continue
        size = len(msgspec.json.encode(entry))
        if size > left:
            omitted += 1
            continue
        left -= size
        kept.update(entry)
    return {**kept, "omitted": omitted}


def _key(key: object, hide: Hide) -> str:
    return plain_text(key if isinstance(key, str) else str(plain(key)), hide=hide)


def _whole(number: int) -> int | str:
    if number in _INT64:
        return number
    bits = number.bit_length()
    return str(number) if bits <= _DIGIT_BITS else f"a whole number of {bits} bits"


def _deeper(depth: int) -> int:
    if not depth:
        raise TooDeep("nested too deeply")
    return depth - 1

"""Values as the store keeps them: JSON text for what no filter needs, and ids as numbers.

Called by every table of this room. JSON is written by msgspec; a value that JSON cannot hold is a `StoreError`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from slate_lab.errors import StoreError
from slate_lab.records import Usage, is_episode_id, is_thread_id, thread_of

__all__ = ["USAGE_COLUMNS", "decode", "encode", "episode_number", "session_number", "thread_number", "usage_values"]

USAGE_COLUMNS = (
    "input_fresh",
    "cache_read",
    "cache_write_5m",
    "cache_write_1h",
    "output",
    "reasoning",
    "total_reported",
    "flagged",
)
"""The token buckets, spelled as the fields of `Usage`, in the order of `usage_values`."""

_T = TypeVar("_T")
_encoder = msgspec.json.Encoder()
_ordered = msgspec.json.Encoder(order="deterministic")


def encode(value: Any, *, ordered: bool = False) -> str:
    """`value` as JSON text; `ordered` sorts the keys of every object, for hashes.

    Raises:
        StoreError: it holds something JSON cannot (code `bad_value`), or a lone surrogate (`bad_text`).
    """
    try:
        return (_ordered if ordered else _encoder).encode(value).decode()
    except UnicodeError as error:
        raise StoreError(
            f"a text is not valid Unicode ({error}): pass it through `slate_lab.tokens.clean` first", code="bad_text"
        ) from error
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise StoreError(f"a {type(value).__name__} cannot be stored as JSON: {error}", code="bad_value") from error


def decode(decoder: msgspec.json.Decoder[_T], text: str, what: str) -> _T:
    """The value that `text` holds; `what` names the record in the error."""
    try:
        return decoder.decode(text)
    except msgspec.DecodeError as error:
        raise StoreError(
            f"{what} in the store cannot be read ({error}): it was changed by hand", code="edited"
        ) from error


@lru_cache(maxsize=4_096)
def thread_number(thread: str) -> int:
    """12 for `t12`."""
    if not is_thread_id(thread):
        raise StoreError(f"{thread[:40]!r} is no thread id: ids look like t12", code="bad_id")
    return int(thread[1:])


def episode_number(episode: str) -> int:
    """12 for `t12.e1`."""
    if not is_episode_id(episode):
        raise StoreError(f"{episode[:40]!r} is no episode id: ids look like t12.e1", code="bad_id")
    return int(thread_of(episode)[1:])


def session_number(session: str) -> int:
    """3 for `s3`."""
    if not (session[:1] == "s" and session[1:].isascii() and session[1:].isdecimal() and len(session) < 20):
        raise StoreError(f"{session[:40]!r} is no session id: ids look like s3", code="bad_id")
    return int(session[1:])


def usage_values(usage: Usage) -> tuple[int | None, ...]:
    """The buckets of a `Usage`, in the order of `USAGE_COLUMNS`."""
    return (
        usage.input_fresh,
        usage.cache_read,
        usage.cache_write_5m,
        usage.cache_write_1h,
        usage.output,
        usage.reasoning,
        usage.total_reported,
        usage.flagged,
    )

"""The typed scalars of the configuration: what may stand in a text, a whole number, a decimal, a switch.

In: a scalar as it was typed (`Plain`), a quoted text, or a Python value of an override. Out: the value, or a
`ValueError` that says how to write it. Nothing is converted by guess: `no` is text and no switch, `010` and `1e3` are
no numbers, `True` is no number. Called by pydantic for the fields of `schema`.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from slate_lab.config.nodes import Plain, Strict, encodable

__all__ = [
    "MAX_SAFE",
    "Address",
    "Count",
    "EnvName",
    "Flag",
    "HeaderName",
    "HeaderValue",
    "Money",
    "Name",
    "Seconds",
    "Text",
    "Whole",
    "read_number",
    "read_text",
    "read_whole",
    "shown",
]

MAX_SAFE = 2**53 - 1
"""The largest whole number that every reader of the file agrees on."""

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,17})", re.ASCII)
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,12})?", re.ASCII)
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}", re.ASCII)
_SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "api-key", "x-api-key", "x-goog-api-key"},
)


def shown(value: Any) -> str:
    """What stands there, in a few words, for a message."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return f"`{value}`"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple | set | frozenset):
        return "a list"
    if not isinstance(value, str | int | float | Decimal):
        return f"a {type(value).__name__}"
    text = str(value) if not isinstance(value, int) or abs(value) < 10**30 else "a very large number"
    clipped = "".join(c if c.isprintable() else "?" for c in text[:40]) + ("…" if len(text) > 40 else "")
    quote = '"' if isinstance(value, str) and not isinstance(value, Plain) else ""
    return f"`{quote}{clipped}{quote}`"


def read_text(value: Any) -> str:
    """Text as the author typed it; null is no text."""
    if isinstance(value, Strict):
        raise ValueError(f"expected text, found {shown(value)}: put it in quotes")
    if value is None:
        raise ValueError("expected text, found nothing: null means absent, put it in quotes if it is the text")
    if not isinstance(value, str):
        raise ValueError(f"expected text, found {shown(value)}")
    if not encodable(value):
        raise ValueError("half of a character pair (a lone surrogate) is not text")
    return "".join(value) if type(value) is str else str.__str__(value)


def read_whole(value: Any) -> int:
    """A whole number in its one spelling."""
    if type(value) is int:
        if abs(value) > MAX_SAFE:
            raise ValueError(f"expected a whole number up to {MAX_SAFE}")
        return value
    if isinstance(value, Plain) and _WHOLE.fullmatch(value) and value != "-0" and abs(int(value)) <= MAX_SAFE:
        return int(value)
    hint = ": take the quotes off" if type(value) is str and _WHOLE.fullmatch(value) else " (digits only, like 1000)"
    raise ValueError(f"expected a whole number, found {shown(value)}{hint}")


def read_number(value: Any) -> Decimal:
    """A finite decimal number as it was typed."""
    if isinstance(value, Plain) and _DECIMAL.fullmatch(value):
        return Decimal(value)
    if isinstance(value, Decimal) and value.is_finite():
        return value
    if type(value) is int and abs(value) <= MAX_SAFE:
        return Decimal(value)
    if type(value) is float and math.isfinite(value):
        return Decimal(repr(value))
    raise ValueError(f"expected a number, found {shown(value)} (digits with an optional point, like 0.25)")


def _read_seconds(value: Any) -> float:
    return float(read_number(value))


def _read_flag(value: Any) -> bool:
    if type(value) is bool:
        return value
    if isinstance(value, Plain) and value in ("true", "false"):
        return value == "true"
    raise ValueError(f"expected true or false, found {shown(value)}")


def _check_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"{shown(text)} is no name: letters, digits, `.`, `_` and `-`, at most 64, no space")
    return text


def _check_env(text: str) -> str:
    if not _ENV.fullmatch(text):
        raise ValueError(
            "expected the name of an environment variable, like OPENAI_API_KEY; the key itself must not stand in a file"
        )
    return text


def _check_address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0 or not text.isprintable():
        raise ValueError("expected an address like https://api.example.com/v1")
    if parts.username is not None or parts.password is not None:
        raise ValueError("an address must hold no user or password: name the variable in apiKeyEnv")
    if parts.query or parts.fragment or " " in text:
        raise ValueError("expected an address without a query, fragment or space")
    return text.rstrip("/")


def _check_header_name(text: str) -> str:
    if not _TOKEN.fullmatch(text):
        raise ValueError("expected the name of an HTTP header")
    if text.lower() in _SECRET_HEADERS:
        raise ValueError(f"{text} carries a key, which must not stand in a file: name its variable in apiKeyEnv")
    return text


def _check_header_value(text: str) -> str:
    if not text.isprintable() or not text.isascii():
        raise ValueError("expected printable ASCII in a header")
    return text


_AS_NUMBER = WithJsonSchema({"type": "number"})

Text = Annotated[str, BeforeValidator(read_text)]
Name = Annotated[Text, AfterValidator(_check_name)]
EnvName = Annotated[Text, AfterValidator(_check_env)]
Address = Annotated[Text, AfterValidator(_check_address)]
HeaderName = Annotated[Text, AfterValidator(_check_header_name)]
HeaderValue = Annotated[Text, AfterValidator(_check_header_value)]
Whole = Annotated[int, Field(ge=1, le=MAX_SAFE), BeforeValidator(read_whole)]
Count = Annotated[int, Field(ge=0, le=MAX_SAFE), BeforeValidator(read_whole)]
Seconds = Annotated[float, Field(gt=0, le=10**9), BeforeValidator(_read_seconds)]
Money = Annotated[Decimal, Field(ge=0, le=10**9), _AS_NUMBER, BeforeValidator(read_number)]
Flag = Annotated[bool, BeforeValidator(_read_flag)]

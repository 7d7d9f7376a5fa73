"""Text of strangers made fit to be shown: no secrets, no control characters, one short line.

In: any text a provider sent, or an exception's message, and the secrets of the route. Out: what errors may contain
(`redact`), and what answers may (`hide`: the same text without the secrets). Called by the protocols.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus, urlsplit, urlunsplit

__all__ = ["CAP", "Secret", "basic", "hide", "is_credential", "plain_url", "redact"]

CAP = 300
"""Characters of a shown text."""

HIDDEN = "[hidden]"
_WORD = 8  # shorter words of a secret are ordinary ones

_CREDENTIAL = re.compile(r"auth|key|token|secret|cookie|pass|credential|signature", re.IGNORECASE)
_MARKUP = re.compile(r"<(?:script|style)\b.*?</(?:script|style)>|<[^<>]{0,500}>", re.DOTALL | re.IGNORECASE)
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202f\u2066-\u2069]+")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
_KEYS = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|ghp|glpat|AIza)[-_]?[A-Za-z0-9*_\-]{8,}"
    r"|(?<=bearer )[^\s\"',;]{6,}"
    r"|(?<=key=)[^\s&\"']{6,}|(?<=token=)[^\s&\"']{6,}",
    re.IGNORECASE,
)


class Secret:
    """A value that shows itself to nobody; `reveal` gives it to the header that needs it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return HIDDEN

    def __reduce__(self) -> str:
        raise TypeError("a secret cannot be pickled")

    def reveal(self) -> str:
        """The value itself."""
        return self._value


def redact(text: str, secrets: Iterable[Secret] = (), *, cap: int = CAP) -> str:
    """`text` as one line of at most `cap` characters, without markup, control characters, `secrets`, or other keys."""
    text = text[: cap * 50]  # secrets are looked for before the cut, so that no half of one survives it
    text = hide(text, secrets)
    text = _MARKUP.sub(" ", _ESCAPES.sub("", text))
    text = _SPACE.sub(" ", _KEYS.sub(HIDDEN, text)).strip()
    return text if len(text) <= cap else text[: cap - 1] + "…"


def hide(text: str, secrets: Iterable[Secret]) -> str:
    """`text` as it is, but for `secrets`; also for the words of one like `Bearer abc`."""
    for secret in secrets:
        value = secret.reveal()
        text = _without(text, value)
        for word in value.split(" ")[1:]:
            if len(word) >= _WORD:
                text = _without(text, word)
    return text


def is_credential(header: str) -> bool:
    """Whether a header of this name carries a secret, not words that an answer may hold too."""
    return _CREDENTIAL.search(header) is not None


def basic(user: str, password: str) -> Secret:
    """The value of an `Authorization` header for a user and password."""
    return Secret(f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}")


def plain_url(url: str) -> str:
    """`url` without user, password, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _without(text: str, value: str) -> str:
    if len(value) < 4:  # too short to be a key, and it would eat ordinary words
        return text
    for form in {
        value,
        quote(value, safe=""),
        quote(value),
        quote_plus(value),
        value.encode("unicode_escape").decode(),
    }:
        text = text.replace(form, HIDDEN)
    return text

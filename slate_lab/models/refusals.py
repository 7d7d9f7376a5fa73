"""What an error answer means: an HTTP status and a body, or an error inside a stream, as a `Fault`.

In: what the provider sent. Out: the fault, with its kind, whether asking again may help, and a short clean text.
Called by the protocols. The texts that are looked for are those of public providers and servers; where a code exists
the code decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from slate_lab.errors import ModelErrorKind
from slate_lab.models.faults import Fault
from slate_lab.models.redact import Secret, redact
from slate_lab.models.retry import retryable_status

__all__ = ["Refusal", "read_refusal", "refusal_fault"]

_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|context (?:length|window|size)"
    r"|prompt is too long|input is too long|input length .{0,40}exceed|exceeds? .{0,40}token limit",
    re.IGNORECASE,
)
_RATE = re.compile(r"rate.?limit|tokens per (?:min|day)|requests per (?:min|day)|\b[TR]P[MD]\b", re.IGNORECASE)
_BILLING = re.compile(
    r"insufficient_quota|billing|credit balance|exceeded your current quota|insufficient (?:credit|balance|fund)"
    r"|payment required",
    re.IGNORECASE,
)
_AUTH = re.compile(r"invalid_api_key|api key not valid|incorrect api key|invalid api key|authentication", re.IGNORECASE)
_BAD_OUTPUT = re.compile(r"does not match the expected .{0,60}format", re.IGNORECASE)
_BUSY = re.compile(r"overload|capacity|loading model|try again|temporarily|unavailable|server.?error|timed? ?out", re.I)
_FIGURES = (
    re.compile(r"\((\d+) tokens\).{0,80}\((\d+) tokens\)"),  # llama.cpp: need, window
    re.compile(r"(?P<window>\d+) tokens.{0,120}?(?P<need>\d+) tokens", re.DOTALL),  # OpenAI: window, need
)


class Refusal(Struct, frozen=True, kw_only=True):
    """An error body, read: its message, its codes in one text, an HTTP status it names, sizes if it gives them."""

    message: str
    codes: str = ""
    status: int | None = None
    need: int | None = None
    window: int | None = None


def read_refusal(body: object) -> Refusal:
    """Read an error body: decoded JSON in any of the shapes in use, or text."""
    if isinstance(body, list):
        body = body[0] if body else ""
    if not isinstance(body, Mapping):
        return Refusal(message=str(body))
    inner = body.get("error", body)
    if not isinstance(inner, Mapping):
        inner = {**body, "message": inner if inner and inner is not True else body.get("message", "")}
    said = [inner.get(name) for name in ("message", "detail", "error", "msg")]
    message = next((_flat(part) for part in said if part), "") or _flat(inner)
    metadata = inner.get("metadata")
    if isinstance(metadata, Mapping) and metadata.get("raw"):
        message = f"{message}: {_flat(metadata['raw'])}"
    codes = " ".join(str(inner[name]) for name in ("code", "type", "status") if inner.get(name) is not None)
    code = inner.get("code")
    return Refusal(
        message=message,
        codes=codes,
        status=code if isinstance(code, int) and 400 <= code <= 599 else None,
        need=_count(inner.get("n_prompt_tokens")),
        window=_count(inner.get("n_ctx")),
    )


def refusal_fault(
    refusal: Refusal,
    *,
    status: int | None,
    retry_after_s: float | None = None,
    secrets: Iterable[Secret] = (),
    where: str = "",
) -> Fault:
    """The fault of a refusal.

    Args:
        refusal: what the body said.
        status: the HTTP status; None for an error inside a stream that began with 200, where the body's own counts.
        retry_after_s: seconds the headers ask to wait.
        secrets: what must not be shown.
        where: the route, for the message.
    """
    code = status or refusal.status
    kind, transient = _judge(refusal, code)
    text = redact(refusal.message, secrets) or "no message"
    head = f"{where}: " if where else ""
    named = f"HTTP {status}" if status else "an error inside the answer"
    message = f"{head}{named}: {text}"
    if kind == "context-overflow":
        need, window = _sizes(refusal)
        figures = f" ({need} tokens needed, the window is {window})" if need and window else ""
        message = f"{head}the prompt does not fit the window{figures}: {text}"
    return Fault(kind, message, transient=transient, status=code, retry_after_s=retry_after_s)


def _judge(refusal: Refusal, status: int | None) -> tuple[ModelErrorKind, bool]:
    text = f"{refusal.codes} {refusal.message}"
    if _BAD_OUTPUT.search(text):
        return "bad-reply", False
    if status == 402 or _BILLING.search(text):
        return "billing", False
    if status != 429 and not _RATE.search(text) and _OVERFLOW.search(text):
        return "context-overflow", False
    if status in (401, 403) or (status in (None, 400) and _AUTH.search(text)):
        return "auth", False
    if status is None:
        return ("retry-exhausted", True) if _BUSY.search(text) or _RATE.search(text) else ("bad-reply", False)
    if retryable_status(status) or (status == 413 and _RATE.search(text)):
        return "retry-exhausted", True
    return "bad-request", False


def _sizes(refusal: Refusal) -> tuple[int | None, int | None]:
    """Tokens needed and tokens of the window."""
    if refusal.need and refusal.window:
        return refusal.need, refusal.window
    if found := _FIGURES[0].search(refusal.message):
        return int(found[1]), int(found[2])
    if found := _FIGURES[1].search(refusal.message):
        return int(found["need"]), int(found["window"])
    return None, None


def _flat(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

"""Tool calls from streamed pieces, as tolerant as the providers are sloppy, and no more.

In: the `tool_calls` entries of each delta, in order. Out: `ToolCall` records. Where pieces cannot be read for sure the
call carries an `error` and is not run. Called by the chat protocol.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from slate_lab import tokens
from slate_lab.records import ToolCall

__all__ = ["CallAssembler", "read_arguments"]

CUT = "cut by the length limit; the tool is not run"


class _Open:
    """A call whose pieces are still coming."""

    __slots__ = ("id", "index", "name", "pieces")

    def __init__(self, index: int | None, call_id: str, name: str) -> None:
        self.index = index
        self.id = call_id
        self.name = name
        self.pieces: list[str] = []

    def text(self) -> str:
        return "".join(self.pieces)

    def whole(self) -> bool:
        """Whether nothing need follow: no arguments yet, or one complete object."""
        text = self.text()
        return not text.strip() or read_arguments(text)[1] is None


class CallAssembler:
    """Collects the pieces of one reply's calls."""

    def __init__(self) -> None:
        self._calls: list[_Open] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, pieces: object) -> None:
        """Take the `tool_calls` of one delta; anything that is not a call is ignored."""
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, Mapping):
                self._take(piece)

    def add_whole(self, pieces: object) -> None:
        """Take the `tool_calls` of an unstreamed message: every entry is one call."""
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, Mapping):
                function = _mapping(piece.get("function"))
                opened = self._open(None, _text(piece.get("id")), _text(function.get("name")))
                opened.pieces.append(_arguments(function.get("arguments")))

    def build(self, *, cut: bool) -> tuple[ToolCall, ...]:
        """The calls; with `cut` (the reply hit its length limit) the last one must be complete to be run."""
        used: set[str] = set()
        last = len(self._calls)
        return tuple(_built(call, n, used, cut=cut and n == last) for n, call in enumerate(self._calls, start=1))

    def _take(self, piece: Mapping[str, Any]) -> None:
        function = _mapping(piece.get("function"))
        index = piece.get("index")
        index = index if isinstance(index, int) else None
        call_id, name = _text(piece.get("id")), _text(function.get("name"))
        call = self._find(index, call_id, name) or self._open(index, call_id, name)
        call.id = call.id or call_id
        call.name = call.name or name
        if more := _arguments(function.get("arguments")):
            call.pieces.append(more)

    def _find(self, index: int | None, call_id: str, name: str) -> _Open | None:
        """The open call that a piece continues, None if it begins one.

        The index alone does not tell: some servers send index 0 for every call, some none at all, some a new id with
        every piece. A piece begins a call if it names a tool and has another id (or none, after a complete call).
        """
        candidates = [c for c in self._calls if index is None or c.index in (None, index)]
        if not candidates:
            return None
        same = next((c for c in reversed(candidates) if call_id and c.id == call_id), None)
        if same is not None:
            return same
        last = candidates[-1]
        if not name or not last.name:
            return last
        if call_id and last.id:
            return None if last.whole() or name != last.name else last
        return None if (last.whole() and last.text()) or name != last.name else last

    def _open(self, index: int | None, call_id: str, name: str) -> _Open:
        self._calls.append(_Open(index, call_id, name))
        return self._calls[-1]


def read_arguments(text: str) -> tuple[dict[str, Any], str | None]:
    """The arguments written in `text`, and why they cannot be used (None if they can).

    Nothing and `null` are `{}`. Text after a complete object is dropped. Of objects glued together the empty ones are
    dropped and equal ones are one; two different ones are an error. A string that holds an object is opened once.
    """
    text = tokens.clean(text).strip()
    if not text or text == "null":
        return {}, None
    found: list[dict[str, Any]] = []
    rest = text
    try:
        while not found or rest.startswith("{"):
            value, end = _DECODER.raw_decode(rest)
            value = _DECODER.decode(value) if isinstance(value, str) and not found else value
            if not isinstance(value, dict):
                return {}, f"the arguments are not an object: {_short(text)}"
            found.append(value)
            rest = rest[end:].lstrip()
    except (ValueError, RecursionError):
        return {}, f"the arguments are not JSON: {_short(text)}"
    told = [value for value in found if value] or found
    if any(value != told[0] for value in told):
        return {}, f"the arguments are two different objects: {_short(text)}"
    return _cleaned(told[0]), None


def _built(call: _Open, n: int, used: set[str], *, cut: bool) -> ToolCall:
    call_id = call.id or f"call_{n}"
    while call_id in used:
        call_id += "_"
    used.add(call_id)
    text = call.text()
    arguments, error = read_arguments(text)
    if cut and (error is not None or not text.strip()):
        arguments, error = {}, CUT
    if not call.name:
        error = error or "the call names no tool"
    return ToolCall(id=call_id, name=tokens.clean(call.name), arguments=arguments, error=error)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _arguments(value: object) -> str:
    """A piece of arguments as text; some servers send the decoded object."""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode() if isinstance(value, dict) else ""


def _cleaned(value: Any) -> Any:
    """`value` without lone surrogates in its strings."""
    if isinstance(value, str):
        return tokens.clean(value)
    if isinstance(value, dict):
        return {tokens.clean(key): _cleaned(item) for key, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits)


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse, parse_float=_finite)

"""Tool calls from streamed pieces, as tolerant as the providers are sloppy, and no more.

In: the `tool_calls` entries of each delta, in order (chat), or pieces told apart by a number (`begin` and
`extend`: responses and messages). Out: `ToolCall` records. Where pieces cannot be read for sure the call carries an
`error` and is not run. Called by the drafts of the protocols.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from slate_lab import tokens
from slate_lab.models.plain import Hide, TooDeep, as_is, plain, plain_label, plain_text
from slate_lab.records import ToolCall

__all__ = ["CallAssembler", "apart", "plain_call", "read_arguments"]

CUT = "cut by the length limit; the tool is not run"
DEEP = "the arguments are nested too deeply"


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

    def begin(self, number: int, call_id: object, name: object, arguments: object = None) -> int:
        """A call begins that has a number of its own in the answer; its place among the calls."""
        opened = self._numbered(number)
        opened.id, opened.name = _text(call_id) or opened.id, _text(name) or opened.name
        if text := _arguments(arguments):
            opened.pieces = [text]
        return self._calls.index(opened)

    def extend(self, number: int, text: object) -> None:
        """More of the arguments of call `number`."""
        if isinstance(text, str):
            self._numbered(number).pieces.append(text)

    def _numbered(self, number: int) -> _Open:
        return next((c for c in self._calls if c.index == number), None) or self._open(number, "", "")

    def build(self, *, cut: bool, hide: Hide = as_is) -> tuple[ToolCall, ...]:
        """The calls; with `cut` (the reply hit its length limit) the last one must be complete to be run.

        Secrets are hidden before anything is read, so that no message holds half of one.
        """
        last = len(self._calls)
        return apart([_built(call, cut=cut and n == last, hide=hide) for n, call in enumerate(self._calls, start=1)])

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
            found.append(plain(value))
            rest = rest[end:].lstrip()
    except TooDeep:
        return {}, DEEP
    except (ValueError, RecursionError):
        return {}, f"the arguments are not JSON: {_short(text)}"
    told = [value for value in found if value] or found
    if any(value != told[0] for value in told):
        return {}, f"the arguments are two different objects: {_short(text)}"
    return told[0], None


def plain_call(call: ToolCall, *, hide: Hide = as_is) -> ToolCall:
    """`call` with nothing but JSON in it: short texts for id and name, and arguments with text keys.

    Arguments that cannot be made so are an `error` of the call.

    Raises:
        TypeError: it is no call.
    """
    if not isinstance(call, ToolCall):
        raise TypeError(f"the calls of a Reply are ToolCalls, not {type(call).__name__}")
    given: object = call.arguments
    arguments: dict[str, Any] = {}
    error = None if call.error is None else plain_text(str(call.error), hide=hide)
    if isinstance(given, Mapping):
        try:
            arguments = plain(given, hide=hide)
        except TooDeep:
            error = error or DEEP
    else:
        error = error or f"the arguments are not an object: {type(given).__name__}"
    return ToolCall(
        id=plain_label(call.id, hide=hide), name=plain_label(call.name, hide=hide), arguments=arguments, error=error
    )


def apart(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """`calls` with an id each: those without one get one, and of equal ones the later ones are made longer."""
    used: set[str] = set()
    told: list[ToolCall] = []
    for n, call in enumerate(calls, start=1):
        call_id = call.id or f"call_{n}"
        if call_id in used:
            call_id += "_"
        while call_id in used:
            call_id += f"_{n}"
        used.add(call_id)
        told.append(call if call_id == call.id else replace(call, id=call_id))
    return tuple(told)


def _built(call: _Open, *, cut: bool, hide: Hide) -> ToolCall:
    text = hide(call.text())
    arguments, error = read_arguments(text)
    if cut and (error is not None or not text.strip()):
        arguments, error = {}, CUT
    if not call.name:
        error = error or "the call names no tool"
    return plain_call(ToolCall(id=call.id, name=call.name, arguments=arguments, error=error), hide=hide)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _arguments(value: object) -> str:
    """A piece of arguments as text; some servers send the decoded object."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else ""
    except RecursionError:
        return "(nested too deeply)"  # no JSON, and so an error of the call


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"


def _refuse(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits)


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse, parse_float=_finite)

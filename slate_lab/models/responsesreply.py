"""A reply from the events of a response, or from a whole one.

In: decoded events, in order. Out: the visible text of each as it comes, and the `Reply` at the end (`Draft`). Items are
told apart by their place in the output. Reasoning and its summaries are no text; sealed reasoning is carried back.
Called by the responses protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from slate_lab.models.assemble import Draft
from slate_lab.models.usage import responses_usage
from slate_lab.records import Carried, Route, Usage

__all__ = ["ResponsesDraft"]

_ENDS = {"response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed"}
_SILENT = frozenset(
    {
        "response.in_progress",
        "response.queued",
        "response.content_part.added",
        "response.content_part.done",
        "response.output_text.annotation.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
        "response.reasoning_summary_text.done",
        "response.reasoning_text.done",
        "keepalive",
    }
)
_THOUGHTS = frozenset({"response.reasoning_text.delta", "response.reasoning_summary_text.delta"})


class _Item:
    """One item of the output while it comes."""

    __slots__ = ("call", "number", "sealed", "texts")

    def __init__(self, number: int) -> None:
        self.number = number
        self.texts: list[str] = []
        self.call: int | None = None
        self.sealed: dict[str, Any] | None = None


class ResponsesDraft(Draft):
    """Collects one response.

    Args:
        route: the route that answers, for what is carried back.
        cap: the most tokens that were allowed: some servers call an answer complete that was cut by it.
        clock: marks the first token.
    """

    words = {  # noqa: RUF012  read by the base, never changed
        "completed": "stop",
        "max_output_tokens": "length",
        "max_tokens": "length",
        "length": "length",
        "content_filter": "content_filter",
    }

    def __init__(self, *, route: Route, clock: Callable[[], int], cap: int | None = None) -> None:
        super().__init__(clock=clock)
        self._route = route
        self._cap = cap
        self._order: list[_Item] = []
        self._items: dict[int | str, _Item] = {}  # by place in the output, and by id

    def add(self, chunk: Mapping[str, Any]) -> str:
        """Take one event; its visible text."""
        kind = chunk.get("type")
        if not isinstance(kind, str):
            kind = ""
        if kind == "response.output_text.delta" or kind == "response.refusal.delta":
            self._refused = self._refused or kind == "response.refusal.delta"
            return self._put(self._item(chunk), chunk.get("delta"))
        if kind == "response.function_call_arguments.delta":
            self._calls.extend(self._item(chunk).number, chunk.get("delta"))
        elif kind == "response.function_call_arguments.done":
            self._call(self._item(chunk), chunk)
        elif kind in ("response.output_text.done", "response.refusal.done"):
            self._refused = self._refused or kind == "response.refusal.done"
            return self._fill(self._item(chunk), chunk.get("text") or chunk.get("refusal"))
        elif kind in ("response.output_item.added", "response.output_item.done"):
            item = chunk.get("item")
            return self._whole(chunk, item) if isinstance(item, dict) else ""
        elif kind in _THOUGHTS:
            self._mark()
        elif kind == "response.created":
            self._introduce(_mapping(chunk.get("response")))
        elif kind in _ENDS:
            return self._end(_ENDS[kind], _mapping(chunk.get("response")))
        elif chunk.get("object") == "response":
            return self._end(str(chunk.get("status") or "completed"), chunk)
        elif kind not in _SILENT:
            self._ignore(kind or None)
        return ""

    def usage(self) -> Usage:
        """What was reported until now."""
        return responses_usage(self.raw_usage)

    def _end(self, status: str, response: Mapping[str, Any]) -> str:
        """The response as it ended; what of its output did not stream is taken from here."""
        self._introduce(response)
        if isinstance(response.get("usage"), dict):
            self.raw_usage = response["usage"] or None
        if status in ("failed", "cancelled"):
            self.refusal = response.get("error") or {"message": f"the response ended as {status}"}
            return ""
        output = response.get("output")
        said = [
            self._whole({"output_index": n}, item)
            for n, item in enumerate(output if isinstance(output, list) else ())
            if isinstance(item, dict)
        ]
        reason = _mapping(response.get("incomplete_details")).get("reason")
        self.finish = str(reason or "other") if status == "incomplete" else status
        written = self.usage().output_tokens
        if status == "completed" and self._cap is not None and written is not None and written >= self._cap:
            self.finish = "length"
        self.done = True
        return "".join(said)

    def _whole(self, place: Mapping[str, Any], item: dict[str, Any]) -> str:
        """An item that begins, or is complete; what did not stream of it."""
        kind = item.get("type")
        known = self._item({**place, "item_id": item.get("id")})
        if kind == "function_call":
            self._mark()
            self._call(known, item)
            return ""
        if kind == "reasoning":
            if item.get("encrypted_content"):
                known.sealed = _sealed(item)
            return ""
        if kind != "message":
            self._ignore(f"{kind} item")
            return ""
        content = item.get("content")
        parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
        self._refused = self._refused or any(part.get("type") == "refusal" for part in parts)
        return self._fill(known, "".join(str(part.get("text") or part.get("refusal") or "") for part in parts))

    def _fill(self, item: _Item, whole: object) -> str:
        """The text of an item of which nothing streamed."""
        return "" if item.texts else self._put(item, whole)

    def _put(self, item: _Item, text: object) -> str:
        if not text or not isinstance(text, str):
            return ""
        if self.first_ns is None:
            self._mark()
        item.texts.append(text)
        return self._say(text)

    def _call(self, item: _Item, told: Mapping[str, Any]) -> None:
        item.call = self._calls.begin(item.number, told.get("call_id"), told.get("name"), told.get("arguments"))

    def _item(self, place: Mapping[str, Any]) -> _Item:
        """The item of an event, by its place in the output or by its id: some servers leave one of them out."""
        keys = [key for key in (place.get("output_index"), place.get("item_id")) if isinstance(key, (int, str))]
        item = next((self._items[key] for key in keys if key in self._items), None)
        if item is None:
            item = _Item(len(self._order))
            self._order.append(item)
        for key in keys:
            self._items[key] = item
        return item

    def _carried(self) -> Carried | None:
        parts = tuple(_part(item) for item in self._order)
        sealed = any(isinstance(part, dict) for part in parts)
        return Carried(route=str(self._route), parts=parts) if sealed else None


def _part(item: _Item) -> dict[str, Any] | str | int:
    if item.sealed is not None:
        return item.sealed
    return "".join(item.texts) if item.call is None else item.call


def _sealed(item: Mapping[str, Any]) -> dict[str, Any]:
    """A reasoning item as it goes back: without what only names it at the provider."""
    kept = {name: item[name] for name in ("id", "encrypted_content") if item.get(name)}
    return {"type": "reasoning", **kept, "summary": item.get("summary") or []}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}

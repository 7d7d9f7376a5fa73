"""How records look in a notebook: formatters for the shell, and lists and dicts that show themselves as tables."""

from __future__ import annotations

import html
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell

from slate_lab.jupyter.cards import episode_card
from slate_lab.jupyter.live import Publish, Ticker, is_kernel
from slate_lab.records import Episode, Thread
from slate_lab.routing.rows import ModelRow, narrow
from slate_lab.slates import Reading, WriteResult
from slate_lab.verbs.text import MODELS_NOTE, cell, episode_rows, text_of, thread_rows

if TYPE_CHECKING:
    from slate_lab.jupyter.graph import WeaveGraph

__all__ = ["Record", "Rows", "install", "shown"]

_ROWS = 200
_TICKED = re.compile("`([^`]*)`")
_AS_TEXT = (Episode, Thread, Reading, WriteResult)
_HANDLE = ("slate_lab.weave.handle", "Handle")
_GRAPH = ("slate_lab.jupyter.graph", "WeaveGraph")


class Rows(list[Any]):
    """A list of threads, episodes, facts or plain rows that shows itself as a table."""

    def _repr_pretty_(self, p: Any, cycle: bool) -> None:
        p.text(text_of(list(self)))

    def _repr_html_(self) -> str | None:
        return rows_html(self)


class Record(dict[str, Any]):
    """A dict that shows itself as lines of `key: value`."""

    def _repr_pretty_(self, p: Any, cycle: bool) -> None:
        p.text(text_of(dict(self)))


def shown(value: Any) -> Any:
    """A verb's result, dressed for the notebook; records and views are returned as they are."""
    if isinstance(value, dict):
        return Record(value)
    return Rows(value) if type(value) is list else value


def install(ip: InteractiveShell, ticker: Ticker, publish: Publish) -> Callable[[], None]:
    """Register the displays of episodes, threads, lists of them and handles; returns what takes them out."""
    formatter = ip.display_formatter
    if formatter is None:
        return lambda: None
    as_html, as_text = formatter.formatters["text/html"], formatter.formatters["text/plain"]
    as_html.for_type(Episode, episode_html)
    as_html.for_type(list, rows_html)
    for record in _AS_TEXT:
        as_text.for_type(record, _pretty)
    if is_kernel(ip):
        formatter.ipython_display_formatter.for_type_by_name(*_HANDLE, ticker.show)
        formatter.ipython_display_formatter.for_type_by_name(
            *_GRAPH, partial(show_graph, ticker=ticker, publish=publish)
        )

    def remove() -> None:
        as_html.pop(Episode, None)
        as_html.pop(list, None)
        for record in _AS_TEXT:
            as_text.pop(record, None)
        if is_kernel(ip):
            for name in (_HANDLE, _GRAPH):
                _forget(formatter.ipython_display_formatter, *name)

    return remove


def _forget(formatter: Any, module: str, name: str) -> None:
    """Take a display out that was registered by name; it is kept by type once it was used."""
    formatter.deferred_printers.pop((module, name), None)
    for kind in [k for k in formatter.type_printers if (k.__module__, k.__name__) == (module, name)]:
        formatter.pop(kind)


def show_graph(graph: WeaveGraph, *, ticker: Ticker, publish: Publish) -> None:
    """The live view, and below it a picture that needs no kernel, drawn when everything has settled.

    A saved notebook that is opened again shows an error in place of a widget whatever stands in the same output, so
    the picture is an output of its own.
    """
    bundle = graph._repr_mimebundle_()
    publish(bundle[0] if isinstance(bundle, tuple) else bundle, uuid.uuid4().hex, update=False)
    ticker.watch(
        lambda: graph.static()._repr_mimebundle_() if graph.settled else {"text/plain": ""}, lambda: graph.settled
    )


def _pretty(value: Any, p: Any, cycle: bool) -> None:
    p.text(repr_line(value) if p.indentation else text_of(value))


def repr_line(value: Any) -> str:
    """One record inside a larger value."""
    if not isinstance(value, Thread | Episode):
        return repr(value)
    if isinstance(value, Thread):
        return f"<Thread {value.id} {value.state}: {value.label}>"
    return f"<Episode {value.id} {value.status}: {value.name or value.task[:80]}>"


def episode_html(episode: Episode) -> str:
    """The card of an episode."""
    return episode_card(episode)


def rows_html(values: Sequence[Any]) -> str | None:
    """A table of threads, episodes or plain rows; None for any other list, which then shows itself as ever."""
    first = values[0] if values else None
    kind = type(first)
    if not isinstance(first, Thread | Episode) and not (isinstance(values, Rows) and isinstance(first, Mapping)):
        return None
    if not all(isinstance(v, kind) for v in values):
        return None
    head = values[:_ROWS]
    rows = thread_rows(head) if kind is Thread else episode_rows(head) if kind is Episode else list(head)
    if kind is ModelRow:
        note = _TICKED.sub(r"<code>\1</code>", html.escape(MODELS_NOTE))
        return f"{table_html(narrow(values))}<p>{note}</p>"
    more = f"<p>{len(values) - _ROWS:,} more rows not shown</p>" if len(values) > _ROWS else ""
    return table_html(rows) + more


def table_html(rows: Sequence[Mapping[str, Any]]) -> str:
    """Plain rows as an HTML table, texts to the left and numbers to the right; everything escaped."""
    names = {n: f'style="text-align:{_side([row.get(n) for row in rows])}"' for n in rows[0]}
    head = "".join(f"<th {side}>{html.escape(n)}</th>" for n, side in names.items())
    body = "".join(
        "<tr>" + "".join(f"<td {s}>{html.escape(cell(row.get(n), limit=200))}</td>" for n, s in names.items()) + "</tr>"
        for row in rows
    )
    return f'<table class="dataframe"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _side(values: Sequence[Any]) -> str:
    told = [v for v in values if v is not None]
    return "right" if told and all(isinstance(v, int | float) and not isinstance(v, bool) for v in told) else "left"

"""How records look in a notebook: formatters for the shell, and lists and dicts that show themselves as tables."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from slate_lab.jupyter.live import Ticker, is_kernel
from slate_lab.records import Episode, Thread
from slate_lab.verbs.text import episode_rows, text_of, thread_rows

__all__ = ["Record", "Rows", "install", "shown"]

_ROWS = 200
_HANDLE = ("slate_lab.weave.handle", "Handle")


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


def install(ip: InteractiveShell, ticker: Ticker) -> Callable[[], None]:
    """Register the displays of episodes, threads, lists of them and handles; returns what takes them out."""
    formatter = ip.display_formatter
    if formatter is None:
        return lambda: None
    as_html, as_text = formatter.formatters["text/html"], formatter.formatters["text/plain"]
    as_html.for_type(Episode, episode_html)
    as_html.for_type(list, rows_html)
    for record in (Episode, Thread):
        as_text.for_type(record, _pretty)
    if is_kernel(ip):
        formatter.ipython_display_formatter.for_type_by_name(*_HANDLE, ticker.show)

    def remove() -> None:
        as_html.pop(Episode, None)
        as_html.pop(list, None)
        for record in (Episode, Thread):
            as_text.pop(record, None)
        if is_kernel(ip):
            formatter.ipython_display_formatter.pop(".".join(_HANDLE), None)

    return remove


def _pretty(value: Any, p: Any, cycle: bool) -> None:
    p.text(repr_line(value) if p.indentation else text_of(value))


def repr_line(value: Thread | Episode) -> str:
    """One record inside a larger value."""
    if isinstance(value, Thread):
        return f"<Thread {value.id} {value.state}: {value.label}>"
    return f"<Episode {value.id} {value.status}: {value.name or value.task[:80]}>"


def episode_html(episode: Episode) -> str:
    """The card of an episode."""
    return f"<pre>{html.escape(text_of(episode))}</pre>"


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
    more = f"<p>{len(values) - _ROWS:,} more rows not shown</p>" if len(values) > _ROWS else ""
    return table_html(rows) + more


def table_html(rows: Sequence[Mapping[str, Any]]) -> str:
    """Plain rows as an HTML table; everything escaped."""
    names = list(rows[0])
    head = "".join(f"<th>{html.escape(n)}</th>" for n in names)
    body = "".join("<tr>" + "".join(f"<td>{_cell(row.get(n))}</td>" for n in names) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        value = ", ".join(str(v) for v in value)
    text = str(value)
    return html.escape(text if len(text) <= 200 else text[:197] + "...")

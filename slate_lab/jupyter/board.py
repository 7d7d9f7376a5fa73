"""The cost board: spend by thread, by model and by kind of call, with the running total.

`lab.board()` makes one from the calls of the store; plain rows do as well. A cost that is not known is said to be
unknown, in the table and in the total, and is never counted as 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from slate_lab.jupyter.table import bar_html, frame_html, meter_text, table_html, table_text
from slate_lab.jupyter.text import clean_line, escape, money
from slate_lab.jupyter.theme import SOURCES, var
from slate_lab.records import Call

__all__ = ["CostBoard", "Spend"]

_ROWS = 15
_HEADS = ("calls", "tokens", "cost", "unknown cost")


class Spend(Struct, frozen=True):
    """One group of calls.

    Attributes:
        name: of the thread, model or kind.
        calls: how many.
        tokens: of those calls that reported them.
        nusd: of those calls whose cost is known.
        unknown: calls whose cost is not known.
    """

    name: str
    calls: int = 0
    tokens: int = 0
    nusd: int = 0
    unknown: int = 0

    def plus(self, tokens: int | None, nusd: int | None) -> Spend:
        """With one call more."""
        return Spend(
            self.name,
            self.calls + 1,
            self.tokens + (tokens or 0),
            self.nusd + (nusd or 0),
            self.unknown + (nusd is None),
        )

    @property
    def cost(self) -> str:
        """`$0.00120` of the calls whose cost is known; `unknown` if that is none of them."""
        return "unknown" if self.unknown and self.unknown == self.calls else money(self.nusd)

    @property
    def missing(self) -> str:
        """`2 calls` whose cost is not in it, or empty."""
        return f"{self.unknown:,} call{'' if self.unknown == 1 else 's'}" if self.unknown else ""


class CostBoard:
    """Spend, grouped.

    Args:
        rows: calls, or mappings with `thread`, `kind`, `model`, `tokens`, `nusd` (None: unknown) and, for the running
            total, `ended_ns`.
        cap_nusd: a cap to hold the total against, in nano-dollars.
        label: what it is the cost of.
    """

    def __init__(
        self, rows: Iterable[Call | Mapping[str, Any]], *, cap_nusd: int | None = None, label: str = "Cost"
    ) -> None:
        self._rows = [_row(row) for row in rows]
        self.cap_nusd, self.label = cap_nusd, label

    @property
    def total(self) -> Spend:
        """All calls."""
        return _sum("total", self._rows)

    def by(self, key: str) -> list[Spend]:
        """Groups by `thread`, `model` or `kind`, the dearest first, then the one with most tokens."""
        groups: dict[str, Spend] = {}
        for row in self._rows:
            name = row[key]
            groups[name] = groups.get(name, Spend(name)).plus(row["tokens"], row["nusd"])
        return sorted(groups.values(), key=lambda s: (-s.nusd, -s.tokens, s.name))

    @property
    def summary(self) -> str:
        """The total in one line."""
        total = self.total
        cap = f" of {money(self.cap_nusd)}" if self.cap_nusd is not None else ""
        calls = f"{total.calls:,} call{'' if total.calls == 1 else 's'}"
        missing = f", and {total.missing} of unknown cost" if total.unknown not in (0, total.calls) else ""
        return f"{total.cost}{missing}{cap}, {calls}, {total.tokens:,} tokens"

    @property
    def html(self) -> str:
        """Three tables with bars, and the running total."""
        if not self._rows:
            return frame_html(self.label, "no call has been made yet", [])
        blocks = [self._group_html(key, SOURCES[i]) for i, key in enumerate(("thread", "model", "kind"))]
        return frame_html(self.label, self.summary, [self._running_html(), *blocks])

    @property
    def text(self) -> str:
        """The same for a terminal."""
        lines = [f"{clean_line(self.label, 80)}: {self.summary}"]
        for key in ("thread", "model", "kind"):
            spends = self.by(key)
            cut = 5 if self.total.unknown else 4
            shown = [(*_cells(s)[:cut], meter_text(self._share(s, spends))) for s in spends[:_ROWS]]
            if shown:
                heads = (*(key, *_HEADS)[:cut], "")
                lines += ["", table_text(heads, shown, figures=range(1, cut))]
                lines += [_more(spends)] if len(spends) > _ROWS else []
        return "\n".join(lines)

    @property
    def _priced(self) -> bool:
        """Whether anything cost money; if not, bars show tokens."""
        return any(row["nusd"] for row in self._rows)

    def _share(self, spend: Spend, of: Sequence[Spend]) -> float | None:
        if self._priced:
            if spend.unknown == spend.calls:
                return None
            return spend.nusd / max(max(s.nusd for s in of), 1)
        return spend.tokens / max(max(s.tokens for s in of), 1)

    def _group_html(self, key: str, accent: str) -> str:
        spends = self.by(key)
        shown = spends[:_ROWS]
        bars = [bar_html(self._share(s, spends), accent) for s in shown]
        cut = 5 if self.total.unknown else 4
        cells = [_cells(s)[:cut] for s in shown]
        table = table_html((key, *_HEADS)[:cut], cells, figures=(1, 2, 3, 4), bars=bars)
        more = f'<div style="opacity:.78;font-size:12px">{_more(spends)}</div>' if len(spends) > _ROWS else ""
        return f'<div style="margin-top:10px">{table}{more}</div>'

    def _running_html(self) -> str:
        """The total over time, as a line of steps."""
        field = "nusd" if self._priced else "tokens"
        timed = sorted((r["ended_ns"], r[field] or 0) for r in self._rows if r["ended_ns"])
        if len(timed) < 3 or timed[0][0] == timed[-1][0]:
            return ""
        first, last = timed[0][0], timed[-1][0]
        whole = max(sum(amount for _, amount in timed), 1)
        path, sum_so_far = "M0 47", 0
        for at, amount in timed:
            sum_so_far += amount
            path += f"H{800 * (at - first) / (last - first):.1f}V{47 - 44 * sum_so_far / whole:.1f}"
        what = "cost" if field == "nusd" else "tokens"
        note = f"running total of {what}, {money(whole) if field == 'nusd' else f'{whole:,}'} at the end"
        return (
            f'<div style="margin-top:8px"><svg viewBox="0 0 800 50" preserveAspectRatio="none" role="img" '
            f'aria-label="{escape(note)}" style="display:block;width:100%;height:50px;border-bottom:1px solid '
            f'{var("rule")}"><path d="{path}V47H0Z" fill="{SOURCES[0]}" fill-opacity=".16"/>'
            f'<path d="{path}" fill="none" stroke="{SOURCES[0]}" stroke-width="1.6"'
            ' vector-effect="non-scaling-stroke"/>'
            f'</svg><div style="font-size:12px;opacity:.78">{escape(note)}</div></div>'
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}

    def __repr__(self) -> str:
        return self.text


def _row(row: Call | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(row, Call):
        return {
            "thread": row.thread,
            "kind": row.kind,
            "model": row.logical or f"{row.provider}/{row.model}",
            "tokens": row.usage.tokens,
            "nusd": row.cost.nusd,
            "ended_ns": row.ended_ns,
        }
    plain = {key: str(row.get(key) or "unknown") for key in ("thread", "kind", "model")}
    return plain | {key: row.get(key) for key in ("tokens", "nusd", "ended_ns")}


def _sum(name: str, rows: Iterable[Mapping[str, Any]]) -> Spend:
    spend = Spend(name)
    for row in rows:
        spend = spend.plus(row["tokens"], row["nusd"])
    return spend


def _cells(spend: Spend) -> tuple[str, str, str, str, str]:
    return clean_line(spend.name, 60), f"{spend.calls:,}", f"{spend.tokens:,}", spend.cost, spend.missing


def _more(spends: Sequence[Spend]) -> str:
    rest = spends[_ROWS:]
    unknown = sum(s.unknown for s in rest)
    tail = f" + {unknown:,} unknown" if unknown else ""
    return f"and {len(rest):,} more: {money(sum(s.nusd for s in rest))}{tail}, {sum(s.tokens for s in rest):,} tokens"

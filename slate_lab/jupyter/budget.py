"""The budget bar: what a prompt is made of, in tokens by source, against the window of its model.

`lab.budget()` makes one from the brief of a thread. It is static HTML that follows the page's theme; the same figures
stand below it as a table, so nothing depends on seeing the bar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slate_lab.jupyter.table import frame_html, meter_text, table_html, table_text
from slate_lab.jupyter.text import clean_line, escape
from slate_lab.jupyter.theme import MARKS, SOURCES, var
from slate_lab.records import is_episode_id

__all__ = ["BudgetBar"]

_FREE, _RESERVED = "free", "reserved for the answer"


class BudgetBar:
    """Tokens by source against a window.

    Args:
        parts: `{"source", "tokens", "exact"}` in the order of the prompt.
        window: tokens the route's context holds, None if unknown.
        reserved: tokens kept for the answer, None if none are.
        label: what it is the budget of.
        marks: further lines over the bar, as tokens by name, e.g. `{"pause": 120_000}`.
    """

    def __init__(
        self,
        parts: Sequence[Mapping[str, Any]],
        window: int | None = None,
        reserved: int | None = None,
        *,
        label: str = "",
        marks: Mapping[str, int] | None = None,
    ) -> None:
        self.parts = tuple((str(p["source"]), int(p["tokens"]), bool(p.get("exact", False))) for p in parts)
        self.window, self.reserved, self.label = window, reserved or 0, label
        self.marks = dict(marks or {})

    @property
    def used(self) -> int:
        """Tokens of all parts."""
        return sum(count for _, count, _ in self.parts)

    @property
    def free(self) -> int | None:
        """Tokens left besides the reserve; negative if it does not fit, None if the window is unknown."""
        return None if self.window is None else self.window - self.reserved - self.used

    @property
    def exact(self) -> bool:
        """Whether every part was counted by the provider's own measure."""
        return bool(self.parts) and all(exact for _, _, exact in self.parts)

    @property
    def summary(self) -> str:
        """The figures in one line."""
        how = "exact" if self.exact else "estimated"
        if self.window is None:
            return f"{self.used:,} tokens ({how}), window unknown"
        share = f"{100 * self.used / self.window:.0f} %" if self.window else "–"
        free = self.free or 0
        rest = f"{free:,} free" if free >= 0 else f"{-free:,} too many"
        return f"{self.used:,} of {self.window:,} tokens ({how}), {share}, {rest}"

    @property
    def html(self) -> str:
        """The bar, and its figures as a table."""
        rows = self._rows()
        keys = [
            _swatch(colour, str(n) if n <= len(self.parts) else "") if colour else ""
            for n, (_, _, _, _, colour) in enumerate(rows, 1)
        ]
        table = table_html(
            ("source", "tokens", "share", "counted"), [row[:4] for row in rows], figures=(1, 2), keys=keys
        )
        return frame_html(self.label or "Brief", self.summary, [self._bar(), table])

    @property
    def text(self) -> str:
        """The same for a terminal."""
        rows = [row[:4] for row in self._rows()]
        whole = self._whole()
        meters = [meter_text(count / whole if whole else 0.0) for count in self._counts()]
        table = table_text(
            ("source", "tokens", "share", "counted", ""),
            [(*row, meter) for row, meter in zip(rows, meters, strict=True)],
            figures=(1, 2),
        )
        return f"{clean_line(self.label or 'Brief', 80)}: {self.summary}\n{table}"

    def _whole(self) -> int:
        """What the whole length of the bar stands for."""
        return max(self.used + self.reserved, self.window or 0, *self.marks.values(), 1)

    def _counts(self) -> list[int]:
        rest = [self.reserved] if self.reserved else []
        rest += [max(0, self.free)] if self.free is not None else []
        return [count for _, count, _ in self.parts] + rest

    def _rows(self) -> list[tuple[str, str, str, str, str]]:
        """Source, tokens, share, how counted, colour."""
        base = self.window or self.used or 1
        rows = [
            (source, f"{count:,}", _percent(count / base), "exact" if exact else "estimated", colour)
            for (source, count, exact), colour in zip(self.parts, self._colours(), strict=True)
        ]
        if self.reserved:
            rows.append(
                (_RESERVED, f"{self.reserved:,}", _percent(self.reserved / base), "set", MARKS["queued"].accent)
            )
        if self.free is not None:
            rows.append((_FREE, f"{max(0, self.free):,}", _percent(max(0, self.free) / base), "", ""))
        return rows

    def _colours(self) -> list[str]:
        """One colour for each source; all episodes share one."""
        given: dict[str, str] = {}
        for source, _, _ in self.parts:
            given.setdefault(_kind(source), SOURCES[len(given) % len(SOURCES)])
        return [given[_kind(source)] for source, _, _ in self.parts]

    def _bar(self) -> str:
        whole = self._whole()
        pieces = []
        for n, ((source, count, exact), colour) in enumerate(zip(self.parts, self._colours(), strict=True), 1):
            share = 100 * count / whole
            title = escape(f"{source}: {count:,} tokens, {'exact' if exact else 'estimated'}")
            name = f"{n} {clean_line(source, 24)}"
            name = name if share > len(name) * 0.95 + 1 else str(n) if share > len(str(n)) + 0.4 else ""
            pieces.append(_piece(share, f"background:{colour}", title, escape(name)))
        if self.reserved:
            title = f"{_RESERVED}: {self.reserved:,} tokens"
            free = max(0, self.free or 0)
            pieces.append(f'<span style="flex:0 0 {100 * free / whole:.3f}%"></span>')
            pieces.append(_piece(100 * self.reserved / whole, _hatch(MARKS["queued"].accent), title, ""))
        outline = "dashed" if self.window is None else "solid"
        over = self.free is not None and self.free < 0
        colour = MARKS["failed"].accent if over else var("rule")
        bar = (
            f'<div role="img" aria-label="{escape(self.summary)}" style="display:flex;height:24px;border-radius:4px;'
            f'overflow:hidden;border:1px {outline} {colour};background:{var("raised")}">{"".join(pieces)}</div>'
        )
        lines = dict(self.marks) | ({"window": self.window} if over and self.window else {})
        return f'<div style="margin-top:8px">{bar}{"".join(_mark(n, c, whole) for n, c in lines.items())}</div>'

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}

    def __repr__(self) -> str:
        return self.text


def _kind(source: str) -> str:
    return "episode" if is_episode_id(source) else source


def _percent(share: float) -> str:
    return "<1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def _piece(share: float, paint: str, title: str, name: str) -> str:
    style = (
        f"flex:0 0 {share:.3f}%;min-width:{1 if share else 0}px;box-sizing:border-box;{paint};color:#ffffff;"
        "font-size:11px;line-height:24px;text-align:center;white-space:nowrap;overflow:hidden;"
        f"border-right:1px solid {var('ground')}"
    )
    return f'<span title="{title}" style="{style}">{name}</span>'


def _hatch(accent: str) -> str:
    return f"background:repeating-linear-gradient(135deg,{accent} 0 2px,transparent 2px 6px)"


def _swatch(colour: str, number: str) -> str:
    """The number of a part on its colour, as it stands in the bar; hatched for the reserve, which has none."""
    paint = f"background:{colour}" if number else _hatch(colour)
    look = "width:22px;height:15px;border-radius:3px;color:#ffffff;font-size:11px;line-height:15px;text-align:center"
    return f'<div style="{look};{paint}">{number}</div>'


def _mark(name: str, count: int, whole: int) -> str:
    """A line below the bar at `count` tokens, its label on the side where there is room."""
    share = min(100.0, 100 * count / whole)
    label = f"{escape(clean_line(name, 40))} {count:,}"
    side = f"right:{100 - share:.3f}%;border-right" if share > 50 else f"left:{share:.3f}%;border-left"
    return (
        f'<div style="position:relative;height:17px;font-size:11px"><span style="position:absolute;{side}:2px solid '
        f'currentColor;padding:0 5px">{label}</span></div>'
    )

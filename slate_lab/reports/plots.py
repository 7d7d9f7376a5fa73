"""Plots of frames as still pictures: no kernel, no script and no network is needed to look at one.

In: frames. Out: a `Picture`, drawn with Altair and turned into SVG in this process; below it stands what it shows in
words. Called by notebooks and by `lab.frames`. Needs the extra `report`.
"""

from __future__ import annotations

import base64
import html
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from slate_lab.errors import LabError
from slate_lab.reports.lives import FATES

if TYPE_CHECKING:
    import altair

__all__ = ["Picture", "memory_plot"]

_INK, _SOFT, _RULE, _GROUND = "#1f2328", "#59636e", "#d9dee4", "#ffffff"
_FATES: Final = dict(zip(FATES, ("#0d7f74", "#96690a", "#cf3a2f"), strict=True))


class Picture:
    """A chart that is shown as an image, and as its description where there are no images.

    Args:
        chart: what Altair made.
        says: what it shows, in a sentence.
    """

    def __init__(self, chart: altair.TopLevelMixin, *, says: str) -> None:
        self.chart, self.says = chart, says

    @cached_property
    def svg(self) -> str:
        """The picture as a standalone SVG document."""
        import vl_convert

        text: str = vl_convert.vegalite_to_svg(self.chart.to_json())
        return text

    @property
    def html(self) -> str:
        """The picture as an image with its description."""
        data = base64.b64encode(self.svg.encode()).decode()
        alt = html.escape(self.says, quote=True)
        width = self.svg.split('width="', 1)[1].split('"', 1)[0]
        return (
            f'<img src="data:image/svg+xml;base64,{data}" alt="{alt}" width="{width}" '
            'style="max-width:100%;height:auto;border-radius:6px">'
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.says}

    def __repr__(self) -> str:
        return self.says


def memory_plot(lives: pd.DataFrame, *, width: int = 250, height: int = 320) -> Picture:
    """How long each block stayed in each folder: a bar from its write to the write that pushed it out.

    Args:
        lives: one row per block or refused write, as `Frames.lives()` gives them: `folder`, `written`, `until` (both
            the number of a write in its slate), `fate`.
        width, height: pixels of the part of one folder.

    Raises:
        LabError: there is nothing to draw, or the extra `report` is missing.
    """
    alt = _altair()
    if lives.empty:
        raise LabError("no block was ever written: write to a slate first", code="no_blocks")
    fates = [fate for fate in _FATES if (lives["fate"] == fate).any()]
    colour = alt.Color(
        "fate:N",
        title=None,
        scale=alt.Scale(domain=fates, range=[_FATES[f] for f in fates]),
        legend=alt.Legend(orient="top", symbolOpacity=1),
    )
    base = alt.Chart(lives[["folder", "written", "until", "fate"]].astype({"written": int, "until": int}))
    bars = (
        base.transform_filter("datum.fate != 'refused'")
        .mark_bar(height=3, opacity=1)
        .encode(
            x=alt.X("written:Q", title="writes so far", scale=alt.Scale(nice=False)),
            x2="until:Q",
            y=alt.Y("written:Q", title="written as number", scale=alt.Scale(reverse=True, nice=False, zero=False)),
            color=colour,
        )
    )
    refused = (
        base.transform_filter("datum.fate == 'refused'")
        .mark_point(shape="cross", size=22, filled=True, opacity=1)
        .encode(x="written:Q", y="written:Q", color=colour)
    )
    chart = (
        (bars + refused)
        .properties(width=width, height=height)
        .facet(column=alt.Column("folder:N", title=None, sort=list(dict.fromkeys(lives["folder"]))))
        .configure(background=_GROUND, font="system-ui, Helvetica, Arial, sans-serif", padding=12)
        .configure_axis(
            labelColor=_SOFT,
            titleColor=_INK,
            gridColor=_RULE,
            domainColor=_SOFT,
            tickColor=_SOFT,
            titleFontWeight="normal",
        )
        .configure_header(labelColor=_INK, labelFontSize=12, labelFontWeight="bold")
        .configure_legend(labelColor=_INK)
        .configure_view(stroke=_RULE)
    )
    return Picture(chart, says=_says(lives))


def _says(lives: pd.DataFrame) -> str:
    counts = lives.groupby(["folder", "fate"], sort=False, observed=True).size()
    folders = []
    for folder in dict.fromkeys(lives["folder"]):
        of = [f"{counts[folder, fate]:,} {fate}" for fate in _FATES if (folder, fate) in counts.index]
        folders.append(f"{folder}: {', '.join(of)}")
    return f"How long each block stayed in memory. {'; '.join(folders)}."


def _altair() -> Any:
    try:
        import altair
    except ImportError as error:
        raise LabError("plots need the extra `report`: pip install 'slate-lab[report]'", code="no_extra") from error
    return altair

"""The HTML page of a notebook: whole in itself, still, and closed to the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from slate_lab.errors import LabError
from slate_lab.reports.page import export_html
from tests.reports.loads import loads, scripts

VIEW = {"application/vnd.jupyter.widget-view+json": {"model_id": "m", "version_major": 2}}
IMAGE = '<img alt="the weave" src="data:image/svg+xml;base64,PHN2Zy8+"/>'


def page(tmp_path: Path, *outputs: dict[str, Any], text: str = "# A *title*\n\nsome text") -> str:
    """The page of a notebook with one code cell that shows `outputs`."""
    shown = [new_output("display_data", data=data) for data in outputs]
    nb = new_notebook(cells=[new_markdown_cell(text), new_code_cell("show()", outputs=shown)])
    nb.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {"m": {"secret": 1}}}}
    nbformat.write(nb, tmp_path / "n.ipynb")
    return export_html(tmp_path / "n.ipynb", tmp_path / "out" / "n.html").read_text(encoding="utf-8")


def test_the_page_loads_nothing_and_runs_nothing(tmp_path: Path) -> None:
    """Texts, code and pictures are inside the page: no CDN, no script, and a policy that forbids both."""
    html = page(tmp_path, {"text/html": IMAGE, "text/plain": "x"})
    assert loads(html) == []
    assert scripts(html) == 0
    assert "default-src &#x27;none&#x27;" in html
    assert IMAGE in html
    assert "<title>A *title*</title>" in html


def test_a_live_view_gives_way_to_the_still_picture_beside_it(tmp_path: Path) -> None:
    """An interactive view and its saved state are dropped; the static output of the same cell stays."""
    html = page(tmp_path, {**VIEW, "text/plain": "Graph(live)"}, {"text/html": IMAGE})
    assert "Graph(live)" not in html
    assert "widget" not in html.lower()
    assert IMAGE in html


def test_a_live_view_that_stands_alone_is_shown_in_its_own_still_form(tmp_path: Path) -> None:
    """Where nothing stands beside it, the picture in the view's own output is better than nothing."""
    html = page(tmp_path, {**VIEW, "text/html": IMAGE})
    assert IMAGE in html
    assert scripts(html) == 0


def test_hostile_output_is_shut_in(tmp_path: Path) -> None:
    """A script in an output cannot run and an image cannot call home: the policy stands before everything else."""
    html = page(tmp_path, {"text/html": "<script src='https://evil.example/x.js'></script>"})
    assert html.index("Content-Security-Policy") < html.index("evil.example")
    assert html.index("Content-Security-Policy") < html.index("<title>")


@pytest.mark.parametrize("text", ["", "not json", '{"cells": 3}'], ids=["empty", "text", "other"])
def test_what_is_no_notebook_is_refused(tmp_path: Path, text: str) -> None:
    """A file that is no notebook is an error in one line that names the file."""
    (tmp_path / "n.ipynb").write_text(text, encoding="utf-8")
    with pytest.raises(LabError, match=r"n\.ipynb cannot be read as a notebook"):
        export_html(tmp_path / "n.ipynb", tmp_path / "n.html")

"""The tour: every notebook runs on its recorded replies, as saved, and says nothing of the machine it was saved on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from slate_lab.reports.page import export_html
from tests.reports.loads import loads, scripts

TOUR = Path(__file__).parents[2] / "notebooks"
PAGES = sorted(TOUR.glob("*.ipynb"))
NAMES = [page.stem for page in PAGES]
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_it_runs_on_recorded_replies(page: Path) -> None:
    """Every cell runs without a key and without a network, and the marked outputs are the saved ones."""
    env = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")} | {"SLATE_LAB_REPLAY": "replay"}
    closed = dict.fromkeys(("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"), "http://127.0.0.1:9")
    plugin = [
        "-p",
        "no:cacheprovider",
        "-p",
        "no:playwright",
        "--nbval-lax",
        "--nbval-current-env",
        "--nbval-cell-timeout=60",
    ]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-o", "addopts=", "-q", *plugin, str(page)],
        env=env | closed | {"SLATE_LAB_WEIGHTS": os.devnull},
        cwd=TOUR,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-1000:]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_it_is_saved_as_it_was_run(page: Path) -> None:
    """Every cell was run, in order, without an error; outputs are still, and name no folder of a machine."""
    nb = nbformat.read(page, as_version=4)
    cells = [cell for cell in nb.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    shown = [output for cell in cells for output in cell.outputs]
    assert not [output for output in shown if output.output_type == "error"]
    assert not [output for output in shown if WIDGET in output.get("data", {})]
    assert "widgets" not in nb.metadata
    assert not re.search(r"(?<![\w.])/(home|Users|root|tmp|private|work|var)/", nbformat.writes(nb))


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_its_page_needs_no_network(page: Path, tmp_path: Path) -> None:
    """The exported page loads nothing, runs nothing, and holds its pictures."""
    html = export_html(page, tmp_path / "page.html").read_text(encoding="utf-8")
    assert loads(html) == []
    assert scripts(html) == 0


def test_the_first_page_shows_the_weave(tmp_path: Path) -> None:
    """The picture of the four threads stands in the page itself, with a text for those who do not see it."""
    html = export_html(TOUR / "01_first_thread.ipynb", tmp_path / "page.html").read_text(encoding="utf-8")
    pictures = re.findall(r"<img[^>]*>", html)
    weave = [p for p in pictures if "data:image/" in p and "Threads as lanes over time" in p]
    assert weave
    assert "4 successful" in weave[0]


def test_the_page_of_models_shows_hops_buckets_and_a_cost_board(tmp_path: Path) -> None:
    """05: the picture of the weave says that work moved; the buckets, the costs and the board stand in the page."""
    html = export_html(TOUR / "05_models_and_cost.ipynb", tmp_path / "page.html").read_text(encoding="utf-8")
    weave = [p for p in re.findall(r"<img[^>]*>", html) if "Threads as lanes over time" in p]
    assert len(weave) == 1
    assert "Work went on to another route 4 times" in weave[0]
    for shown in ("cache_read_tokens", "recorded_cost_usd", "running total of cost", "paced_s"):
        assert shown in html


def test_recorded_replies_hold_no_key_and_no_path() -> None:
    """The recordings beside the tour are requests and answers only: nothing of who recorded them, or where."""
    for file in (TOUR / "replies").glob("*.jsonl"):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"(?i)bearer |api[-_]?key|authorization", text)
        assert not re.search(r"(?<![\w.])/(home|Users|root|tmp|private|work|var)/", text)

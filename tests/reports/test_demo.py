"""The demonstration, as far as it goes without a model: where things are found, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from slate_lab.errors import LabError, ModelError
from slate_lab.reports.demo import Sparse, fresh, run_demo, tour_notebook


def test_the_first_notebook_is_found() -> None:
    """The demonstration runs the notebook of the tour, wherever the package stands."""
    assert tour_notebook().name == "01_first_thread.ipynb"
    with pytest.raises(LabError, match=r"99_none\.ipynb is missing"):
        tour_notebook("99_none.ipynb")


def test_every_demonstration_has_a_project_of_its_own(tmp_path: Path) -> None:
    """A folder that is there is never used again: ids begin at t1, and nobody's work is touched."""
    assert fresh(tmp_path / "project") == tmp_path / "project"
    (tmp_path / "project").mkdir()
    (tmp_path / "project-2").symlink_to(tmp_path / "nowhere")
    assert fresh(tmp_path / "project") == tmp_path / "project-3"


def test_a_download_is_told_in_few_lines() -> None:
    """A new thing is told at once; figures of the same thing every five seconds, not a thousand times."""
    seconds = iter([0.0, 1.0, 2.0, 5.5, 6.0])
    lines: list[str] = []
    tell = Sparse(lines.append, clock=lambda: next(seconds))
    for text, share in (
        ("downloading q 1/9 MB", 0.1),
        ("downloading q 2/9 MB", 0.2),
        ("checking q", None),
        ("downloading q 5/9 MB", 0.5),
        ("downloading q 6/9 MB", 0.6),
    ):
        tell(text, share)
    assert lines == ["downloading q 1/9 MB, 10 %", "checking q", "downloading q 5/9 MB, 50 %"]


@pytest.mark.loopback
@pytest.mark.allow_hosts(["127.0.0.1"])
def test_without_weights_the_reason_comes_through_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the weights cannot be had, the model's own error comes out, so that a machine without them can tell."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    for proxy in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(proxy, "http://127.0.0.1:9")  # nobody listens there: no network
    monkeypatch.delenv("SLATE_LAB_WEIGHTS", raising=False)
    with pytest.raises(ModelError) as caught:
        run_demo(tmp_path / "out", line=lambda text: None)
    assert caught.value.kind == "unavailable"
    assert not list((tmp_path / "out").glob("*.html"))

"""Running a notebook in a kernel of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from slate_lab.errors import LabError
from slate_lab.reports.notebook import run_notebook, sections


def write(path: Path, *cells: str) -> Path:
    """A notebook; cells that begin with `#` are Markdown."""
    made = [new_markdown_cell(c) if c.startswith("#") else new_code_cell(c) for c in cells]
    nbformat.write(new_notebook(cells=made), path)
    return path


def test_a_copy_runs_in_this_interpreter_and_its_page_stands_beside_it(tmp_path: Path) -> None:
    """The kernel is this Python in the notebook's folder with the variables given; lines tell sections and seconds."""
    source = write(
        tmp_path / "n.ipynb",
        "# Title",
        "import os, sys\nprint(sys.executable, os.getcwd(), os.environ['GREETING'])",
        "## Second part",
        "1 + 1",
        "2 + 2",
    )
    before = source.read_bytes()
    lines: list[str] = []
    page = run_notebook(source, out=tmp_path / "out", line=lines.append, env={"GREETING": "hello"})
    assert page == tmp_path / "out" / "n.html"
    assert source.read_bytes() == before
    done = nbformat.read(tmp_path / "out" / "n.ipynb", as_version=4)
    assert done.cells[1].outputs[0].text == f"{sys.executable} {tmp_path} hello\n"
    assert [line.split(" ... ")[0] for line in lines] == ["[1/2] Title", "[2/2] Second part"]
    assert all(line.endswith(" s") for line in lines)
    assert "Second part" in page.read_text(encoding="utf-8")


def test_a_failing_cell_is_told_with_its_section_and_what_ran_is_kept(tmp_path: Path) -> None:
    """The error names section, exception and the executed part; no page is written."""
    source = write(tmp_path / "n.ipynb", "## One", "print('kept')", "## Two", "1 / 0", "print('never')")
    lines: list[str] = []
    with pytest.raises(LabError, match="a cell in 'Two' failed with ZeroDivisionError: division by zero") as caught:
        run_notebook(source, out=tmp_path / "out", line=lines.append)
    assert caught.value.code == "notebook_failed"
    done = nbformat.read(tmp_path / "out" / "n.ipynb", as_version=4)
    assert done.cells[1].outputs[0].text == "kept\n"
    assert done.cells[4].outputs == []
    assert not (tmp_path / "out" / "n.html").exists()
    assert "failed after" in lines[-1]


def test_sections_are_the_headings_that_cells_stand_under() -> None:
    """The last heading of a text counts; cells before any heading are under `start`."""
    cells = [new_code_cell("1"), new_markdown_cell("# A\ntext\n## B"), new_code_cell("2"), new_markdown_cell("text")]
    assert sections(new_notebook(cells=cells)) == ["start", "B", "B", "B"]


@pytest.mark.drill
def test_ctrl_c_stops_the_cell_and_leaves_no_kernel(tmp_path: Path) -> None:
    """Ctrl-C interrupts the running cell, starts no other, ends the kernel and comes out as KeyboardInterrupt."""
    pid = tmp_path / "pid"
    begun = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"
    source = write(tmp_path / "n.ipynb", begun, f"open({str(tmp_path / 'second')!r}, 'w')")
    run = f"run_notebook(Path({str(source)!r}), out=Path({str(tmp_path / 'out')!r}), line=print)"
    code = f"from pathlib import Path; from slate_lab.reports.notebook import run_notebook; {run}"
    child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    while not (pid.exists() and pid.read_text()):
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=30)
    assert errors.strip().endswith("KeyboardInterrupt")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert not (tmp_path / "second").exists()

"""Run the tour again and save it: python notebooks/refresh.py [--record] [NAME ...]

Without --record the recorded replies answer, so only outputs change. With it the model is asked anew and its replies
are kept in replies/. Notebooks of `SERVED` ask llama.cpp's own server on loopback: to record them it is started with
the embedded model, and ends with the recording. What is saved has still outputs only: no live views, no times of the
run, no paths of this machine. Pictures are saved as PNG, which every reader of notebooks shows; that takes Chromium
(`pip install slate-lab[browser]`).
"""

import argparse
import base64
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import platformdirs
from playwright.sync_api import sync_playwright

from slate_lab.errors import LabError
from slate_lab.models.weights import get_weights
from slate_lab.reports.notebook import run_notebook
from slate_lab.reports.page import still

HERE = Path(__file__).parent
SERVED = ("05_models_and_cost",)
SERVER = HERE.parent / "tests" / "models" / "local" / "llamaserver.py"
WEIGHTS = "qwen2.5-coder-0.5b"


def refresh(notebook: Path, *, record: bool) -> None:
    """Run `notebook` on new or recorded replies and save its outputs."""
    replies = HERE / "replies" / f"{notebook.stem}.jsonl"
    replies.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as out:
        if record:
            replies.unlink(missing_ok=True)
            with server(notebook) as env:
                run_notebook(notebook, out=Path(out), line=print, env={**env, "SLATE_LAB_REPLAY": "record"})
        run_notebook(notebook, out=Path(out), line=print, env={"SLATE_LAB_REPLAY": "replay"})
        done = still(nbformat.read(Path(out) / notebook.name, as_version=4))
    for cell in done.cells:
        cell.metadata.pop("execution", None)
    pictures(done)
    text = nbformat.writes(done) + "\n"
    for place in (os.path.expanduser("~"), tempfile.gettempdir(), str(HERE.parent)):
        if re.search(re.escape(place) + r"[/\\]", text):
            sys.exit(f"{notebook.name}: an output names a folder of this machine ({place}); change the cell")
    notebook.write_text(text, encoding="utf-8")


@contextmanager
def server(notebook: Path) -> Iterator[dict[str, str]]:
    """Where a served notebook finds the server it asks, as variables for its kernel; nothing for the others."""
    if notebook.stem not in SERVED:
        yield {}
        return
    weights = get_weights(WEIGHTS, cache=platformdirs.user_cache_path("slate_lab") / "models", progress=_tell)
    program = [sys.executable, str(SERVER), str(weights.path)]
    env = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            port = next((line.split()[1] for line in process.stdout if line.startswith("PORT")), None)
            if port is None:
                sys.exit(f"{notebook.name}: the server did not start")
            yield {"SLATE_LAB_TOUR_SERVER": f"http://127.0.0.1:{port}/v1"}
        finally:
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _tell(text: str, share: float | None) -> None:
    print(text)


def pictures(nb: nbformat.NotebookNode) -> None:
    """Turn every output that is an SVG picture in HTML into the same picture as PNG."""
    shown = [o.data for c in nb.cells if c.cell_type == "code" for o in c.outputs if "text/html" in o.get("data", {})]
    found = [(data, match) for data in shown if (match := re.search(r"<img src=\"data:image/svg[^>]*>", data["text/html"]))]
    if not found:
        return
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(device_scale_factor=2)
        for data, match in found:
            page.set_content(f"<body style='margin:0'>{match.group()}</body>")
            data["image/png"] = base64.b64encode(page.locator("img").screenshot()).decode()
            del data["text/html"]
            output = next(o for c in nb.cells for o in c.get("outputs", []) if o.get("data") is data)
            alt = html.unescape(re.search(r'alt="([^"]*)"', match.group()).group(1))
            width = int(float(re.search(r'width="([\d.]+)"', match.group()).group(1)))
            output.metadata["image/png"] = {"alt": alt, "width": width}
        browser.close()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--record", action="store_true", help="ask the model anew and keep its replies")
    parser.add_argument("names", nargs="*", help="notebooks (default: all)")
    asked = parser.parse_args()
    for notebook in [HERE / name for name in asked.names] or sorted(HERE.glob("*.ipynb")):
        try:
            refresh(notebook, record=asked.record)
        except LabError as error:
            sys.exit(f"{notebook.name}: {error.message}")


if __name__ == "__main__":
    main()

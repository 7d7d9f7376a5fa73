"""The first page of the tour as a person sees it: JupyterLab, light and dark, run from top to bottom.

Screenshots are left in out/screenshots, to be looked at: no test can say that a page is good.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]
SHOTS = Path(__file__).parents[2] / "out" / "screenshots"
OUTER = ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-WindowedPanel-outer"
READY = """async () => {
  const w = jupyterapp.shell.currentWidget;
  await w.revealed; await w.sessionContext.ready; await w.context.ready;
  await w.sessionContext.session.kernel.info;
}"""
CELLS = """() => jupyterapp.shell.currentWidget.content.model.sharedModel.cells
  .filter(c => c.cell_type === 'code')
  .map(c => [c.execution_count, c.outputs.length, c.outputs.some(o => o.output_type === 'error')])"""


def shoot(page, name):
    """The whole notebook in pictures of one screen each."""
    height = page.evaluate(f"() => document.querySelector('{OUTER}').scrollHeight")
    for number, top in enumerate(range(0, height, 850)):
        page.evaluate(f"y => {{ document.querySelector('{OUTER}').scrollTop = y }}", top)
        page.wait_for_timeout(300)
        page.screenshot(path=str(SHOTS / f"{name}_{number}.png"))


def test_it_runs_in_both_themes(page, server):
    """Every cell runs without an error, nothing but the server is asked, and pictures of both themes are left."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.goto(f"{server}/lab/tree/01_first_thread.ipynb?reset")
    page.wait_for_function("window.jupyterapp && jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel")
    page.evaluate(READY)
    page.evaluate("async () => { await jupyterapp.commands.execute('notebook:run-all-cells') }")
    cells = page.evaluate(CELLS)
    assert [count for count, _, _ in cells] == list(range(1, len(cells) + 1))
    assert not any(error for _, _, error in cells)
    shoot(page, "light")
    page.evaluate(
        "async () => { await jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'}) }"
    )
    page.wait_for_timeout(1_000)
    shoot(page, "dark")
    assert page.refused == []

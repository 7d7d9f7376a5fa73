"""A notebook as one HTML file that needs no network and runs no script.

In: an executed notebook. Out: a page with its texts, code and outputs; pictures are inside. Interactive views are left
out where a static output stands beside them, and replaced by their own still form where none does. Called by
`notebook` and by the verbs that export. The page's own policy forbids the browser to load or run anything, so that
what a notebook shows, whoever wrote it, stays on the page.
"""

from __future__ import annotations

import html
from copy import deepcopy
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode

from slate_lab.errors import LabError
from slate_lab.reports.style import PAGE

__all__ = ["export_html", "still"]

_VIEW = "application/vnd.jupyter.widget-view+json"
_SCRIPT = "application/javascript"
_RICH = ("text/html", "text/markdown", "image/svg+xml", "image/png", "image/jpeg")
_POLICY = (
    "default-src 'none'; img-src data:; font-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


def export_html(notebook: Path, out: Path, *, title: str | None = None) -> Path:
    """Write the executed `notebook` as the self-contained page `out`.

    Args:
        notebook: an `.ipynb` with its outputs.
        out: the HTML file; its folder is made.
        title: what the browser's tab says; by default the first heading.

    Raises:
        LabError: it is no notebook, or the page cannot be written.
    """
    nb = read_notebook(notebook)
    body, resources = _exporter().from_notebook_node(still(nb))
    page = _PAGE.format(
        policy=html.escape(_POLICY, quote=True),
        title=html.escape(title or first_heading(nb) or notebook.stem),
        style="\n".join([*resources["inlining"]["css"], PAGE]),
        body=body,
    )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page, encoding="utf-8")
    except OSError as error:
        raise LabError(f"the page {out} cannot be written: {error.strerror or error}", code="unwritable") from error
    return out


def still(nb: NotebookNode) -> NotebookNode:
    """A copy without live views: outputs as they can be read on paper."""
    copy = deepcopy(nb)
    copy.metadata.pop("widgets", None)
    for cell in copy.cells:
        if cell.cell_type == "code":
            cell.outputs = _still_outputs(cell.outputs)
    return copy


def read_notebook(path: Path) -> NotebookNode:
    """The notebook at `path`, in the current format.

    Raises:
        LabError: there is none, or it is none.
    """
    try:
        nb: NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, nbformat.ValidationError) as error:
        raise LabError(f"{path} cannot be read as a notebook: {error}", code="bad_notebook") from error
    return nb


def first_heading(nb: NotebookNode) -> str | None:
    """The text of the first Markdown heading."""
    lines = (line for cell in nb.cells if cell.cell_type == "markdown" for line in cell.source.splitlines())
    return next((str(line).lstrip("#").strip() for line in lines if line.startswith("#")), None)


def _still_outputs(outputs: list[NotebookNode]) -> list[NotebookNode]:
    beside = any(_rich(o) and _VIEW not in o.data for o in outputs)
    kept = []
    for output in outputs:
        data: dict[str, Any] = output.get("data", {})
        if _VIEW in data and (beside or not _rich(output)):
            continue
        for kind in (_VIEW, _SCRIPT):
            data.pop(kind, None)
        if data or output.output_type not in ("display_data", "execute_result"):
            kept.append(output)
    return kept


def _rich(output: NotebookNode) -> bool:
    return any(kind in output.get("data", {}) for kind in _RICH)


def _exporter() -> HTMLExporter:
    return HTMLExporter(  # type: ignore[no-untyped-call]
        template_name="basic",
        embed_images=True,
        exclude_anchor_links=True,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""

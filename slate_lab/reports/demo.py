"""The demonstration: the first page of the tour, run live in a fresh project, kept as an HTML page.

In: a folder. Out: the page; progress and a summary go to `line`. Called by `slate-lab demo`. The embedded model's
weights are fetched first, so that a machine that cannot have them learns it at once and in one line.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

from slate_lab.config import ProviderSpec, Trust, load_config, write_starter
from slate_lab.errors import LabError
from slate_lab.models.local import describe_local
from slate_lab.models.weights import get_weights
from slate_lab.reports.frames import Frames
from slate_lab.reports.notebook import Line, run_notebook
from slate_lab.routing.policy import Grant, Policy
from slate_lab.store import Store

__all__ = ["NOTEBOOK", "run_demo", "tour_notebook"]

NOTEBOOK = "01_first_thread.ipynb"
WANTED = 4
_TELL_S = 5.0


def run_demo(out: Path, *, line: Line) -> Path:
    """Run the first notebook live on the default model, in a new project below `out`.

    Args:
        out: the folder of the project, the executed notebook and the page; it is made.
        line: is given one line of progress or of the summary at a time.

    Returns:
        The HTML page.

    Raises:
        ModelError: kind `unavailable`: the embedded model's weights cannot be had here; the message lists why.
        LabError: a cell failed, or not all four threads were successful.
    """
    begun = time.monotonic()
    project = fresh(out / "project")
    Trust.of(project).record(only=write_starter(project))
    grant = _grant(project)
    if grant.provider.protocol == "local":
        get_weights(_weights(grant.provider, grant.route.model), progress=Sparse(line))
    line(f"{grant.route} works in {project}")
    env = {"SLATE_LAB_PROJECT": str(project.resolve()), "SLATE_LAB_REPLAY": "off"}
    page = run_notebook(tour_notebook(), out=out, line=line, env=env)
    with Store.open(project / ".slate" / "slate.db") as store:
        frames = Frames(store)
        for text in (*_model_lines(grant), *_thread_lines(frames), _cost_line(frames)):
            line(text)
        _require_all(frames)
    line(f"time     {time.monotonic() - begun:.0f} s in all")
    return page


def tour_notebook(name: str = NOTEBOOK) -> Path:
    """A notebook of the tour: from the installed package, or from the checkout.

    Raises:
        LabError: the package was installed without it.
    """
    installed = Path(str(files("slate_lab"))) / "data" / "notebooks" / name
    checkout = Path(__file__).parents[2] / "notebooks" / name
    found = next((path for path in (installed, checkout) if path.is_file()), None)
    if found is None:
        raise LabError(f"the notebook {name} is missing from the package: reinstall slate-lab", code="no_notebook")
    return found


def fresh(wanted: Path) -> Path:
    """`wanted`, or `wanted-2`, `wanted-3`, ...: the first that is not there, so that ids begin at t1."""
    n, path = 1, wanted
    while os.path.lexists(path):
        n += 1
        path = wanted.with_name(f"{wanted.name}-{n}")
    return path


class Sparse:
    """Progress of a download as few whole lines: each new thing at once, its figures every five seconds."""

    def __init__(self, line: Line, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._line, self._clock = line, clock
        self._doing, self._at = "", -_TELL_S

    def __call__(self, text: str, share: float | None) -> None:
        """Tell it, or keep quiet for now."""
        doing, now = " ".join(text.split()[:2]), self._clock()
        if doing != self._doing or now - self._at >= _TELL_S:
            self._doing, self._at = doing, now
            self._line(text if share is None else f"{text}, {100 * share:.0f} %")


def _grant(project: Path) -> Grant:
    policy = Policy.resolve(load_config(project).config)
    return policy.route(policy.default(os.environ), os.environ)


def _model_lines(grant: Grant) -> Iterator[str]:
    if grant.provider.protocol != "local":
        yield f"model    {grant.route}"
        return
    about = describe_local(grant.provider, model_id=grant.route.model)
    yield f"model    {about['model']}, on this machine ({about['licence']}); {about['note']}"
    yield f"weights  {about['file']} from {about['source']}, SHA-256 {about['sha256']}"


def _weights(spec: ProviderSpec, model_id: str) -> str:
    """What the embedded model will be started from."""
    return spec.weights or str(describe_local(spec, model_id=model_id)["model"])


def _thread_lines(frames: Frames) -> Iterator[str]:
    for row in frames.threads().itertuples():
        yield f"thread   {row.id} {row.label}: {row.state}, {row.ran_s:.1f} s"


def _cost_line(frames: Frames) -> str:
    summary = frames.summary()
    unpriced = int(summary["unpriced"].sum())
    told = f"${summary['known_cost_usd'].sum():.6f}" + (f" and {unpriced} calls of unknown cost" if unpriced else "")
    tokens = int(summary["input_tokens"].sum() + summary["output_tokens"].sum())
    return f"cost     {told}: {int(summary['calls'].sum())} calls, {tokens:,} tokens"


def _require_all(frames: Frames) -> None:
    states = frames.threads()["state"].tolist()
    if states != ["successful"] * WANTED:
        told = ", ".join(states) or "none"
        raise LabError(f"not all {WANTED} threads were successful: {told}", code="demo_failed")

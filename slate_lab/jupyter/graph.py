"""The weave graph: live in a notebook, a static picture when the work has settled, a tree in a terminal.

`lab.graph()` makes one from the records of the store. The widget behind it is made when it is first shown, so a graph
in a script or a test costs nothing. Changes go to the page as small patches, at most ten a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from IPython.core.getipython import get_ipython
from msgspec import Struct

from slate_lab.errors import LabError
from slate_lab.jupyter.layout import Layout, layout
from slate_lab.jupyter.snapshot import Cards, Snapshot, patch, snapshot
from slate_lab.jupyter.svg import image_html, svg
from slate_lab.jupyter.tree import tree
from slate_lab.records import Episode, Thread

__all__ = ["StaticWeave", "WeaveGraph", "WeaveView"]

_EVERY_S = 0.1
_STATIC_CAP = 60
_STATIC = Path(__file__).parent / "static"


def slim(source: str) -> str:
    """A script or style sheet without indentation and comment lines: it is sent, and saved, once with every widget."""
    lines = (line.strip() for line in source.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


class WeaveView(anywidget.AnyWidget):
    """The widget that draws snapshots; a graph owns one."""

    _esm = slim((_STATIC / "graph.js").read_text("utf-8"))
    _css = slim((_STATIC / "graph.css").read_text("utf-8"))
    snapshot = traitlets.Dict().tag(sync=True)

    def __init__(self, start: Snapshot) -> None:
        self._quiet = False
        super().__init__(snapshot=start)

    def notify_change(self, change: Any) -> None:
        """Tell the page, unless it got the same as a patch already."""
        if not (self._quiet and change["name"] == "snapshot"):
            super().notify_change(change)

    def show(self, new: Snapshot, *, last: bool) -> None:
        """Send what changed; a last time goes out whole, so that a saved notebook has the final state."""
        if last:
            self.snapshot = new
            return
        self.send(patch(self.snapshot, new))
        self._quiet = True
        try:
            self.snapshot = new
        finally:
            self._quiet = False


class StaticWeave(Struct, frozen=True):
    """A weave that no longer changes: an image with a table in HTML, a tree in text. Needs no kernel and no script."""

    picture: Layout
    text: str

    @property
    def svg(self) -> str:
        """The picture as a standalone SVG document."""
        return svg(self.picture)

    @property
    def html(self) -> str:
        """The picture as an image, with the same as a table."""
        return image_html(self.picture)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}

    def __repr__(self) -> str:
        return self.text


class WeaveGraph:
    """Threads as lanes over time, episodes as knots at their ends, context references as edges.

    Args:
        threads, episodes: the records to draw.
        cap: most rows of the live view; above it the oldest are counted and not drawn.
        clock: nanoseconds now, where running threads end.
        shell: the IPython shell it is shown in; None takes the running one. One without a kernel gets the tree.
    """

    def __init__(
        self,
        threads: Iterable[Thread] = (),
        episodes: Iterable[Episode] = (),
        *,
        cap: int = 2000,
        clock: Callable[[], int] = time.time_ns,
        shell: Any = None,
    ) -> None:
        self._threads = {t.id: t for t in threads}
        self._episodes = {e.thread: e for e in episodes}
        self._cap, self._clock, self._shell = cap, clock, shell
        self._made: Cards = {}
        self._lock = threading.RLock()
        self._view: WeaveView | None = None
        self._timer: threading.Timer | None = None
        self._sent_s = 0.0

    @property
    def settled(self) -> bool:
        """Whether no thread is queued or running."""
        with self._lock:
            return all(t.ended for t in self._threads.values())

    @property
    def widget(self) -> WeaveView:
        """The widget, made at its first use; to be placed among other widgets."""
        with self._lock:
            if self._view is None:
                self._view = WeaveView(self._snapshot())
            return self._view

    def update(self, threads: Iterable[Thread], episodes: Iterable[Episode] = ()) -> None:
        """Take in new and changed records; those not named stay. From any thread, as often as you like."""
        with self._lock:
            self._threads |= {t.id: t for t in threads}
            self._episodes |= {e.thread: e for e in episodes}
            if self._view is None or self._timer is not None:
                return
            wait_s = self._sent_s + _EVERY_S - time.monotonic()
            if wait_s <= 0:
                self._send()
                return
            self._timer = threading.Timer(wait_s, self._late)
            self._timer.daemon = True
            self._timer.start()

    def follow(
        self, source: Callable[[], tuple[Sequence[Thread], Sequence[Episode]]], *, every_s: float = 0.25
    ) -> threading.Thread:
        """Ask `source` for all records again and again, in a thread of its own, until all are settled.

        Returns the thread, which is a daemon. It ends too when `source` raises a `LabError` (its lab was closed): the
        graph then stays as it was last.
        """

        def run() -> None:
            try:
                self.update(*source())
                while not self.settled:
                    time.sleep(every_s)
                    self.update(*source())
            except LabError:
                return

        worker = threading.Thread(target=run, name="slate-lab-graph", daemon=True)
        worker.start()
        return worker

    def static(self, *, width: float = 960, cap: int = _STATIC_CAP) -> StaticWeave:
        """The weave as it is now, as a picture that needs no kernel: shown beside the live view when all is settled."""
        with self._lock:
            threads, episodes, now_ns = list(self._threads.values()), list(self._episodes.values()), self._clock()
        picture = layout(threads, episodes, now_ns=now_ns, width=width, cap=cap)
        return StaticWeave(picture, tree(threads, episodes, now_ns=now_ns))

    def close(self) -> None:
        """Take the widget away; the graph can be shown again."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._view is not None:
                self._view.close()
                self._view = None

    def _snapshot(self) -> Snapshot:
        return snapshot(
            self._threads.values(), self._episodes.values(), now_ns=self._clock(), cap=self._cap, made=self._made
        )

    def _late(self) -> None:
        with self._lock:
            self._timer = None
            self._send()

    def _send(self) -> None:
        if self._view is not None:
            self._view.show(self._snapshot(), last=self.settled)
            self._sent_s = time.monotonic()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        text = {"text/plain": str(self)}
        kernel = getattr(self._shell or get_ipython(), "kernel", None)
        if kernel is None:
            return text
        _forget(self, kernel.get_parent())
        with self._lock:
            if self._view is not None:
                self._send()
        bundle = self.widget._repr_mimebundle_()
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return {**data, **text, "image/svg+xml": self.static().svg}, metadata  # the picture, where no widget can be

    def __str__(self) -> str:
        with self._lock:
            return tree(self._threads.values(), self._episodes.values(), now_ns=self._clock())

    def __repr__(self) -> str:
        with self._lock:
            return f"<WeaveGraph: {len(self._threads)} threads, {len(self._episodes)} episodes>"


_shown: dict[str, tuple[str, list[WeaveGraph]]] = {}
"""Graphs on the page by the cell that shows them, with the run that did: a cell that is run again replaces its own."""


def _forget(graph: WeaveGraph, parent: dict[str, Any]) -> None:
    """Close what an earlier run of the same cell has shown: its output is gone, and a widget is never collected.

    `parent` is the message that runs the cell; front ends put the id of the cell into its metadata.
    """
    cell, run = parent.get("metadata", {}).get("cellId"), parent.get("header", {}).get("msg_id", "")
    if not cell:
        return
    before, graphs = _shown.get(cell, ("", []))
    if before != run:
        elsewhere = {id(g) for key, (_, shown) in _shown.items() if key != cell for g in shown}
        for old in graphs:
            if old is not graph and id(old) not in elsewhere:
                old.close()
        graphs = []
    _shown[cell] = (run, [*graphs, graph])

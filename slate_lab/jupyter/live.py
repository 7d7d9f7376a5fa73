"""Live output: the progress line of a blocking cell, and the ticker that redraws the handles of background threads.

All of it goes through display handles of its own and is coalesced: thousands of messages a second make a notebook
lose output. In a shell that is not a kernel nothing is redrawn.
"""

from __future__ import annotations

import html
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from IPython.core.interactiveshell import InteractiveShell

from slate_lab.errors import LabError
from slate_lab.jupyter.cards import episode_card, thread_card
from slate_lab.records import Progress
from slate_lab.verbs.door import Handle
from slate_lab.verbs.follow import progress_line
from slate_lab.verbs.text import one_line

__all__ = ["Bundle", "CellView", "Publish", "Ticker", "handle_bundle", "is_kernel", "publisher"]

Bundle = dict[str, str]

_REDRAW_S = 0.2
_PER_TICK, _ENDED_PER_TICK = 3, 20
"""Most displays redrawn in one tick of `_REDRAW_S`, running and settled: few messages, however many are shown."""


class Publish(Protocol):
    """Show a bundle under a display id, or change the one that is there."""

    def __call__(self, bundle: Bundle, display_id: str, *, update: bool) -> None:
        """Publish it; from any thread."""
        ...


def is_kernel(ip: InteractiveShell) -> bool:
    """Whether outputs can be changed after they were shown."""
    return getattr(ip, "kernel", None) is not None


def publisher(ip: InteractiveShell) -> Publish:
    """Publishing through the shell's own display publisher, whatever it is at that moment."""

    def publish(bundle: Bundle, display_id: str, *, update: bool) -> None:
        ip.display_pub.publish(data=dict(bundle), metadata={}, transient={"display_id": display_id}, update=update)

    return publish


class CellView:
    """The live picture of the thread that a blocking cell waits for."""

    def __init__(self, publish: Publish, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._publish, self._clock = publish, clock
        self._id = uuid.uuid4().hex
        self._shown: Bundle | None = None
        self._at = 0.0

    def update(self, progress: Progress) -> None:
        """Show it as it is now, if that is something new and the last time is long enough ago."""
        now = self._clock()
        if self._shown is None or now - self._at >= _REDRAW_S:
            self._show(progress_bundle(progress), now)

    def close(self, last: str | None) -> None:
        """Leave one static line; with none, leave nothing that looks alive."""
        if last is not None or self._shown is not None:
            self._show(line_bundle(last or ""), self._clock())

    def _show(self, bundle: Bundle, now: float) -> None:
        if bundle != self._shown:
            self._publish(bundle, self._id, update=self._shown is not None)
            self._shown, self._at = bundle, now


def line_bundle(text: str) -> Bundle:
    """One static line."""
    style = "font-family:var(--jp-code-font-family,monospace);opacity:.8"
    return {"text/plain": text, "text/html": f'<div style="{style}">{html.escape(text)}</div>'}


def progress_bundle(progress: Progress) -> Bundle:
    """A running thread: its card, and one line where there is no HTML."""
    return {"text/plain": progress_line(progress), "text/html": thread_card(progress)}


def handle_bundle(handle: Handle) -> Bundle:
    """A handle as it is now: its progress, or how it ended."""
    if not handle.done():
        return progress_bundle(handle.progress)
    try:
        episode = handle.result(0)
    except LabError as error:
        return line_bundle(one_line(f"{handle.id} {handle.state}: {error.message}"))
    line = line_bundle(f"{progress_line(handle.progress, episode)} [{episode.id}]")
    try:
        return {**line, "text/html": line["text/html"] + episode_card(episode)}
    except LabError:  # its facts cannot be read any more: the lab was closed
        return line


@dataclass
class _Shown:
    draw: Callable[[], Bundle]
    settled: Callable[[], bool]
    display_id: str
    bundle: Bundle


class Ticker:
    """Redraws displays from one thread, each until it has settled; the thread ends with the last of them."""

    def __init__(self, publish: Publish, *, every_s: float = _REDRAW_S) -> None:
        self._publish, self._every_s = publish, every_s
        self._lock = threading.Lock()
        self._shown: deque[_Shown] = deque()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def show(self, handle: Handle) -> None:
        """Display `handle` here and now, and keep the display up to date until it has settled."""
        self.watch(lambda: handle_bundle(handle), handle.done)

    def watch(self, draw: Callable[[], Bundle], settled: Callable[[], bool]) -> None:
        """Display what `draw` gives here and now, and again until `settled` says that it is the last picture."""
        last = settled()
        shown = _Shown(draw, settled, uuid.uuid4().hex, draw())
        self._publish(shown.bundle, shown.display_id, update=False)
        if last:
            return
        with self._lock:
            self._shown.append(shown)
            if self._thread is None:
                self._stop.clear()
                self._thread = threading.Thread(target=self._run, name="slate-lab-ticker", daemon=True)
                self._thread.start()

    def settle(self, timeout_s: float = 5.0) -> None:
        """Wait until everything that has settled shows its last picture, so that a saved notebook holds it."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            with self._lock:
                if not any(shown.settled() for shown in self._shown):
                    return
            time.sleep(self._every_s / 4)

    @property
    def watching(self) -> int:
        """How many displays are kept up to date."""
        with self._lock:
            return len(self._shown)

    def stop(self) -> None:
        """Stop redrawing; what is shown stays as it is."""
        with self._lock:
            self._shown.clear()
            thread = self._thread
        self._stop.set()
        if thread is not None:
            thread.join(2)

    def _run(self) -> None:
        try:
            while self._tick():
                self._stop.wait(self._every_s)
        finally:
            with self._lock:
                if self._thread is threading.current_thread():
                    self._thread = None

    def _tick(self) -> bool:
        """Redraw what is due, those that waited longest first; False when nothing is left to follow."""
        with self._lock:
            drawn: list[_Shown] = []
            waiting: list[_Shown] = []
            running = ended = 0
            for shown in self._shown:
                settled = shown.settled()
                if ended >= _ENDED_PER_TICK if settled else running >= _PER_TICK:
                    waiting.append(shown)
                    continue
                sent = self._redraw(shown)
                ended, running = ended + (sent and settled), running + (sent and not settled)
                if not settled:
                    (drawn if sent else waiting).append(shown)
            self._shown = deque([*waiting, *drawn])
            if not self._shown:
                self._thread = None
            return bool(self._shown)

    def _redraw(self, shown: _Shown) -> bool:
        """Whether a message went out."""
        bundle = shown.draw()
        if bundle == shown.bundle:
            return False
        self._publish(bundle, shown.display_id, update=True)
        shown.bundle = bundle
        return True

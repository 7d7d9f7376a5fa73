"""Live output is coalesced, ends with the last picture, and leaves nothing running."""

from __future__ import annotations

import threading
import time
from typing import Any

from slate_lab.jupyter.live import CellView, Ticker, handle_bundle
from slate_lab.records import Action, Progress


class Outputs:
    """Remembers what was published, per display."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sent: list[tuple[str, str, bool]] = []

    def __call__(self, bundle: dict[str, str], display_id: str, *, update: bool) -> None:
        with self.lock:
            self.sent.append((display_id, bundle["text/plain"], update))

    def last(self) -> dict[str, str]:
        """The newest text of every display."""
        return {display_id: text for display_id, text, _ in self.sent}


def busy(n: int) -> list[Any]:
    """Handles whose progress is new each time it is read."""
    from conftest import MemoryHandle

    class Busy(MemoryHandle):
        looked = 0

        @property
        def progress(self) -> Progress:
            self.looked += 1
            return Progress(id=self.id, label="x", state=self.state, turns=self.looked)

    return [Busy(f"t{i + 1}", Action(task="x")) for i in range(n)]


def tickers() -> int:
    """Ticker threads that are alive."""
    return sum(t.name == "slate-lab-ticker" for t in threading.enumerate())


def test_a_hundred_handles_do_not_flood_the_page() -> None:
    """However many handles are shown, the messages stay few; every one ends with its own last picture."""
    outputs = Outputs()
    ticker = Ticker(outputs, every_s=0.02)
    handles = busy(100)
    for handle in handles:
        ticker.show(handle)
    assert tickers() == 1
    started = time.monotonic()
    time.sleep(0.4)
    updates = [s for s in list(outputs.sent) if s[2]]
    assert len({s[0] for s in updates}) >= min(100, len(updates)) - 10  # all get their turn
    assert len(updates) <= 3 * ((time.monotonic() - started) / 0.02 + 1)
    for handle in handles:
        handle.settle()
    _until(lambda: ticker.watching == 0 and tickers() == 0)
    assert len(outputs.last()) == 100
    assert all("e1]" in text for text in outputs.last().values())


def test_a_settled_handle_is_shown_once_and_starts_nothing() -> None:
    """Nothing to follow, nothing that follows."""
    outputs, (handle,) = Outputs(), busy(1)
    handle.settle()
    ticker = Ticker(outputs)
    ticker.show(handle)
    assert (len(outputs.sent), tickers(), ticker.watching) == (1, 0, 0)


def test_stopping_leaves_no_thread_and_can_be_followed_by_a_start() -> None:
    """Unloading ends the ticker at once; the next handle gets a new one."""
    outputs, (one, two) = Outputs(), busy(2)
    ticker = Ticker(outputs, every_s=0.02)
    ticker.show(one)
    ticker.stop()
    assert tickers() == 0
    ticker.show(two)
    two.settle()
    _until(lambda: tickers() == 0)
    assert "e1]" in outputs.sent[-1][1]


def test_a_cancelled_handle_says_so() -> None:
    """A handle without an episode shows why."""
    (handle,) = busy(1)
    handle.cancel()
    assert handle_bundle(handle)["text/plain"] == "t1 cancelled: cancelled before anything was found"


def test_a_cell_is_redrawn_at_most_five_times_a_second() -> None:
    """Updates that come faster are left out; the last line always comes, and replaces the live one."""
    outputs, now = Outputs(), [0.0]
    view = CellView(outputs, clock=lambda: now[0])
    for turn in range(100):
        now[0] += 0.01
        view.update(Progress(id="t1", label="x", state="running", turns=turn))
    view.close("t1 successful")
    assert len(outputs.sent) <= 7
    assert [update for _, _, update in outputs.sent] == [False, *[True] * (len(outputs.sent) - 1)]
    assert outputs.sent[-1][1] == "t1 successful"
    assert len(outputs.last()) == 1


def test_a_cell_that_never_ran_shows_nothing() -> None:
    """A refusal leaves no output of its own."""
    outputs = Outputs()
    CellView(outputs).close(None)
    assert outputs.sent == []


def _until(true: Any) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)

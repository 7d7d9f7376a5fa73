"""The live graph: small patches, at most ten a second, a whole snapshot last; no widget where none can be shown."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

import slate_lab.jupyter
from slate_lab.errors import StoreError
from slate_lab.jupyter.graph import WeaveGraph, WeaveView
from slate_lab.jupyter.snapshot import patch, snapshot
from slate_lab.records import Hop, Thread

from .weaves import BASE_NS, HOSTILE, NOW_NS, episode, thread, weaves

STATIC = Path(slate_lab.jupyter.__file__).parent / "static"
WIDGET = "application/vnd.jupyter.widget-view+json"


class Wire:
    """The connection to a page, as a list of what went over it."""

    def __init__(self) -> None:
        self.comm_id = "wire"
        self.patches: list[dict[str, Any]] = []
        self.pushed: list[dict[str, Any]] = []

    def send(self, data: Any = None, **_: Any) -> None:
        """Keep it."""
        if data["method"] == "custom":
            self.patches.append(data["content"])
        else:
            self.pushed.append(data["state"])

    def on_msg(self, _: Any) -> None:
        """A page that never speaks."""

    def close(self, **_: Any) -> None:
        """Nothing to close."""


class Shell:
    """A shell with a kernel that runs a cell."""

    def __init__(self, cell: str = "a", run: int = 0) -> None:
        self.kernel = self
        self._parent = {"metadata": {"cellId": cell}, "header": {"msg_id": f"{cell}{run}"}}

    def get_parent(self) -> dict[str, Any]:
        """The message that runs the cell."""
        return self._parent


def folded(old: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """What the page makes of a snapshot and a patch."""
    nodes = {id: node for id, node in {**old["nodes"], **change["nodes"]}.items() if id not in change["gone"]}
    return {**old, **{k: v for k, v in change.items() if k not in ("nodes", "gone")}, "nodes": nodes}


@settings(max_examples=8, deadline=None)
@given(weaves(most=8), weaves(most=8))
def test_a_patch_makes_the_new_snapshot(old: tuple[list[Thread], list], new: tuple[list[Thread], list]) -> None:
    """Old snapshot and patch give the new snapshot, for any two weaves; both are JSON."""
    before, after = (snapshot(*weave, now_ns=NOW_NS) for weave in (old, new))
    change = json.loads(json.dumps(patch(before, after)))
    assert folded(json.loads(json.dumps(before)), change) == json.loads(json.dumps(after))


def test_what_did_not_change_is_not_sent() -> None:
    """With one of 500 threads settling, the patch holds that thread and the time, and is small."""
    threads = [thread(n, queued_s=n) for n in range(1, 500)]
    live = thread(500, queued_s=500, state="running")
    done = thread(500, queued_s=500)
    episodes = [episode(t) for t in threads]
    made: dict[str, Any] = {}
    before = snapshot([*threads, live], episodes, now_ns=live.created_ns + 10**9, made=made)
    after = snapshot([*threads, done], [*episodes, episode(done)], now_ns=live.created_ns + 2 * 10**9, made=made)
    change = patch(before, after)
    assert list(change["nodes"]) == ["t500"]
    assert len(json.dumps(change)) < 3000


def test_updates_are_coalesced_and_the_last_one_is_whole() -> None:
    """A burst of updates from eight threads becomes a few messages; when all is settled, one push of the trait."""
    graph = WeaveGraph([thread(n, state="running") for n in range(1, 9)], clock=lambda: NOW_NS)
    graph.widget.comm = wire = Wire()
    begun = time.monotonic()

    def work(n: int) -> None:
        for _ in range(50):
            graph.update([thread(n, state="running")])
        graph.update([thread(n)], [episode(thread(n))])

    workers = [threading.Thread(target=work, args=(n,)) for n in range(1, 9)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    deadline = time.monotonic() + 5
    while not wire.pushed and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(wire.patches) + len(wire.pushed) <= 2 + (time.monotonic() - begun) / 0.1
    assert len(wire.pushed) == 1
    assert {n["state"] for n in wire.pushed[0]["snapshot"]["nodes"].values()} == {"successful"}
    graph.close()


def test_a_patch_is_not_sent_twice() -> None:
    """What went out as a patch does not go out again as a trait, but is there for a page that is opened later."""
    graph = WeaveGraph([thread(1, state="running"), thread(2, state="running")], clock=lambda: NOW_NS)
    view = graph.widget
    view.comm = wire = Wire()
    graph.update([thread(1)], [episode(thread(1))])
    assert [list(p["nodes"]) for p in wire.patches] == [["t1"]]
    assert wire.pushed == []
    assert view.get_state("snapshot")["snapshot"]["nodes"]["t1"]["state"] == "successful"
    graph.close()


def test_a_terminal_gets_the_tree() -> None:
    """Without a notebook no widget is made: the bundle is text alone."""
    graph = WeaveGraph([thread(1)], [episode(thread(1))], clock=lambda: NOW_NS)
    assert graph._repr_mimebundle_() == {"text/plain": str(graph)}
    assert str(graph).startswith("weave: 1 thread: 1 successful")
    assert graph._view is None


def test_a_notebook_gets_the_widget_and_the_tree() -> None:
    """The bundle of the live view has the widget and a text for pages that cannot show one."""
    graph = WeaveGraph([thread(1)], [episode(thread(1))], clock=lambda: NOW_NS, shell=Shell())
    data, _ = graph._repr_mimebundle_()
    assert data["text/plain"] == str(graph)
    assert data[WIDGET]["model_id"] == graph.widget.model_id
    graph.close()


def test_the_static_form_needs_no_kernel() -> None:
    """HTML with an image and a table, and text; nothing of it is a script or refers to a widget."""
    graph = WeaveGraph([thread(1), thread(2, context=["t1.e1"])], [episode(thread(1))], clock=lambda: NOW_NS)
    bundle = graph.static()._repr_mimebundle_()
    assert sorted(bundle) == ["text/html", "text/plain"]
    assert "data:image/svg+xml;base64," in bundle["text/html"]
    assert "<script" not in bundle["text/html"]
    assert "← t1.e1" in bundle["text/plain"]


def test_following_ends_with_the_work() -> None:
    """A graph that follows asks until all is settled, and then stops asking."""
    answers = iter([([thread(1, state="queued")], []), ([thread(1, state="running")], []), ([thread(1)], [])])
    graph = WeaveGraph(clock=lambda: NOW_NS)
    follower = graph.follow(lambda: next(answers), every_s=0.001)
    follower.join(5)
    assert not follower.is_alive()
    assert graph.settled
    assert next(answers, None) is None


def test_following_ends_when_the_lab_is_closed() -> None:
    """A closed lab ends it without noise; what was seen last stays."""

    def closed() -> Any:
        raise StoreError("the store is closed", code="closed")

    graph = WeaveGraph([thread(1, state="running")], clock=lambda: NOW_NS)
    follower = graph.follow(closed, every_s=0.001)
    follower.join(5)
    assert not follower.is_alive()
    assert "running" in str(graph)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_travels_as_plain_values(name: str) -> None:
    """Any name makes a snapshot that is JSON, without control characters, and with every text cut to size."""
    hostile = thread(1, name=name, task=name, model=name)
    data = snapshot([hostile], [episode(hostile, text=name)], now_ns=NOW_NS)
    text = json.dumps(data, ensure_ascii=False)
    text.encode()
    assert not any(c in text for c in "\x1b\u202e\u2067")
    assert len(text) < 40_000


def test_all_episode_text_stays_within_its_budget() -> None:
    """2,000 long episodes make a snapshot of about two megabytes at most; each card says where the rest is."""
    threads = [thread(n, queued_s=n) for n in range(1, 2001)]
    episodes = [episode(t, text="word " * 300) for t in threads]
    data = snapshot(threads, episodes, now_ns=NOW_NS)
    assert len(json.dumps(data)) < 2_200_000
    assert data["nodes"]["t7"]["card"]["sections"][-1] == ["Cut", "All of it: %slate episode t7.e1"]


def test_the_script_is_small_and_keeps_to_text() -> None:
    """The script travels with every view: it stays small, and no text of a record can become markup in it."""
    script = (STATIC / "graph.js").read_text()
    assert len(WeaveView._esm) <= 16_000
    assert len((STATIC / "graph.css").read_bytes()) <= 8_000
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "import(", "http://cdn", "https://"):
        assert word not in script


def test_running_a_cell_again_closes_its_old_widget() -> None:
    """A hundred runs of one cell leave one open widget; those of other cells stay."""

    def show(cell: str, run: int) -> WeaveView:
        graph = WeaveGraph([thread(1)], clock=lambda: NOW_NS, shell=Shell(cell, run))
        graph._repr_mimebundle_()
        return graph.widget

    def is_open(view: WeaveView) -> bool:
        return view.comm is not None

    other = show("b", 0)
    views = [show("a", run) for run in range(100)]
    assert [is_open(view) for view in views] == [False] * 99 + [True]
    assert is_open(other)
    show("b", 1).close()
    assert not is_open(other)
    views[-1].close()


def test_recovery_is_drawn_where_it_happened() -> None:
    """A thread that went on to another route has a mark on its bar, and says from where to where and why."""
    hop = Hop(
        at_ns=BASE_NS + 2_000_000_000,
        kind="worker",
        n=1,
        from_logical="a",
        from_route="one/a",
        to_logical="b",
        to_route="two/b",
        cause="rate-limit <b>",
    )
    moved = replace(thread(1), hops=(hop,), ran_route="two/b")
    graph = WeaveGraph([moved, thread(2)], [], clock=lambda: NOW_NS)
    picture, still = graph.static(), WeaveGraph([thread(1)], [], clock=lambda: NOW_NS).static()
    assert picture.svg.count("v14m4 -14v14") == 1
    assert "one/a → two/b (rate-limit &lt;b&gt;)" in picture.html
    assert "went on to two/b" in picture.text
    assert "another route" not in still.svg
    node = graph._snapshot()["nodes"]["t1"]
    assert node["hops"] == [2.0]
    assert ["went on", "one/a → two/b (rate-limit <b>)"] in node["card"]["rows"]

"""In a real kernel: live output, interrupts, background handles, completion, tasks byte for byte."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

pytestmark = [pytest.mark.loopback, pytest.mark.allow_hosts(["127.0.0.1", "::1", "localhost"])]

SETUP = """
%load_ext slate_lab
import asyncio, threading
import slate_lab as sl
seen = []
async def script(request):
    task = request.messages[-1].text
    seen.append(task)
    if "stubborn" in task:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await asyncio.sleep(0.7)
            raise
    if "slow" in task:
        await asyncio.sleep(30)
    if "second" in task:
        await asyncio.sleep(1.0)
    return "done"
fixed = {"compressor": {"mode": "fixed"}}
lab = sl.Lab.open(".", store=":memory:", models=sl.ScriptedModel(script), config=fixed, env={})
%slate open $lab
"""


class Kernel:
    """A running kernel, asked one cell at a time."""

    def __init__(self, manager: KernelManager) -> None:
        self.manager = manager
        self.client = manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def start(self, cell: str) -> str:
        """Send a cell; its id."""
        return str(self.client.execute(cell))

    def message(self, id: str, *, timeout: float = 30) -> dict[str, Any]:
        """The next output message of a cell."""
        while True:
            message = self.client.get_iopub_msg(timeout=timeout)
            if message["parent_header"].get("msg_id") == id:
                return dict(message)

    def finish(self, id: str) -> list[dict[str, Any]]:
        """The remaining messages of a cell, up to idle; the reply is the last."""
        found = []
        while True:
            message = self.message(id)
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
            found.append(message)
        while True:
            reply = self.client.get_shell_msg(timeout=30)
            if reply["parent_header"].get("msg_id") == id:
                return [*found, dict(reply)]

    def run(self, cell: str) -> list[dict[str, Any]]:
        """Run a cell to its end."""
        return self.finish(self.start(cell))

    def value(self, expression: str) -> str:
        """The repr of an expression."""
        for message in self.run(expression):
            if message["msg_type"] == "execute_result":
                return str(message["content"]["data"]["text/plain"])
        raise AssertionError(f"{expression} has no value")

    def until_live(self, id: str) -> None:
        """Wait until the cell's live output is there."""
        while self.message(id)["msg_type"] != "display_data":
            pass


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel with a scripted lab for all tests of the module."""
    folder: Path = tmp_path_factory.mktemp("kernel")
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(folder))
    made = Kernel(manager)
    replies = made.run(SETUP)
    assert replies[-1]["content"]["status"] == "ok", replies[-1]["content"]
    yield made
    made.client.stop_channels()
    manager.shutdown_kernel(now=True)
    manager.cleanup_resources()


def texts(messages: list[dict[str, Any]], kind: str) -> list[str]:
    """The plain texts of the messages of a kind."""
    return [m["content"]["data"]["text/plain"] for m in messages if m["msg_type"] == kind]


def test_a_blocking_cell_shows_progress_and_ends_in_one_static_line_and_a_card(kernel: Kernel) -> None:
    """Live output in the cell at 10 Hz at most; at the end one line that says what it took, and the episode."""
    started = time.monotonic()
    messages = kernel.run("%%slate thread --type query\none second")
    took = time.monotonic() - started
    live = texts(messages, "display_data")
    updates = texts(messages, "update_display_data")
    assert len(live) == 1
    assert 2 <= len(updates) <= 10 * took
    assert "running" in updates[0]
    assert updates[-1].startswith("t1 successful")
    ids = {
        m["content"]["transient"]["display_id"]
        for m in messages
        if "transient" in m["content"] and m["content"]["transient"]
    }
    assert len(ids) == 1
    assert "## Intent" in texts(messages, "execute_result")[0]
    assert messages[-1]["content"]["status"] == "ok"


def test_an_interrupt_cancels_the_thread_and_prints_one_line(kernel: Kernel) -> None:
    """■ ends the cell within two seconds as an error of one line; nothing of it runs on, and the next cell works."""
    id = kernel.start("%%slate thread --type query\nslow")
    kernel.until_live(id)
    at = time.monotonic()
    kernel.manager.interrupt_kernel()
    messages = kernel.finish(id)
    assert time.monotonic() - at < 4
    errors = [m["content"]["text"] for m in messages if m["msg_type"] == "stream" and m["content"]["name"] == "stderr"]
    assert "".join(errors).count("\n") == 1
    assert "UsageError: interrupted: t" in "".join(errors)
    assert messages[-1]["content"]["status"] == "error"
    assert not [m for m in messages if m["msg_type"] == "error" and len(m["content"]["traceback"]) > 1]
    assert kernel.value("lab.live()") == "[]"
    assert kernel.value("lab.threads()[-1].state") == "'cancelled'"
    assert kernel.value("1 + 1") == "2"


def test_a_second_interrupt_leaves_no_orphan(kernel: Kernel) -> None:
    """Impatience while a worker takes its time to stop still ends the cell, and the worker with it."""
    id = kernel.start("%%slate thread --type query\nstubborn")
    kernel.until_live(id)
    time.sleep(0.3)
    kernel.manager.interrupt_kernel()
    time.sleep(0.2)
    kernel.manager.interrupt_kernel()
    messages = kernel.finish(id)
    assert messages[-1]["content"]["status"] == "error"
    kernel.run("%slate wait --timeout 5")
    assert kernel.value("lab.live()") == "[]"
    assert kernel.value("lab.threads()[-1].ended") == "True"
    assert kernel.value("1 + 1") == "2"


def test_a_background_handle_keeps_its_display_up_to_date_and_then_stops(kernel: Kernel) -> None:
    """The cell returns at once; its output follows the thread to the end; no ticker is left."""
    at = time.monotonic()
    id = kernel.start("h = %slate thread --type query --background 'a second'\nh")
    messages = kernel.finish(id)
    assert time.monotonic() - at < 1.0 or "running" in texts(messages, "display_data")[0]
    display_id = next(m for m in messages if m["msg_type"] == "display_data")["content"]["transient"]["display_id"]
    last = ""
    while "successful" not in last:
        message = kernel.client.get_iopub_msg(timeout=10)
        if message["msg_type"] == "update_display_data":
            assert message["content"]["transient"]["display_id"] == display_id
            last = message["content"]["data"]["text/plain"]
    assert "e1" in last
    assert kernel.value("h.result(0).status") == "'ok'"
    time.sleep(0.5)
    assert kernel.value("[t.name for t in threading.enumerate() if 'ticker' in t.name]") == "[]"


def test_a_task_ends_in_a_question_mark_here_too(kernel: Kernel) -> None:
    """The kernel's own handling of a cell changes nothing in the body."""
    body = 'cost is $5 {x} "quoted" ?\n>>> `${x}` !\n   \nreally??'
    kernel.run(f"%%slate thread --type query --quiet\n{body}")
    assert kernel.value("seen[-1]") == repr(body)


def test_completion_over_the_wire(kernel: Kernel) -> None:
    """A front end gets our words with the right place to put them."""
    code = "%slate thread --type re"
    reply = kernel.client.complete(code, reply=True, timeout=30)["content"]
    assert reply["matches"] == ["researcher", "reviewer"]
    assert (reply["cursor_start"], reply["cursor_end"]) == (len(code) - 2, len(code))


def test_the_graph_follows_and_leaves_a_picture(kernel: Kernel) -> None:
    """A live view, and an output of its own that becomes the static picture when everything has settled."""
    kernel.run("h = %slate thread --type query --background --quiet 'one second'")
    messages = kernel.run("%slate graph")
    live, still = [m["content"] for m in messages if m["msg_type"] == "display_data"]
    assert "application/vnd.jupyter.widget-view+json" in live["data"]
    assert still["data"] == {"text/plain": ""}
    while True:
        message = kernel.client.get_iopub_msg(timeout=10)
        if message["msg_type"] == "update_display_data":
            break
    assert message["content"]["transient"] == still["transient"]
    assert "data:image/svg+xml" in message["content"]["data"]["text/html"]
    settled = kernel.run("%slate graph")
    assert (
        "data:image/svg+xml"
        in [m["content"]["data"] for m in settled if m["msg_type"] == "display_data"][1]["text/html"]
    )


def test_loading_twice_and_unloading_in_a_kernel(kernel: Kernel) -> None:
    """The last test of the module: the magic, its displays and its ticker are gone afterwards."""
    kernel.run("%reload_ext slate_lab\n%load_ext slate_lab")
    kernel.run("%unload_ext slate_lab")
    assert kernel.run("%slate status")[-1]["content"]["status"] == "error"
    assert kernel.value("[t.name for t in threading.enumerate() if 'ticker' in t.name]") == "[]"
    shown = kernel.run("lab.dispatch('one second', type='query')")
    assert not [m for m in shown if m["msg_type"] == "display_data"]
    assert kernel.value("lab.status()['threads'] > 0") == "True"

"""Commands of workers through the corridor: granted by type, kept as facts, gone however a thread ends."""

from __future__ import annotations

import os
import time

import pytest

from slate_lab.errors import DispatchError
from tests.weave.test_tools_bash import marked

PYTHON = "import subprocess; subprocess.Popen(['sleep', '{word}']); print(tools.read('notes/b.md')); 6 * 7"


def test_code_that_calls_tools_is_counted_and_kept_as_facts(open_lab):
    """Each call from code is a tool call and a fact of its own, before the fact of the cell."""
    code = "print(len(tools.read('notes/a.md')))\ntools.ls('notes')"
    lab = open_lab([{"tool": "python", "args": {"code": code}}, "done"])
    handle = lab.dispatch("x", type="general")
    episode = handle.result(60)
    assert [(f.kind, f.tool) for f in episode.facts] == [
        ("tool", "read"),
        ("tool", "ls"),
        ("tool", "python"),
        ("text", None),
    ]
    assert "a.md (" in episode.facts[2].text
    assert handle.progress.tool_calls == 3


def test_code_cannot_call_more_tools_than_the_action_may(open_lab):
    """The limit of tool calls holds inside a cell too."""
    code = "for n in range(5):\n    try:\n        print(len(tools.ls()))\n    except Exception as e:\n        print(e)"
    lab = open_lab([{"tool": "python", "args": {"code": code}}, "done"])
    episode = lab.thread("x", type="general", limits={"tool_calls": 3})
    assert [f.tool for f in episode.facts] == ["ls", "ls", "python", None]
    assert "tool_calls" in episode.facts[2].text


ENDS = ["a final message", "a cancel", "a limit of time", "an error of the model", "the lab closes"]


@pytest.mark.parametrize("end", ENDS)
def test_however_a_thread_ends_its_kernel_and_all_it_started_are_gone(open_lab, end):
    """On every terminal path, before the thread is settled."""
    word = f"4716.{os.getpid()}{ENDS.index(end)}"
    hang = {"tool": "bash", "args": {"command": f"sleep {word}; echo"}}
    first = {"tool": "python", "args": {"code": PYTHON.format(word=word)}}
    script = {"a final message": [first, "done"], "an error of the model": [first]}.get(end, [first, hang, "done"])
    lab = open_lab(script)
    handle = lab.dispatch("x", type="general", limits={"seconds": 3.0} if end == "a limit of time" else {})
    if end in ("a cancel", "the lab closes"):
        until = time.monotonic() + 30
        while len(marked(f"sleep\0{word}")) < 2 and time.monotonic() < until:
            time.sleep(0.02)
        assert len(marked(f"sleep\0{word}")) == 2
        lab.close() if end == "the lab closes" else handle.cancel(compress=False)
    try:
        handle.result(60)
    except DispatchError:
        pass  # cancelled by a closing lab
    assert marked(word) == []


def test_types_that_only_look_have_no_commands(open_lab):
    """Asking for one by name is refused; a type that writes has both."""
    lab = open_lab(["done"])
    for kind in ("researcher", "reviewer", "adversarial", "query"):
        with pytest.raises(DispatchError, match="has no bash, python"):
            lab.dispatch("x", type=kind, tools=["bash", "python"])
    assert lab.thread("x", type="implementer", tools=["bash", "python"]).status == "ok"
    assert lab.status()["sandbox"]

"""Approval of tool calls: asked before the call, answered from anywhere, denied when nobody does."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from slate_lab.errors import LabError

WRITE = {"tool": "write", "args": {"path": "new.txt", "text": "hello\x1b[31m"}}


def waiting(lab, count=1):
    """What waits, once there is that much."""
    until = time.monotonic() + 20
    while len(found := lab.approvals()) < count and time.monotonic() < until:
        time.sleep(0.01)
    assert len(found) == count
    return found


@pytest.mark.parametrize("by", ["approval", "thread"])
def test_an_approved_call_is_made(open_lab, project, by):
    """The call waits, shows all its arguments, and runs once it is approved by its id or its thread's."""
    lab = open_lab([WRITE, "done"], tools={"approve": ["write"]})
    handle = lab.dispatch("x", type="general")
    (asked,) = waiting(lab)
    assert (asked.id, asked.thread, asked.tool, asked.state) == ("a1", "t1", "write", "pending")
    assert '"path":"new.txt"' in asked.arguments
    while "waits for approval: slate-lab approve a1" not in handle.progress.doing:
        time.sleep(0.01)
    assert not (project / "new.txt").exists()
    assert [a.state for a in lab.approve("a1" if by == "approval" else "t1")] == ["approved"]
    assert handle.result(20).status == "ok"
    assert (project / "new.txt").exists()
    assert [e.kind for e in lab.events("t1") if e.kind.startswith("approval")] == [
        "approval.asked",
        "approval.approved",
    ]
    with pytest.raises(LabError, match="what waits: nothing"):
        lab.approve("a1")


def test_a_denied_call_is_told_with_the_reason(open_lab, project):
    """The tool does not run; the model reads why and goes on."""
    lab = open_lab([WRITE, "done"], threadTypes={"careful": {"tools": ["write"], "approve": ["write"]}})
    handle = lab.dispatch("x", type="careful")
    waiting(lab)
    with pytest.raises(LabError, match=r"a1 \(t1 write\)"):
        lab.deny("t9")
    lab.deny("t1", "not\nnow")
    episode = handle.result(20)
    assert episode.status == "ok"
    assert episode.facts[0].text.startswith("error: a person denied this call of write: not now")
    assert not (project / "new.txt").exists()


def test_a_call_that_nobody_answers_is_denied(open_lab, project):
    """After the time of the configuration; other tools are not asked about."""
    look = {"tool": "ls", "args": {}}
    lab = open_lab([look, WRITE, "done"], tools={"approve": ["write"], "approveSeconds": 0.3})
    episode = lab.thread("x", type="general")
    assert "nobody approved this call of write within 0.3 s" in episode.facts[1].text
    assert not (project / "new.txt").exists()
    assert lab.approvals() == []


def test_a_cancelled_thread_withdraws_what_it_asked(open_lab):
    """Nothing is left to be answered, and an answer that comes too late is refused."""
    lab = open_lab([WRITE, "done"], tools={"approve": ["write"]})
    handle = lab.dispatch("x", type="general")
    waiting(lab)
    handle.cancel()
    with pytest.raises(LabError, match="cancelled"):
        handle.result(20)
    with pytest.raises(LabError, match="waits"):
        lab.approve("a1")
    assert lab.store.approvals.get("a1").state == "withdrawn"


def test_two_answers_at_once_are_one(open_lab):
    """Of many who answer at the same moment exactly one is told that it counted."""
    lab = open_lab([WRITE, "done"], tools={"approve": ["write"]})
    handle = lab.dispatch("x", type="general")
    waiting(lab)
    told = []

    def answer(n):
        try:
            told.append(lab.approve("a1") if n % 2 else lab.deny("a1"))
        except LabError:
            pass

    threads = [threading.Thread(target=answer, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 1
    assert handle.result(20).facts[0].ok == (told[0][0].state == "approved")


def test_another_process_answers(open_lab, project):
    """`slate-lab approve t1` in a terminal, while the notebook's cell blocks; it shows what it approved, safely."""
    lab = open_lab([WRITE, "done"], store=None, tools={"approve": ["write"]})
    handle = lab.dispatch("x", type="general")
    waiting(lab)

    def slate_lab(*words):
        ran = subprocess.run(
            [sys.executable, "-m", "slate_lab", *words], cwd=project, capture_output=True, text=True, check=True
        )
        return ran.stdout

    listed = slate_lab("approvals")
    assert "a1 pending: t1 calls write" in listed
    assert '"path":"new.txt"' in listed
    assert "\x1b" not in listed
    assert "a1 approved" in slate_lab("approve", "t1")
    assert handle.result(20).facts[0].ok


def test_calls_from_code_are_asked_about_too(open_lab, project):
    """Code mode is no way around: the write inside the cell waits like any other."""
    code = "try:\n    tools.write('new.txt', 'x')\nexcept Exception as e:\n    print('refused', e)"
    lab = open_lab([{"tool": "python", "args": {"code": code}}, "done"], tools={"approve": ["write"]})
    handle = lab.dispatch("x", type="general")
    waiting(lab)
    lab.deny("t1", "no")
    assert "refused error: a person denied" in handle.result(20).facts[1].text
    assert not (project / "new.txt").exists()

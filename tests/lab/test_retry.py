"""Retry and steer: going on from what was found, and telling a worker something while it works."""

from __future__ import annotations

import asyncio
import threading

import pytest

import slate_lab as sl
from slate_lab.errors import LabError
from slate_lab.models.protocol import Capabilities
from slate_lab.records import Fact, Request
from slate_lab.weave.cite import CITED_TOKENS, cite

READ_A = {"tool": "read", "args": {"path": "notes/a.md"}}


def test_a_retry_is_a_new_thread_that_cites_the_old_one_s_facts(open_lab):
    """The same action, with changes; the facts stand before the task, fenced and labelled as data, with their cost."""
    model = sl.ScriptedModel([READ_A, " ", "It was 4.2.1."])
    lab = open_lab(model)
    first = lab.thread("Which deploy?", type="researcher", name="deploy", limits={"turns": 9})
    assert first.code == "no_final_message"
    again = lab.retry(first.id, limits={"turns": 3})
    assert (again.id, again.status, again.name, again.task) == ("t2.e1", "ok", "deploy", "Which deploy?")
    asked = [r for r in model.requests if not r.schema][-1].messages[-1].text
    assert "Facts that the thread t1 found" in asked
    assert "[fact 1: read path=notes/a.md]\ndeploy 4.2.1 at 09:14" in asked
    assert asked.endswith("\n\nWhich deploy?")
    thread = lab.threads()[1]
    assert (thread.action.facts_of, thread.action.limits.turns) == (("t1",), 3)
    assert "facts:t1" in [part["source"] for part in thread.brief]


def test_a_retry_of_a_retry_cites_the_whole_chain_up_to_four(open_lab):
    """The newest four, oldest first."""
    lab = open_lab(lambda r: "{}" if r.schema else "done")
    lab.thread("x", type="query")
    for n in range(1, 7):
        lab.retry(f"t{n}")
    assert lab.threads()[-1].action.facts_of == ("t3", "t4", "t5", "t6")


def test_what_has_not_ended_or_is_not_there_cannot_be_retried(open_lab):
    """One line that says what to do; nothing is stored."""
    started = threading.Event()

    async def answer(request: Request) -> str:
        started.set()
        await asyncio.sleep(60)
        return "never"

    lab = open_lab(answer)
    lab.dispatch("x", type="query")
    assert started.wait(5)
    for id, code in (("t1", "not_ended"), ("t9", "unknown_thread")):
        with pytest.raises(LabError) as caught:
            lab.retry(id)
        assert caught.value.code == code
    assert len(lab.threads()) == 1


def test_cited_facts_take_no_more_than_their_share():
    """The newest part is kept, what is left out is said; a small window gives them a third of its room."""
    facts = [Fact(n=n, kind="text", text=f"fact number {n} " * 60) for n in range(1, 200)]
    from slate_lab import tokens

    for room, most in ((None, CITED_TOKENS), (3_000, 1_000)):
        block = cite("t1", facts, room=room, nonce="abc")
        assert tokens.count(block) <= most + 100
        assert "fact number 199" in block
        assert "earlier facts left out, at least" in block
        assert block.startswith("<<<abc facts of t1\n")
        assert block.endswith("\nabc>>>")


def test_a_retry_on_a_small_window_still_fits(open_lab):
    """Long facts of a large model do not refuse the retry on a small one."""
    large = sl.ScriptedModel([READ_A, "long words " * 4_000])
    small = sl.ScriptedModel(["short"], capabilities=Capabilities(window=4_000, max_output=500))
    lab = open_lab()
    lab.close()
    with sl.Lab.open(lab.root, store=":memory:", models={"local": large, "gpt-luna": small}, env={}) as both:
        both.thread("x", type="researcher")
        assert both.retry("t1", model="gpt-luna").status == "ok"


def test_a_message_that_comes_with_the_final_answer_keeps_the_conversation_going(open_lab):
    """What a person says is never lost between two steps."""
    asked = threading.Event()
    seen: list[str] = []

    async def answer(request: Request) -> str:
        if request.schema:
            return "{}"
        seen.append(request.messages[-1].text)
        if len(seen) == 1:
            asked.set()
            while not handle:
                await asyncio.sleep(0.001)
            handle[0].steer("and the queue?")
            handle[0].steer("be brief")
        return f"answer {len(seen)}"

    handle: list[sl.Handle] = []
    lab = open_lab(answer)
    handle.append(lab.dispatch("task", type="query"))
    episode = handle[0].result(5)
    assert seen == ["task", "be brief"]
    assert [f.text for f in episode.facts] == ["answer 1", "answer 2"]


def test_a_message_that_comes_after_the_final_answer_is_refused(open_lab):
    """While the episode is being made nobody would see it: the person is told instead."""
    compressing, release = threading.Event(), threading.Event()

    async def answer(request: Request) -> str:
        if request.schema:
            compressing.set()
            while not release.is_set():
                await asyncio.sleep(0.002)
        return "{}" if request.schema else "done"

    lab = open_lab(answer)
    handle = lab.dispatch("x", type="query")
    assert compressing.wait(5)
    with pytest.raises(LabError, match="final answer") as caught:
        handle.steer("too late")
    assert caught.value.code == "not_live"
    release.set()
    assert handle.result(5).status == "ok"


def test_steering_by_id_reaches_the_worker_and_a_settled_one_is_told(open_lab):
    """`lab.steer` is what the verb does; a thread that is not live cannot be reached."""
    lab = open_lab(["done"])
    lab.thread("x", type="query")
    for id, code in (("t1", "not_live"), ("t7", "unknown_thread")):
        with pytest.raises(LabError) as caught:
            lab.steer(id, "hello")
        assert caught.value.code == code

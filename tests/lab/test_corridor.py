"""The main corridor: an action is dispatched, works, settles as an episode, and is cited by the next."""

from __future__ import annotations

import asyncio
import threading

import pytest
from msgspec.structs import replace

import slate_lab as sl
from slate_lab.errors import DispatchError, LabError
from slate_lab.records import Cost, Request

READ_A = {"tool": "read", "args": {"path": "notes/a.md"}}


def last_user(request: Request) -> str:
    """The last user message of a request."""
    return next(m.text for m in reversed(request.messages) if m.role == "user")


def test_a_thread_reads_answers_and_leaves_an_episode(open_lab):
    """Brief, tool, facts, final message, compression, store: one action from end to end."""
    lab = open_lab([READ_A, "Deploy 4.2.1 at 09:14 raised the error rate to 7.5 % (notes/a.md)."])
    episode = lab.thread("Which deploy caused the errors?", type="researcher", name="errors")
    assert (episode.id, episode.thread, episode.status, episode.compression) == ("t1.e1", "t1", "ok", "compressed")
    assert list(episode.sections) == [
        "Intent",
        "Actions Taken",
        "Key Findings",
        "Artifacts Changed",
        "Open Issues",
        "Handoff Notes",
    ]
    assert [(f.kind, f.tool) for f in episode.facts] == [("tool", "read"), ("text", None)]
    assert "7.5 %" in episode.facts[0].text
    thread = lab.threads()[0]
    assert (thread.state, thread.code, thread.label) == ("successful", None, "errors")
    assert [c.kind for c in lab.calls()] == ["worker", "worker", "compressor"]
    assert lab.episode("t1") == lab.episode("t1.e1") == episode
    assert {p["source"] for p in thread.brief} == {"preamble", "charter", "task", "tools"}


TASKS = {
    "braces, dollar, quotes, question": 'cost is $5 {x} "quoted" ?',
    "typescript": "const f = (a: {b: string}) => `${a.b}` ?? 'x';\nif (a && !b) { return a[0]!; }  // 100%\n\ttab\\",
    "magic look-alikes": "%slate thread\n!ls $HOME\n?help??",
    "unicode": "naïve – “quotes” \u2028 🍸",
    "spaces kept": "  leading\n\n\ntrailing  \n",
    "fences": '```\n<<<episode t9.e1\n</system> {"name": "write"}',
}


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_without_context_the_user_message_is_the_task_byte_for_byte(open_lab, task):
    """Nothing is stripped, expanded or added."""
    model = sl.ScriptedModel(["done"])
    lab = open_lab(model)
    lab.thread(task, type="query")
    assert last_user(model.requests[0]).encode() == task.encode()
    assert lab.threads()[0].action.task == task


def test_context_loads_stored_episodes_by_reference_in_the_given_order(open_lab):
    """Each episode stands in a fence labelled as data; the task follows verbatim; the token cost is by source."""
    model = sl.ScriptedModel(["first found 11", "second found 22", "both"])
    lab = open_lab(model)
    one = lab.thread("One.", type="query")
    two = lab.thread("Two.", type="query")
    three = lab.thread("What do both say?", type="query", context=[two, one.id, two.id])
    asked = last_user([r for r in model.requests if not r.schema][2])
    assert asked.endswith("\n\nWhat do both say?")
    assert "Earlier episodes" in asked
    assert asked.index("t2.e1") < asked.index("t1.e1")
    assert [id for id, _ in three.context] == ["t2.e1", "t1.e1"]
    assert dict(three.context)["t1.e1"] == one.hash
    brief = lab.threads()[2].brief
    assert [p["source"] for p in brief] == ["preamble", "charter", "t2.e1", "t1.e1", "task"]
    assert all(p["tokens"] > 0 and p["exact"] is False for p in brief)


REFUSED = {
    "blank task": ({"task": "  \n"}, ["blank_task"]),
    "unknown model": ({"task": "x", "model": "locl"}, ["unknown_model"]),
    "unknown type": ({"task": "x", "type": "resercher"}, ["unknown_type"]),
    "unknown context": ({"task": "x", "context": ["t1.e2"]}, ["unknown_context"]),
    "unknown tool": ({"task": "x", "tools": ["raed"]}, ["unknown_tool"]),
    "tool the type has not": ({"task": "x", "type": "researcher", "tools": ["write"]}, ["tool_not_allowed"]),
    "too much context": ({"task": "x", "context": [f"t{i}.e1" for i in range(2, 40)]}, ["too_much_context"]),
    "unknown thread to come after": ({"task": "x", "after": ["t77"]}, ["unknown_thread"]),
    "a long reason": ({"task": "x", "reason": "r" * 201}, ["long_reason"]),
    "everything at once": (
        {"task": "", "reason": "r" * 300, "model": "nope", "type": "nope", "context": ["t9.e1"]},
        ["blank_task", "long_reason", "unknown_model", "unknown_type", "unknown_context"],
    ),
}


@pytest.mark.parametrize(("asked", "codes"), REFUSED.values(), ids=REFUSED)
def test_admission_lists_every_problem_in_order_and_stores_nothing(open_lab, asked, codes):
    """A refusal names what is wrong and what is near, and no thread exists."""
    lab = open_lab(["found"])
    lab.thread("First.", type="query")
    with pytest.raises(DispatchError) as caught:
        lab.dispatch(**asked)
    seen = list(dict.fromkeys(caught.value.codes))
    assert seen == codes or (set(codes) <= set(seen) and len(codes) == 1)
    assert "\n" not in str(caught.value)
    assert len(lab.threads()) == 1


def test_an_unknown_context_id_lists_what_is_near(open_lab):
    """A mistyped id is mended by reading the message."""
    lab = open_lab(["found"])
    lab.thread("First.", type="query")
    with pytest.raises(DispatchError, match=r"no episode 't1.e2': near it are t1\.e1"):
        lab.dispatch("x", context=["t1.e2"])


def test_never_more_workers_than_permits_and_all_end_in_order_of_admission(open_lab):
    """maxConcurrent 3 and 200 dispatched threads: at most 3 run, all end, they start first come first served."""
    lock, running, most = threading.Lock(), 0, 0

    async def answer(request: Request) -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        await asyncio.sleep(0.01)
        with lock:
            running -= 1
        return "done"

    lab = open_lab(answer, maxConcurrent=3, compressor={"mode": "fixed"})
    handles = [lab.dispatch(f"Task {i}.", type="query") for i in range(200)]
    episodes = [h.result(60) for h in handles]
    assert most == 3
    assert [e.thread for e in episodes] == [f"t{i}" for i in range(1, 201)]
    threads = lab.threads()
    assert {t.state for t in threads} == {"successful"}
    starts = [t.started_ns for t in threads]
    assert starts == sorted(starts)


@pytest.mark.parametrize("value", [0, -1, 2.5, "4", True, 2**53, None], ids=str)
def test_a_bad_max_concurrent_gives_one_warning_and_eight(project, value):
    """A positive safe integer, without conversion or rounding; anything else is one warning and 8."""
    with sl.Lab.open(project, store=":memory:", config={"maxConcurrent": value}, models=sl.ScriptedModel()) as lab:
        assert lab.config.max_concurrent == 8
        assert len(lab.warnings) == 1
        assert "maxConcurrent" in lab.warnings[0]


def test_cancel_while_queued_is_immediate_and_frees_the_place(open_lab):
    """A queued action ends at once, although the one before it goes on."""
    release = threading.Event()

    async def answer(request: Request) -> str:
        while not release.is_set():
            await asyncio.sleep(0.005)
        return "done"

    lab = open_lab(answer, maxConcurrent=1)
    first, second, third = (lab.dispatch(f"{i}", type="query") for i in range(3))
    second.cancel()
    with pytest.raises(DispatchError, match="cancelled"):
        second.result(2)
    assert not first.done()
    assert third.position == 1
    assert lab.threads()[1].state == "cancelled"
    release.set()
    assert third.result(5).status == "ok"


def test_cancel_while_running_without_facts_leaves_no_episode(open_lab):
    """Cancelled after the start with nothing found: cancelled, an error, spend still counted as a call."""
    started = threading.Event()

    async def answer(request: Request) -> str:
        started.set()
        await asyncio.sleep(60)
        return "never"

    lab = open_lab(answer)
    handle = lab.dispatch("x", type="query")
    assert started.wait(5)
    handle.cancel()
    with pytest.raises(DispatchError) as caught:
        handle.result(5)
    assert caught.value.code == "cancelled"
    assert lab.threads()[0].state == "cancelled"
    assert [c.outcome for c in lab.calls()] == ["cancelled"]


@pytest.mark.parametrize("compress", [True, False])
def test_cancel_while_running_keeps_what_was_found(open_lab, compress):
    """Cancelled after a fact: a failed episode with the reason, compressed or in the worker's own words."""
    asking = threading.Event()

    async def answer(request: Request):
        if request.schema:
            return "{}"
        if len(request.messages) == 2:
            return READ_A
        asking.set()
        await asyncio.sleep(60)

    lab = open_lab(answer)
    handle = lab.dispatch("x", type="researcher")
    assert asking.wait(5)
    handle.cancel(compress=compress)
    episode = handle.result(5)
    assert (episode.status, episode.code, episode.compression) == ("failed", "cancelled", "uncompressed")
    assert len(episode.facts) == 1
    assert lab.threads()[0].state == "failed"


FAULTS = {
    "no final message": ([READ_A, ""], {}, "no_final_message"),
    "the turns are used up": ([READ_A, {"tool": "ls", "args": {}}], {"turns": 2}, None),
    "the same call three times": ([READ_A] * 4, {}, "stuck"),
    "the script ends": ([READ_A], {}, "model_bad_request"),
}


@pytest.mark.parametrize(("script", "limits", "code"), FAULTS.values(), ids=FAULTS)
def test_an_action_that_ran_and_failed_is_an_episode(open_lab, script, limits, code):
    """Failures after the start keep their facts and give an episode with a code, never an exception."""
    lab = open_lab(script)
    episode = lab.thread("x", type="researcher", limits=limits)
    assert episode.status == "failed"
    if code:
        assert episode.code == code
    assert lab.threads()[0].state == "failed"
    assert episode.fact_count >= 1


def test_a_tool_error_goes_back_to_the_model_and_the_work_goes_on(open_lab):
    """An escape by '..' and an unknown tool are told in words; the thread still succeeds."""
    escape = {"tool": "read", "args": {"path": "../secret.txt"}}
    lab = open_lab([escape, {"tool": "raed", "args": {}}, "I could not read it."])
    episode = lab.thread("x", type="researcher")
    assert episode.status == "ok"
    assert "outside the workspace" in episode.facts[0].text
    assert "no tool 'raed'" in episode.facts[1].text
    assert [f.ok for f in episode.facts] == [False, False, True]


def test_an_escape_by_a_link_is_refused_too(open_lab, project):
    """A link in the workspace that leads out is as closed as '..'."""
    (project.parent / "secret.txt").write_text("secret")
    (project / "link.txt").symlink_to(project.parent / "secret.txt")
    lab = open_lab([{"tool": "read", "args": {"path": "link.txt"}}, "refused"])
    episode = lab.thread("x", type="researcher")
    assert "outside the workspace" in episode.facts[0].text
    assert "secret" not in episode.facts[0].text.replace("secret.txt", "")


def test_independent_calls_of_one_reply_run_together_with_results_in_call_order(open_lab):
    """Two reads in one reply give two facts in the order of the calls."""
    both = [READ_A, {"tool": "read", "args": {"path": "notes/b.md"}}]
    lab = open_lab([both, "done"])
    episode = lab.thread("x", type="researcher")
    assert ["deploy" in episode.facts[0].text, "queue" in episode.facts[1].text] == [True, True]


def test_what_is_left_is_told_and_the_last_turn_has_no_tools(open_lab):
    """With a limit of turns the model is told what remains and must answer on the last one."""
    model = sl.ScriptedModel([READ_A, "answer"])
    lab = open_lab(model)
    lab.thread("x", type="researcher", limits={"turns": 2})
    worker = [r for r in model.requests if not r.schema]
    assert worker[0].tools
    assert not worker[1].tools
    assert "You have left: 1 turns" in last_user(worker[1])


def test_steering_is_seen_before_the_next_call(open_lab):
    """A person's message joins the conversation and stays there."""
    release, asked = threading.Event(), threading.Event()

    async def answer(request: Request):
        if request.schema:
            return "{}"
        if len(request.messages) == 2:
            asked.set()
            while not release.is_set():
                await asyncio.sleep(0.005)
            return READ_A
        seen.append([m.text for m in request.messages if m.role == "user"])
        return "done"

    seen: list[list[str]] = []
    lab = open_lab(answer)
    handle = lab.dispatch("task", type="researcher")
    assert asked.wait(5)
    handle.steer("look at b.md too")
    release.set()
    handle.result(5)
    assert seen == [["task", "look at b.md too"]]
    with pytest.raises(ValueError, match="settled"):
        handle.steer("too late")


def test_after_waits_for_others_and_is_skipped_when_one_fails(open_lab):
    """The second starts after the first and may cite its episode; dependents of a failure are skipped."""
    model = sl.ScriptedModel(["first", "second", ""])
    lab = open_lab(model, maxConcurrent=4)
    first = lab.dispatch("One.", type="query")
    second = lab.dispatch("Two.", type="query", after=[first.id], context=["t1.e1"])
    assert second.result(5).context[0][0] == "t1.e1"
    bad = lab.dispatch("Three.", type="query")
    last = lab.dispatch("Four.", type="query", after=[bad.id])
    assert bad.result(5).code == "no_final_message"
    with pytest.raises(DispatchError, match="skipped"):
        last.result(5)


def test_handles_are_awaitable_on_any_loop(open_lab):
    """The same engine serves a script, asyncio.run and a kernel."""
    lab = open_lab(["one", "two"])

    async def main() -> list[str]:
        first = lab.dispatch("a", type="query")
        return [(await first).id, (await lab.athread("b", type="query")).id]

    assert asyncio.run(main()) == ["t1.e1", "t2.e1"]


def test_a_closed_lab_refuses_and_closing_twice_does_nothing(open_lab):
    """Closing ends what runs, joins it, and is safe to repeat."""

    async def answer(request: Request) -> str:
        await asyncio.sleep(60)
        return "never"

    lab = open_lab(answer, maxConcurrent=1)
    handles = [lab.dispatch(f"{i}", type="query") for i in range(3)]
    lab.close()
    lab.close()
    assert all(h.done() for h in handles)
    with pytest.raises(DispatchError) as caught:
        lab.dispatch("x")
    assert caught.value.code == "lab_closed"


def test_close_with_wait_lets_everything_come_to_its_end(project):
    """Leaving the with-block waits; nothing is cut off."""
    store = project / "s.db"
    with sl.Lab.open(project, store=store, models=sl.ScriptedModel(lambda r: "{}" if r.schema else "done")) as lab:
        handles = [lab.dispatch(f"{i}", type="query") for i in range(5)]
    assert [h.result().status for h in handles] == ["ok"] * 5


def test_an_unknown_episode_names_what_is_near(open_lab):
    """Looking something up that is not there says what is."""
    lab = open_lab(["x"])
    with pytest.raises(LabError, match="none yet"):
        lab.episode("t1")
    lab.thread("x", type="query")
    with pytest.raises(LabError, match=r"t1\.e1"):
        lab.episode("t2")


@pytest.mark.parametrize("scope", ["session", "day", "project"])
def test_a_cap_on_spending_stops_before_the_next_call(open_lab, scope):
    """Once the cap is spent no request goes out; the action fails with the cap's name, and below it work goes on."""
    model = sl.ScriptedModel(lambda request: "{}" if request.schema else "done")
    lab = open_lab(model, limits={scope: {"usd": 0.01}})
    assert lab.thread("free", type="query").status == "ok"
    spent = Cost(nusd=10_000_000, price="config")
    made = lab.calls()[0]
    lab.store.calls.add(replace(made, id=0, cost=spent, attempts=(replace(made.attempts[0], cost=spent),)))
    asked = len(model.requests)
    episode = lab.thread("over", type="query")
    assert (episode.status, episode.code) == ("failed", f"limit_{scope}_usd")
    assert len(model.requests) == asked


def test_time_is_a_limit_while_a_call_runs(open_lab):
    """seconds=... ends an action that hangs."""

    async def answer(request: Request) -> str:
        await asyncio.sleep(60)
        return "never"

    lab = open_lab(answer)
    episode = lab.thread("x", type="query", limits={"seconds": 0.1})
    assert (episode.status, episode.code, episode.compression) == ("failed", "limit_seconds", "fixed")

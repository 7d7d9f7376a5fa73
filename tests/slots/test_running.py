"""Running a pipeline: lanes and their rights, failure and history policies, timeouts, events, nothing left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from slate_lab.errors import LabError, SlotFailed
from tests.slots.making import Bench, Core

Make = Callable[..., Bench]
SLEEP = "import asyncio\nasync def process(ctx):\n    await asyncio.sleep({})\n"
BOOM = "def process(ctx):\n    {}\n    raise ValueError('no')\n"


async def test_bootstrap_serial_runs_in_order_and_adds_fragments(core: Core, bench: Make) -> None:
    """Fragments of bootstrap slots that finished count, in order; one that failed softly adds nothing."""
    core.slot("bootstrap/a", "def process(ctx):\n    ctx.bootstrap.add('one')")
    core.slot("bootstrap/b", BOOM.format("ctx.bootstrap.add('lost')"))
    core.slot("bootstrap/c", "async def process(ctx):\n    ctx.bootstrap.add('three')")
    core.pipelines(bootstrap=["a", "b", "c"])
    draft = await bench().run("bootstrap", turn=0)
    assert draft.fragments == ["one", "three"]


async def test_input_serial_can_modify_the_current_prompt(core: Core, bench: Make) -> None:
    """Sections stand before the user's text, context in the system message or before it too."""
    core.base()
    core.slot(
        "input/more",
        "def process(ctx):\n    ctx.input.add('notes', 'n1')\n    ctx.input.add_context('be brief')\n"
        "    ctx.input.add_context('seen before', role='user')\n",
    )
    core.pipelines(input=["more", "base_input"])
    draft = await bench().run("input")
    assert draft.system == ["be brief"]
    assert draft.before == ["[notes]\nn1", "seen before"]
    assert draft.user == "What broke?"


FORBIDDEN = {
    "input.parallel cannot modify the current prompt: add": ("input", "ctx.input.add('user', 'x')"),
    "input.parallel cannot modify the current prompt: add_context": ("input", "ctx.input.add_context('x')"),
    "output.parallel cannot deliver": ("output", "ctx.send_text('x')"),
    "output.parallel cannot deliver a file": ("output", "ctx.send_file(ctx.slot_path / 'slot.yaml')"),
    "output.parallel cannot deliver an image": ("output", "ctx.send_image(b'x')"),
    "output.parallel cannot write session history": ("output", "ctx.send_text('x', visible=False)"),
    "output.parallel cannot write result data": ("output", "ctx.result.set(1)"),
}


@pytest.mark.parametrize(("phase", "call"), FORBIDDEN.values(), ids=FORBIDDEN.keys())
async def test_what_a_parallel_slot_cannot_do_raises(core: Core, bench: Make, phase: str, call: str) -> None:
    """The call itself raises, and names the lane where it would be right; the turn goes on."""
    core.slot(f"{phase}/side", f"def process(ctx):\n    {call}")
    core.pipelines(**{f"{phase}_parallel": ["side"]})
    here = bench()
    draft = await here.run(phase)
    (failed,) = here.events("failed")
    assert f"side runs in {phase}.parallel and cannot" in (failed.detail or "")
    assert [draft.parts, draft.deliveries, draft.history, draft.result] == [[], [], [], None]


async def test_input_parallel_has_background_side_effects(core: Core, bench: Make) -> None:
    """A parallel input slot may keep state, tell people, and deliver."""
    core.slot(
        "input/side",
        "def process(ctx):\n    ctx.state.session.set('seen', ctx.input.raw_text)\n    ctx.notice('noted')\n",
        capabilities=["state.session.write"],
    )
    core.pipelines(input_parallel=["side"])
    here = bench()
    await here.run("input")
    assert here.store.turns.read(here.session) == {"seen": "What broke?"}
    assert [(d.kind, d.text) for d in here.live] == [("notice", "noted")]


async def test_output_serial_can_deliver_write_history_and_set_the_result(core: Core, bench: Make) -> None:
    """A serial output slot sends texts, images and files, and sets the result; the last one counts."""
    core.slot(
        "output/say",
        "def process(ctx):\n    ctx.send_text(ctx.output.response_text.upper())\n"
        "    ctx.send_file('agent/pipelines.yaml')\n    ctx.send_image(b'\\x89PNG...', name='plot')\n"
        "    ctx.result.set({'n': 1})\n    ctx.result.set({'n': 2})\n",
    )
    core.pipelines(output=["say"])
    here = bench()
    draft = await here.run("output", response="ok")
    assert [(d.kind, d.text) for d in draft.deliveries] == [
        ("text", "OK"),
        ("file", "pipelines.yaml"),
        ("image", "plot"),
    ]
    assert [e.text for e in draft.history] == ["OK", "[file pipelines.yaml]", "[image plot]"]
    assert draft.result == {"n": 2}
    assert [d.kind for d in here.live] == ["text", "file", "image"]


async def test_parallel_slots_start_first_and_overlap(core: Core, bench: Make) -> None:
    """Parallel slots run at the same time as each other and as the serial lane, blocking ones too."""
    meet = "import threading\nfrom lib.meet import barrier\ndef process(ctx):\n    barrier.wait(5)\n"
    core.write("lib/meet.py", "import threading\nbarrier = threading.Barrier(3)\n")
    for where in ("input/a", "input/b", "input/main"):
        core.slot(where, meet)
    core.pipelines(input=["main"], input_parallel=["a", "b"])
    here = bench()
    await here.run("input")
    order = [(e.what, e.lane) for e in here.events("started", "completed")]
    assert order[:3] == [("started", "parallel"), ("started", "parallel"), ("started", "serial")]
    spans = [(e.at_ns - (e.duration_ns or 0), e.at_ns) for e in here.events("completed")]
    assert len(spans) == 3
    assert max(start for start, _ in spans) < min(end for _, end in spans)


async def test_the_phase_ends_when_both_lanes_are_done(core: Core, bench: Make) -> None:
    """A background slot that takes longer than the serial lane is waited for."""
    core.slot("output/slow", SLEEP.format(0.05))
    core.slot("output/quick")
    core.pipelines(output=["quick"], output_parallel=["slow"])
    here = bench()
    await here.run("output")
    assert [e.slot for e in here.events("completed")] == ["quick", "slow"]


async def test_soft_emits_failure_events_and_the_turn_continues(core: Core, bench: Make) -> None:
    """A soft failure is an event with its traceback; what the slot added, in prompt and state, is dropped."""
    core.base()
    adds = "ctx.input.add('junk', 'x'); ctx.send_text('junk'); ctx.state.project.set('junk', 1)"
    core.slot("input/bad", BOOM.format(adds), failure_policy="soft", capabilities=["state.*"])
    core.pipelines(input=["bad", "base_input"])
    here = bench()
    draft = await here.run("input")
    assert (draft.user, draft.before, draft.deliveries, here.live) == ("What broke?", [], [], [])
    assert here.store.turns.read("project") == {}
    (failed,) = here.events("failed")
    assert (failed.slot, failed.detail) == ("bad", "ValueError: no")
    assert 'module.py", line 3, in process' in (failed.traceback or "")


@pytest.mark.parametrize("lane", ["input", "input_parallel"])
async def test_hard_raises_and_cancels_siblings(core: Core, bench: Make, lane: str) -> None:
    """A hard failure is raised as SlotFailed, siblings still running are cancelled, and no task is left behind."""
    core.slot("input/bad", SLEEP.format(0.02) + "    raise ValueError('no')\n", failure_policy="hard")
    core.slot("input/long", SLEEP.format(60))
    core.slot("input/main", SLEEP.format(60))
    lanes: dict[str, Any] = {"input": ["main"], "input_parallel": ["long"]}
    lanes[lane] = [*lanes[lane], "bad"] if lane != "input" else ["bad", "main"]
    core.pipelines(**lanes)
    here, before = bench(), asyncio.all_tasks()
    with pytest.raises(SlotFailed, match=r"the slot bad \(input\.\w+\) failed and is hard: ValueError: no"):
        await here.run("input")
    cancelled = {e.slot for e in here.events("cancelled")}
    assert cancelled == ({"long"} if lane == "input" else {"long", "main"})
    assert asyncio.all_tasks() == before


async def test_a_cancelled_turn_cancels_its_slots(core: Core, bench: Make) -> None:
    """Cancelling the phase from outside ends every lane; it is no failure."""
    core.slot("input/a", SLEEP.format(60))
    core.slot("input/b", SLEEP.format(60), failure_policy="hard")
    core.pipelines(input=["a"], input_parallel=["b"])
    here = bench()
    task = asyncio.ensure_future(here.run("input"))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert {e.what for e in here.events()} == {"started", "cancelled"}


RAISED = {
    "an exception": "raise KeyError('k')",
    "sys.exit": "raise SystemExit(3)",
    "an interrupt": "raise KeyboardInterrupt",
    "a cancellation of its own": "import asyncio; raise asyncio.CancelledError",
    "StopIteration": "next(iter(()))",
}


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("code", RAISED.values(), ids=RAISED.keys())
async def test_whatever_a_slot_raises_is_its_failure(core: Core, bench: Make, kind: str, code: str) -> None:
    """No slot can end the kernel, the loop or the turn of a soft pipeline."""
    core.slot("input/bad", f"{kind} process(ctx):\n    {code}\n")
    core.slot("input/next")
    core.pipelines(input=["bad", "next"])
    here = bench()
    await here.run("input")
    assert [(e.slot, e.what) for e in here.events() if e.what != "started"] == [
        ("bad", "failed"),
        ("next", "completed"),
    ]


async def test_a_failing_import_is_the_slots_failure(core: Core, bench: Make) -> None:
    """Code that cannot be loaded fails under the slot's policy, and is tried again on the next turn."""
    core.slot("input/bad", "import nothing_of_this_name\ndef process(ctx): ...\n")
    core.pipelines(input=["bad"])
    here = bench()
    await here.run("input")
    await here.run("input", turn=2)
    assert [e.detail for e in here.events("failed")] == [
        "ModuleNotFoundError: No module named 'nothing_of_this_name'"
    ] * 2


async def test_timeouts_are_not_enforced_by_default(core: Core, bench: Make) -> None:
    """timeout_seconds is loaded as metadata; the slot runs to its end."""
    core.slot("input/slow", SLEEP.format(0.05), timeout_seconds=0.001)
    core.pipelines(input=["slow"])
    here = bench()
    await here.run("input")
    assert here.events("completed")


@pytest.mark.parametrize(
    "code", [SLEEP.format(30), "import time\ndef process(ctx):\n    time.sleep(0.3)\n    ctx.send_text('late')\n"]
)
async def test_enforced_timeouts_are_failures_under_the_policy(core: Core, bench: Make, code: str) -> None:
    """With enforce_slot_timeouts a slot that takes longer fails; a thread that goes on can do nothing any more."""
    core.slot("input/slow", code, timeout_seconds=0.05)
    core.pipelines(input=["slow"])
    here = bench(enforce=True)
    draft = await here.run("input")
    assert [e.detail for e in here.events("failed")] == ["it took longer than timeout_seconds=0.05"]
    await asyncio.sleep(0.3)
    assert not draft.deliveries


@pytest.mark.parametrize("policy", ["persist", "model_hidden", "transient"])
@pytest.mark.parametrize("phase", ["input", "output"])
@pytest.mark.parametrize("by", ["manifest", "call"])
async def test_history_policy_is_honoured(core: Core, bench: Make, phase: str, policy: str, by: str) -> None:
    """persist is stored and seen by the model later, model_hidden stored only, transient delivered only; for input
    and output, by default of the manifest or by the call."""
    said = f", history_policy='{policy}'" if by == "call" else ""
    add = f"    ctx.input.add('user', 'hi'{said})\n" if phase == "input" else ""
    core.slot(
        f"{phase}/say",
        f"def process(ctx):\n    ctx.send_text('hello'{said})\n{add}",
        history_policy=policy if by == "manifest" else "persist" if policy == "transient" else "transient",
    )
    core.pipelines(**{phase: ["say"]})
    draft = await bench().run(phase)
    assert [d.text for d in draft.deliveries] == ["hello"]
    expected = {"persist": [True], "model_hidden": [False], "transient": []}[policy]
    assert [e.visible for e in draft.history] == expected * (2 if phase == "input" else 1)


async def test_invisible_and_transient_together_is_refused(core: Core, bench: Make) -> None:
    """What is neither shown nor stored would go nowhere; what is only stored is fine."""
    core.slot("output/a", "def process(ctx):\n    ctx.send_text('x', visible=False, history_policy='transient')\n")
    core.slot("output/b", "def process(ctx):\n    ctx.send_text('y', visible=False)\n")
    core.pipelines(output=["a", "b"])
    here = bench()
    draft = await here.run("output")
    assert "neither shown nor stored" in (here.events("failed")[0].detail or "")
    assert (draft.deliveries, [e.text for e in draft.history]) == ([], ["y"])


async def test_progress_and_notice_are_always_transient(core: Core, bench: Make) -> None:
    """Both are shown at once, even of a slot that fails later, and never stored."""
    core.slot("output/a", BOOM.format("ctx.progress('half', 0.5); ctx.notice('look')"), history_policy="persist")
    core.pipelines(output=["a"])
    here = bench()
    draft = await here.run("output")
    assert [(d.kind, d.text, d.share) for d in here.live] == [("progress", "half", 0.5), ("notice", "look", None)]
    assert draft.history == []


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_a_returned_value_is_ignored_with_an_event(core: Core, bench: Make, kind: str) -> None:
    """A slot returns nothing; what it returns is told and dropped."""
    core.slot("input/gives", f"{kind} process(ctx):\n    return 'text'\n")
    core.pipelines(input=["gives"])
    here = bench()
    draft = await here.run("input")
    assert [e.what for e in here.events()] == ["started", "ignored_return", "completed"]
    assert here.events("ignored_return")[0].detail == "a str was returned: slots return nothing"
    assert draft.parts == []


async def test_every_event_says_who_where_and_how_long(core: Core, bench: Make) -> None:
    """Slot id, phase, lane and duration stand on each; a run begins once and ends once."""
    core.slot("output/a", SLEEP.format(0.01))
    core.pipelines(output_parallel=["a"])
    here = bench()
    await here.run("output", turn=7)
    start, end = here.events()
    assert (start.slot, start.phase, start.lane, start.turn, start.what, start.duration_ns) == (
        "a", "output", "parallel", 7, "started", None)  # fmt: skip
    assert end.what == "completed"
    assert (end.duration_ns or 0) >= 10_000_000


async def test_blocking_slots_run_off_the_loop_and_async_ones_on_it(core: Core, bench: Make) -> None:
    """A `def` slot has a thread, an `async def` slot the loop's own."""
    code = "import threading\n{} process(ctx):\n    ctx.notice(threading.current_thread().name)\n"
    core.slot("input/a", code.format("def"))
    core.slot("input/b", code.format("async def"))
    core.pipelines(input=["a", "b"])
    here = bench()
    await here.run("input")
    assert here.live[0].text.startswith("slate-slot")
    assert here.live[1].text == threading.current_thread().name


async def test_no_user_text_is_a_clear_error(core: Core, bench: Make) -> None:
    """If no slot writes the user's text, the error says which slot is missing."""
    core.pipelines("schema_version: 1\n")
    draft = await bench().run("input")
    with pytest.raises(LabError, match=r"no input slot wrote the user's text.*list base_input"):
        _ = draft.user


async def test_what_comes_after_the_end_of_a_run_raises(core: Core, bench: Make) -> None:
    """A ctx that a slot kept does nothing once its run is over."""
    core.write("lib/kept.py", "held = []\n")
    core.slot("input/a", "from lib import kept\ndef process(ctx):\n    kept.held.append(ctx)\n")
    core.slot("input/b", "from lib.kept import held\ndef process(ctx):\n    held[0].send_text('late')\n")
    core.pipelines(input=["a", "b"])
    here = bench()
    draft = await here.run("input")
    assert here.events("failed")[0].detail == "the run of the slot a is over: its ctx does nothing more"
    assert draft.deliveries == []

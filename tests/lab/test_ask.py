"""Turns of a session through the lab: ask, resume, spend, hold back; and slots around workers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import slate_lab as sl
from slate_lab.errors import ConfigError, DispatchError, LabError, LimitExceeded, ModelError, SlotFailed
from slate_lab.models.protocol import Capabilities
from slate_lab.records import Delivery, Request
from slate_lab.weave.limit import limit
from tests.slots.making import Core

FIXED = {"compressor": {"mode": "fixed"}}


def echo(request: Request) -> str:
    """The last user message, and how many messages there were."""
    return f"{len(request.messages)}: {request.messages[-1].text}"


@pytest.fixture
def core(project: Path) -> Core:
    """The project's surface, empty."""
    return Core(project)


@pytest.fixture
def lab_of(core: Core) -> Any:
    """Opens trusted labs on the project: `lab_of(script, store=..., **config)`."""
    opened: list[sl.Lab] = []

    def open_one(
        script: Callable[[Request], str] | sl.ScriptedModel = echo,
        *,
        store: Any = ":memory:",
        trust: bool | None = True,
        **config: Any,
    ) -> sl.Lab:
        config = {**FIXED, **config}
        model = script if isinstance(script, sl.ScriptedModel) else sl.ScriptedModel(script)
        lab = sl.Lab.open(core.root, store=store, config=config, models=model, env={}, trust=trust)
        opened.append(lab)
        return lab

    yield open_one
    for lab in opened:
        lab.close()


def test_a_turn_goes_through_the_slots(core: Core, lab_of: Any) -> None:
    """The user's text is what base_input wrote, the answer what base_output delivered; all of it is one record."""
    core.base()
    lab = lab_of()
    turn = lab.ask("What broke?")
    assert (str(turn), turn.response, turn.session, turn.n, turn.thread) == (
        "2: What broke?", "2: What broke?", "c1", 1, "t1")  # fmt: skip
    assert turn.cost_nusd == 0
    assert lab.turns() == [turn]
    (thread,) = lab.threads()
    assert (thread.state, thread.action.type, [p["source"] for p in thread.brief]) == (
        "successful", "ask", ["preamble", "task"])  # fmt: skip
    (call,) = lab.calls("t1")
    assert call.kind == "worker"


def test_history_is_seen_by_later_turns(core: Core, lab_of: Any) -> None:
    """What is persisted stands before the next prompt, in order; another session begins anew."""
    core.base()
    lab = lab_of(lambda r: " | ".join(f"{m.role} {m.text}" for m in r.messages[1:]))
    lab.ask("one")
    assert str(lab.ask("two")) == "user one | assistant user one | user two"
    assert str(lab.ask("three", session="new")) == "user three"
    assert str(lab.ask("four", session="c1")).endswith("user four")
    assert [(t.session, t.n) for t in lab.turns()] == [("c1", 1), ("c1", 2), ("c1", 3), ("c2", 1)]


def test_what_is_hidden_is_not_seen_later(core: Core, lab_of: Any) -> None:
    """model_hidden is stored and not shown to later calls; transient is not stored."""
    core.base()
    core.slot("output/extra", "def process(ctx):\n    ctx.send_text('hidden', history_policy='model_hidden')\n"
                              "    ctx.send_text('passing', history_policy='transient')\n")  # fmt: skip
    core.pipelines(input=["base_input"], output=["base_output", "extra"])
    lab = lab_of(lambda r: "seen: " + " / ".join(m.text for m in r.messages[1:]))
    first = lab.ask("one")
    assert first.text == "seen: one\n\nhidden\n\npassing"
    assert lab.ask("two").response == "seen: one / seen: one / two"
    kept = lab.store.turns.recent("c1", limit=9)
    assert [(e.text, e.visible) for e in kept[:3]] == [("one", True), ("seen: one", True), ("hidden", False)]
    assert not any(e.text == "passing" for e in kept)


def test_without_a_surface_a_turn_is_plain(lab_of: Any, core: Core) -> None:
    """A project without slots can be asked too: the prompt goes in, the answer comes out, and both are kept."""
    core.folder.rmdir()
    lab = lab_of()
    assert str(lab.ask("one")) == "2: one"
    assert str(lab.ask("two")) == "4: two"


def test_bootstrap_runs_once_per_session_and_is_resumed(core: Core, lab_of: Any, tmp_path: Path) -> None:
    """Its fragments stand in the system message of every turn, also after the kernel is gone; it is not run again."""
    core.base()
    core.slot(
        "bootstrap/context",
        "def process(ctx):\n    ctx.state.project.append('runs', ctx.session_id)\n"
        "    ctx.bootstrap.add('The team is blue.')\n",
        capabilities=["state.project.write"],
    )
    core.pipelines(bootstrap=["context"], input=["base_input"], output=["base_output"])
    store = tmp_path / "s.db"
    with lab_of(lambda r: r.messages[0].text[-17:], store=store) as lab:
        assert [str(lab.ask(p)) for p in ("one", "two")] == ["The team is blue."] * 2
    lab = lab_of(lambda r: f"{r.messages[0].text[-17:]} {len(r.messages)}", store=store)
    assert str(lab.ask("three")) == "The team is blue. 6"
    assert lab.store.turns.read("project") == {"runs": ["c1"]}
    lab.ask("four", session="new")
    assert lab.store.turns.read("project") == {"runs": ["c1", "c2"]}


def test_a_hard_bootstrap_failure_aborts_the_session_start(core: Core, lab_of: Any) -> None:
    """No snapshot is stored, no turn is kept, and the next attempt runs it again."""
    core.base()
    flag = core.root / "ready"
    core.slot(
        "bootstrap/need",
        "def process(ctx):\n    ctx.bootstrap.add((ctx.workspace / 'ready').read_text())\n",
        failure_policy="hard",
    )
    core.pipelines(bootstrap=["need"], input=["base_input"], output=["base_output"])
    lab = lab_of(lambda r: r.messages[0].text.splitlines()[-1])
    with pytest.raises(SlotFailed, match=r"the slot need \(bootstrap.serial\) failed and is hard"):
        lab.ask("one")
    assert (lab.turns(), lab.store.turns.session("c1").fragments) == ([], None)
    flag.write_text("now ready")
    assert str(lab.ask("two")) == "now ready"
    assert lab.turns()[0].n == 2


FAILURES = {
    "a hard slot": ("input/bad", "def process(ctx): 1 / 0\n", {"failure_policy": "hard"}, SlotFailed, "slot_failed"),
    "a hard output slot": (
        "output/bad",
        "def process(ctx): 1 / 0\n",
        {"failure_policy": "hard"},
        SlotFailed,
        "slot_failed",
    ),
}


@pytest.mark.parametrize(("where", "code", "manifest", "kind", "said"), FAILURES.values(), ids=FAILURES.keys())
def test_a_failed_turn_leaves_the_session_as_it_was(
    core: Core, lab_of: Any, where: str, code: str, manifest: dict[str, Any], kind: type[LabError], said: str
) -> None:
    """The error is raised, the thread and the turn say failed, nothing of it is history; later turns go on."""
    core.base()
    core.slot(where, code, **manifest)
    phase, id = where.split("/")
    more = {"input": ["base_input"], "output": ["base_output"]}
    more[phase].append(id)
    core.pipelines(**more)
    lab = lab_of()
    with pytest.raises(kind):
        lab.ask("lost")
    (thread,) = lab.threads()
    assert (thread.state, thread.code) == ("failed", said)
    assert lab.store.turns.recent("c1", limit=9) == []
    core.pipelines(input=["base_input"], output=["base_output"])
    assert str(lab.ask("kept")) == "2: kept"


def test_a_failing_model_leaves_the_session_as_it_was(core: Core, lab_of: Any) -> None:
    """The model's own error is raised; its call is counted like any."""
    core.base()

    def fail(request: Request) -> str:
        raise ModelError("auth", "the key is refused")

    lab = lab_of(fail)
    with pytest.raises(ModelError, match="refused"):
        lab.ask("x")
    assert [c.outcome for c in lab.calls()] == ["auth"]
    assert lab.turns() == []


def test_no_user_text_fails_the_turn(core: Core, lab_of: Any) -> None:
    """A pipeline without a slot that writes the user's text never asks the model."""
    core.pipelines("schema_version: 1\n")
    lab = lab_of()
    with pytest.raises(LabError, match="no input slot wrote the user's text") as caught:
        lab.ask("x")
    assert caught.value.code == "no_user_text"
    assert lab.calls() == []


REFUSED = {
    "a blank prompt": (" ", {}, "blank_task"),
    "an unknown session": ("x", {"session": "c9"}, "unknown_session"),
    "no session id": ("x", {"session": "t1"}, "unknown_session"),
    "an unknown model": ("x", {"model": "nobody"}, "unknown_model"),
}


@pytest.mark.parametrize(("prompt", "options", "code"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_before_anything_is_stored(
    core: Core, lab_of: Any, prompt: str, options: dict[str, Any], code: str
) -> None:
    """A turn that cannot begin leaves no thread."""
    core.base()
    lab = lab_of()
    with pytest.raises(LabError) as caught:
        lab.ask(prompt, **options)
    assert caught.value.code == code
    assert lab.threads() == []


def test_the_oldest_turns_are_left_out_until_it_fits(core: Core, lab_of: Any) -> None:
    """A long session drops its oldest turns; a turn that alone does not fit is refused."""
    core.base()
    small = Capabilities(window=700, max_output=100)
    lab = lab_of(sl.ScriptedModel(lambda r: str(len(r.messages)), capabilities=small))
    sizes = [int(str(lab.ask("word " * 150))) for _ in range(6)]
    assert sizes[:3] == [2, 4, 6]
    assert sizes[-1] == sizes[-2] <= 8
    with pytest.raises(DispatchError) as caught:
        lab.ask("word " * 900)
    assert caught.value.code == "brief_too_large"


def test_slots_are_held_back_until_the_project_is_trusted(core: Core, lab_of: Any) -> None:
    """Nothing of an untrusted project runs; trusted it does; a change asks again and says what changed."""
    from slate_lab.config import Trust

    core.base()
    core.slot("input/base_input", "print('ran')\n" + "def process(ctx):\n    ctx.input.add('user', 'a')\n")
    with pytest.warns(UserWarning, match="held back"):
        lab = lab_of(trust=None)
    with pytest.raises(LabError, match=r"held back: you have not trusted.*slate-lab trust") as caught:
        lab.ask("x")
    assert caught.value.code == "held_back"
    Trust.of(core.root).record()
    assert str(lab.ask("x")) == "2: a"
    core.slot("input/base_input", "def process(ctx):\n    ctx.input.add('user', 'b')\n")
    with pytest.raises(LabError, match=r"changed agent/input/base_input/module.py"):
        lab.ask("x")
    Trust.of(core.root).record()
    assert str(lab.ask("x")) == "4: b"


def test_code_outside_the_surface_is_not_covered_by_trust(core: Core, lab_of: Any) -> None:
    """An entrypoint elsewhere in the project needs a vouched opening: a record never looked at it."""
    from slate_lab.config import Trust

    core.base()
    (core.root / "tasks.py").write_text("def run(ctx):\n    ctx.input.add('user', 'far')\n")
    core.slot("input/base_input", entrypoint="tasks.py:run")
    Trust.of(core.root).record()
    lab = lab_of(trust=None)
    with pytest.raises(LabError, match=r"tasks.py lies where trust does not look"):
        lab.ask("x")
    assert str(lab_of(trust=True).ask("x")) == "2: far"


def test_deliveries_come_as_they_are_made(core: Core, lab_of: Any) -> None:
    """A callback sees progress at once, in the thread of the lab; the turn holds what was sent, not what passed by."""
    core.base()
    core.slot("output/steps", "def process(ctx):\n    ctx.progress('half', 0.5)\n    ctx.result.set([1, 2])\n")
    core.pipelines(input=["base_input"], output=["steps", "base_output"])
    seen: list[Delivery] = []
    turn = lab_of().ask("x", live=seen.append)
    assert [(d.kind, d.slot) for d in seen] == [("progress", "steps"), ("text", "base_output")]
    assert ([d.kind for d in turn.deliveries], turn.result) == (["text"], [1, 2])


async def test_aask_and_its_cancellation(core: Core, lab_of: Any) -> None:
    """aask works on any loop; cancelled, the turn ends as cancelled and the session takes the next one."""
    core.base()
    core.slot("input/wait", "import asyncio\nasync def process(ctx):\n    if ctx.input.raw_text == 'wait':\n"
                            "        await asyncio.sleep(60)\n")  # fmt: skip
    core.pipelines(input=["base_input", "wait"], output=["base_output"])
    lab = lab_of()
    task = asyncio.ensure_future(lab.aask("wait"))
    while not lab.store.turns.session():
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert str(await lab.aask("go")) == "2: go"
    assert [t.state for t in lab.threads()] == ["cancelled", "successful"]


def test_turns_of_one_session_come_one_after_the_other(core: Core, lab_of: Any) -> None:
    """Prompts from many threads keep the session whole: each sees all before it."""
    core.base()
    lab = lab_of(lambda r: str(len(r.messages)))
    lab.ask("first")
    threads = [threading.Thread(target=lab.ask, args=(f"p{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [t.response for t in lab.turns()] == ["2", "4", "6", "8", "10", "12", "14"]


def test_turns_of_one_session_come_one_after_the_other_over_kernels(core: Core, lab_of: Any, tmp_path: Path) -> None:
    """Two kernels on one session wait for each other: each turn sees all before it; a kernel that dies keeps none."""
    core.base()
    store = tmp_path / "slate.db"
    labs = [lab_of(sl.ScriptedModel(lambda r: str(len(r.messages)), delay_s=0.05), store=store) for _ in range(2)]
    labs[0].ask("first")
    threads = [threading.Thread(target=lab.ask, args=("next",)) for lab in labs * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [t.response for t in labs[0].turns()] == ["2", "4", "6", "8", "10"]


def test_a_turn_whose_kernel_died_is_told_as_failed(core: Core, lab_of: Any, tmp_path: Path) -> None:
    """After a kill in the middle of a turn the thread and the turn are failed, and the session goes on without it."""
    core.base()
    core.slot("input/die", "import os\ndef process(ctx):\n    if ctx.input.raw_text == 'die': os._exit(9)\n")
    core.pipelines(input=["base_input", "die"], output=["base_output"])
    code = (
        "import slate_lab as sl, sys\nmodel = sl.ScriptedModel(lambda r: 'x')\n"
        "lab = sl.Lab.open(sys.argv[1], trust=True, store=sys.argv[2], models=model, env={})\n"
        "lab.ask('one')\nlab.ask('die')\n"
    )
    store = tmp_path / "slate.db"
    done = subprocess.run([sys.executable, "-c", code, str(core.root), str(store)], capture_output=True, timeout=60)
    assert done.returncode == 9
    lab = lab_of(store=store)
    assert (lab.ask("two").n, [t.n for t in lab.turns()]) == (3, [1, 3])
    assert [(t.state, t.code) for t in lab.threads()][1] == ("failed", "interrupted")
    states = lab.store.query("SELECT n, state FROM turns ORDER BY n")[1]
    assert list(map(tuple, states)) == [(1, "ok"), (2, "failed"), (3, "ok")]


def test_closing_ends_a_turn(core: Core, lab_of: Any) -> None:
    """A lab that closes while a turn runs cancels it and leaves nothing behind."""
    core.base()
    core.slot("input/wait", "import asyncio\nasync def process(ctx):\n    await asyncio.sleep(60)\n")
    core.pipelines(input=["wait"])
    lab, ended = lab_of(), threading.Event()

    def ask() -> None:
        with pytest.raises(BaseException):  # noqa: B017, PT011  cancelled
            lab.ask("x")
        ended.set()

    threading.Thread(target=ask).start()
    while not lab.store.turns.session():
        ended.wait(0.01)
    lab.close()
    assert ended.wait(5)
    with pytest.raises(DispatchError, match="closed"):
        lab.ask("x")


def test_slots_reach_tools_and_threads(core: Core, lab_of: Any) -> None:
    """A slot reads a file with the lab's tool and waits for a thread of its own."""
    core.base()
    code = (
        "async def process(ctx):\n    text = await ctx.tools.call('read', {'path': 'notes/b.md'})\n"
        "    episode = await ctx.threads.run('Look.', type='query')\n"
        "    ctx.input.add('found', text[:40] + ' ' + episode.id)\n"
    )
    core.slot("input/look", code, capabilities=["tool.call:read", "threads.*"])
    core.pipelines(input=["look", "base_input"], output=["base_output"])
    lab = lab_of(maxConcurrent=1)
    text = str(lab.ask("x"))
    assert "queue depth 18,000" in text
    assert "t2.e1" in text


def test_a_block_of_limits_holds_turns_too(core: Core, lab_of: Any) -> None:
    """What a turn uses counts in the block it is asked in; a used-up block asks no model."""
    core.base()
    lab = lab_of()
    with limit(turns=1) as cap:
        lab.ask("one")
        assert cap.usage["turns"] == 1
        with pytest.raises(LimitExceeded):
            lab.ask("two")
    assert len(lab.calls()) == 1


# workers


def worker_lab(lab_of: Any, script: Callable[[Request], str], slots: Any = "all", **more: Any) -> sl.Lab:
    """A lab whose type `carried` carries slots."""
    found: sl.Lab = lab_of(script, threadTypes={"carried": {"tools": [], "slots": slots}}, **more)
    return found


def test_a_worker_type_may_carry_slots(core: Core, lab_of: Any) -> None:
    """Input slots change its brief, output slots its final message; the thread keeps what the brief was made of."""
    core.base()
    core.slot("bootstrap/who", "def process(ctx):\n    ctx.bootstrap.add('You are careful.')\n")
    core.slot("input/notes", "def process(ctx):\n    ctx.input.add('notes', 'deploy 4.2.1')\n")
    core.slot("output/shout", "def process(ctx):\n    ctx.send_text(ctx.output.response_text.upper())\n")
    core.pipelines(bootstrap=["who"], input=["notes", "base_input"], output=["shout"])
    seen: list[Request] = []

    def script(request: Request) -> str:
        seen.append(request)
        return "done it"

    lab = worker_lab(lab_of, script)
    episode = lab.thread("What broke?", type="carried")
    assert seen[0].messages[0].text.endswith("You are careful.")
    assert seen[0].messages[1].text == "[notes]\ndeploy 4.2.1\n\nWhat broke?"
    assert "DONE IT" in episode.to_markdown()
    assert [p["source"] for p in lab.threads()[0].brief] == ["preamble", "task", "slots"]
    (turn,) = lab.turns()
    assert (turn.thread, turn.text, turn.response) == ("t1", "DONE IT", "done it")
    assert lab.store.turns.session() is None


def test_a_workers_context_stays_before_its_task(core: Core, lab_of: Any) -> None:
    """Cited episodes stand first, then what slots add, then the task as it was typed."""
    core.base()
    seen: list[Request] = []

    def script(request: Request) -> str:
        seen.append(request)
        return "fine"

    lab = worker_lab(lab_of, script, slots="base")
    first = lab.thread("One.", type="query")
    lab.thread("Two.\n", type="carried", context=[first])
    text = seen[-1].messages[1].text
    assert text.index("t1.e1") < text.index("Two.\n")
    assert text.endswith("Two.\n")


CHOICES: dict[str, tuple[Any, list[str]]] = {
    "all is every listed slot": ("all", ["notes", "base_input", "base_output"]),
    "base is base_input and base_output": ("base", ["base_input", "base_output"]),
    "a list is these": (["base_input"], ["base_input"]),
}


@pytest.mark.parametrize(("slots", "ran"), CHOICES.values(), ids=CHOICES.keys())
def test_which_slots_a_type_carries(core: Core, lab_of: Any, slots: Any, ran: list[str]) -> None:
    """`slots: all|base|[ids]`."""
    core.base()
    core.slot("input/notes")
    core.pipelines(input=["notes", "base_input"], output=["base_output"])
    lab = worker_lab(lab_of, echo, slots=slots)
    lab.thread("x", type="carried")
    assert [e.slot for e in lab.store.turns.events() if e.what == "completed"] == ran


WORKER_FAILURES = {
    "a hard input slot": ({"input/bad": "hard"}, "all", "slot_failed"),
    "a hard output slot": ({"output/bad": "hard"}, "all", "slot_failed"),
    "no user text": ({}, ["base_output"], "no_user_text"),
    "a slot that is not there": ({}, ["base_inputs"], "unknown_slot"),
}


@pytest.mark.parametrize(("bad", "slots", "code"), WORKER_FAILURES.values(), ids=WORKER_FAILURES.keys())
def test_a_worker_whose_slots_fail_hard_fails(core: Core, lab_of: Any, bad: Any, slots: Any, code: str) -> None:
    """The action ends as failed with the code, and its turn with it."""
    core.base()
    lanes: dict[str, list[str]] = {"input": ["base_input"], "output": ["base_output"]}
    for where, policy in bad.items():
        core.slot(where, "def process(ctx): 1 / 0\n", failure_policy=policy)
        lanes[where.split("/")[0]].append("bad")
    core.pipelines(**lanes)
    lab = worker_lab(lab_of, echo, slots=slots)
    try:
        episode = lab.thread("x", type="carried")
        assert (episode.status, episode.code) == ("failed", code)
    except DispatchError as e:
        assert e.code == code  # noqa: PT017  it had found nothing: no episode
    assert [t.state for t in lab.threads()] == ["failed"]
    assert lab.turns() == []


def test_a_workers_slot_cannot_wait_for_a_thread(core: Core, lab_of: Any) -> None:
    """It would hold the permit that the thread needs; it may let one go on."""
    core.base()
    core.slot("input/run", "def process(ctx):\n    ctx.threads.run('x')\n", capabilities=["threads.*"])
    core.slot("input/spawn", "def process(ctx):\n    ctx.notice(ctx.threads.spawn('y', type='query'))\n",
              capabilities=["threads.*"])  # fmt: skip
    core.pipelines(input=["run", "spawn", "base_input"], output=["base_output"])
    lab = worker_lab(lab_of, echo, maxConcurrent=1)
    assert lab.thread("x", type="carried").status == "ok"
    failed = [e.detail or "" for e in lab.store.turns.events() if e.what == "failed"]
    assert len(failed) == 1
    assert "use ctx.threads.spawn" in failed[0]
    lab.wait()
    assert [t.state for t in lab.threads()] == ["successful", "successful"]


def test_what_slots_add_must_fit(core: Core, lab_of: Any) -> None:
    """A brief that slots make too large fails the action with the size."""
    core.base()
    core.slot("input/much", "def process(ctx):\n    ctx.input.add_context('word ' * 200_000)\n")
    core.pipelines(input=["much", "base_input"], output=["base_output"])
    lab = worker_lab(lab_of, echo)
    with pytest.raises((DispatchError, AssertionError)):
        assert lab.thread("x", type="carried").code != "brief_too_large"
    assert lab.threads()[0].code == "brief_too_large"


def test_a_broken_surface_is_told(core: Core, lab_of: Any) -> None:
    """Asking and listing say what is wrong with the surface, with file and line."""
    core.base()
    core.write("input/base_input/slot.yaml", "run: x\n")
    lab = lab_of()
    for do in (lambda: lab.ask("x"), lab.slots):
        with pytest.raises(ConfigError, match=r"slot.yaml:1, run: `run` is not accepted: the field is entrypoint"):
            do()

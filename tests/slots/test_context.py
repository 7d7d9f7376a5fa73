"""`ctx`: what a slot is told, capabilities and their audit, state, history, tools, threads, slates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from slate_lab.errors import LabError
from slate_lab.records import Episode, HistoryEntry, Turn
from slate_lab.slots.capabilities import Grants, matches
from tests.slots.making import Bench, Core

Make = Callable[..., Bench]


class Outside:
    """Tools, threads and slates that answer with what they were asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """A tool."""
        await asyncio.sleep(0)
        self.asked.append((name, dict(arguments)))
        return f"{name} says hi"

    async def run(self, task: str, **options: Any) -> Episode:
        """A thread that is waited for."""
        raise LabError(f"ran {task}", code="told")

    def spawn(self, task: str, **options: Any) -> str:
        """A thread that goes on."""
        self.asked.append((task, options))
        return "t9"

    def read(self, target: str, **options: Any) -> Any:
        """A slate's text."""
        return f"text of {target}"

    def write(self, target: str, content: str, **options: Any) -> Any:
        """A block."""
        self.asked.append((target, content, options))

    def peek(self, target: str, **options: Any) -> Any:
        """The newest block."""

    def render(self, target: str) -> Any:
        """As in a brief."""

    def search(self, text: str, **options: Any) -> Any:
        """Blocks."""
        return [(text, options)]


async def say(core: Core, bench: Make, code: str, phase: str = "input", **manifest: Any) -> tuple[list[str], Bench]:
    """Run one slot; what it told by notices."""
    core.slot(f"{phase}/one", code, **manifest)
    core.pipelines(**{phase: ["one"]})
    outside = Outside()
    here = bench(tools=outside, threads=outside, slates=outside)
    here.outside = outside  # type: ignore[attr-defined]
    await here.run(phase, here.draft("hello", response="world"))
    return [d.text for d in here.live], here


async def test_what_a_slot_is_told(core: Core, bench: Make) -> None:
    """Session, turn, workspace, its id and folder, the raw text and the attachments."""
    told, here = await say(
        core,
        bench,
        "def process(ctx):\n"
        "    for x in (ctx.session_id, ctx.turn, ctx.workspace, ctx.slot_id, ctx.slot_path, ctx.input.raw_text,\n"
        "              ctx.input.attachments):\n"
        "        ctx.notice(str(x))\n",
    )
    assert told == ["c1", "1", str(core.root), "one", str(core.folder / "input/one"), "hello", "()"]
    assert here.events("failed") == []


WRONG_PHASE = {
    "ctx.output in an input slot": ("input", "ctx.output", "in output slots only"),
    "ctx.result in an input slot": ("input", "ctx.result", "in output slots only"),
    "ctx.bootstrap in an input slot": ("input", "ctx.bootstrap", "in bootstrap slots only"),
    "ctx.input in an output slot": ("output", "ctx.input", "in input slots only"),
    "ctx.input in a bootstrap slot": ("bootstrap", "ctx.input", "in input slots only"),
    "sending from a bootstrap slot": ("bootstrap", "ctx.send_text('x')", "delivers nothing"),
}


@pytest.mark.parametrize(("phase", "code", "says"), WRONG_PHASE.values(), ids=WRONG_PHASE.keys())
async def test_what_does_not_exist_in_a_phase(core: Core, bench: Make, phase: str, code: str, says: str) -> None:
    """What belongs to another phase says to which."""
    _, here = await say(core, bench, f"def process(ctx):\n    {code}\n", phase)
    assert says in (here.events("failed")[0].detail or "")


VALUES = {
    "text is text": "ctx.send_text(1)",
    "content is text": "ctx.input.add('user', None)",
    "a policy is known": "ctx.send_text('x', history_policy='hidden')",
    "a role is known": "ctx.input.add_context('x', role='assistant')",
    "a file lies inside": "ctx.send_file('/etc/hostname')",
    "a file exists": "ctx.send_file('nothing.txt')",
    "an image is one": "ctx.send_image(object())",
    "an image is one by its name": "ctx.send_image('agent/pipelines.yaml')",
    "state is JSON": "ctx.state.project.set('k', object())",
    "state holds no tuple": "ctx.state.project.set('k', (1, 2))",
    "state holds no NaN": "ctx.state.project.set('k', float('nan'))",
    "state has text keys": "ctx.state.project.set('k', {1: 2})",
    "a merge takes a table": "ctx.state.project.merge('k', [1])",
    "an append needs a list": "ctx.state.project.set('k', 1); ctx.state.project.append('k', 2)",
    "a merge needs a table": "ctx.state.project.set('k', 1); ctx.state.project.merge('k', {})",
}


@pytest.mark.parametrize("code", VALUES.values(), ids=VALUES.keys())
async def test_wrong_values_raise_at_the_call(core: Core, bench: Make, code: str) -> None:
    """A call with a wrong value fails the slot, and nothing of it stays."""
    _, here = await say(core, bench, f"def process(ctx):\n    {code}\n", capabilities=["state.*"])
    assert len(here.events("failed")) == 1
    assert here.store.turns.read("project") == {}


MATCHES = {
    "the same name": ("state.session.read", "state.session.read", True),
    "another name": ("state.session.read", "state.session.write", False),
    "a prefix wildcard": ("slate.read:*", "slate.read:Notes/daily", True),
    "a wildcard covers only its prefix": ("slate.read:*", "slate.write:Notes/daily", False),
    "a wildcard of everything": ("*", "tool.call:bash", True),
    "everything is not secrets": ("*", "secret:KEY", False),
    "a prefix wildcard never reaches secrets": ("secret:*", "secret:KEY", False),
    "a dotted prefix never reaches secrets": ("secret.*", "secret.read:KEY", False),
    "a secret in full": ("secret:KEY", "secret:KEY", True),
    "a wildcard is no name": ("slate.read:*", "slate.write:*", False),
}


@pytest.mark.parametrize(("pattern", "name", "held"), MATCHES.values(), ids=MATCHES.keys())
def test_wildcards(pattern: str, name: str, held: bool) -> None:
    """`*` at the end stands for any rest, and never for a secret."""
    assert matches(pattern, name) is held


def test_a_manifest_grants_only_what_the_project_allows() -> None:
    """Both sides must cover a name; a secret must stand in full on both."""
    grants = Grants(("state.*", "tool.call:read", "secret:A", "secret:B"), ("state.session.*", "secret:A", "secret:*"))
    assert [n for n in ("state.session.read", "state.project.read", "tool.call:read", "secret:A", "secret:B")
            if grants.can(n)] == ["state.session.read", "secret:A"]  # fmt: skip
    assert grants.withheld == ("tool.call:read", "secret:B")


async def test_capabilities_are_audited(core: Core, bench: Make) -> None:
    """can and require are events with the answer; require refuses and says what to add where."""
    told, here = await say(
        core,
        bench,
        "def process(ctx):\n    ctx.notice(str(ctx.capability.can('my.own')))\n"
        "    ctx.capability.require('my.own')\n    ctx.capability.require('other')\n",
        capabilities=["my.*"],
    )
    assert told == ["True"]
    assert [(e.detail, e.allowed) for e in here.events("capability")] == [("my.own", True), ("other", False)]
    assert here.events("failed")[0].detail == (
        "the slot one may not use other: add it to capabilities in one/slot.yaml"
    )


NEEDED = {
    "state.session.read": "ctx.state.session.get('k')",
    "state.session.write": "ctx.state.session.set('k', 1)",
    "state.project.read": "ctx.state.project.snapshot()",
    "state.project.write": "ctx.state.project.append('k', 1)",
    "state.session.write to delete": "ctx.state.session.delete('k')",
    "tool.call:read": "ctx.tools.call('read', {'path': 'a'})",
    "threads.run": "ctx.threads.run('x')",
    "threads.spawn": "ctx.threads.spawn('x')",
    "slate.read:Notes/daily": "ctx.slate.read('Notes/daily/a.md')",
    "slate.write:Notes/daily": "ctx.slate.write('Notes/daily/a.md', 'x')",
    "slate.read:Notes": "ctx.slate.search('x', slate='Notes')",
}


@pytest.mark.parametrize("name", NEEDED)
async def test_what_needs_a_capability(core: Core, bench: Make, name: str) -> None:
    """Without it the call is refused by name; with it the call goes through."""
    code = f"def process(ctx):\n    {NEEDED[name]}\n"
    _, here = await say(core, bench, code)
    name = name.removesuffix(" to delete")
    assert f"may not use {name}" in (here.events("failed")[0].detail or "")
    _, here = await say(core, bench, code, capabilities=[name])
    failed = [e.detail for e in here.events("failed")]
    assert failed == (["ran x"] if name == "threads.run" else [])


async def test_where_a_lab_has_none(core: Core, bench: Make) -> None:
    """Tools, threads and slates that do not exist are said so."""
    core.slot("input/one", "def process(ctx):\n    ctx.slate.read('A/b')\n", capabilities=["*"])
    core.pipelines(input=["one"])
    here = bench()
    await here.run("input")
    assert here.events("failed")[0].detail == "there are no slates here"


@pytest.mark.parametrize(("kind", "wait"), [("def", ""), ("async def", "await ")])
async def test_calls_that_wait(core: Core, bench: Make, kind: str, wait: str) -> None:
    """A tool is awaited in an async slot, and simply answers in a blocking one."""
    code = f"{kind} process(ctx):\n    ctx.notice({wait}ctx.tools.call('read', {{'path': 'a'}}))\n"
    told, here = await say(core, bench, code, capabilities=["tool.call:*"])
    assert told == ["read says hi"]
    assert here.outside.asked == [("read", {"path": "a"})]  # type: ignore[attr-defined]


async def test_keys_of_the_state_can_be_deleted(core: Core, bench: Make) -> None:
    """A deleted key is gone at once and for good; one that is not there, or is set again, is no error."""
    code = """
def process(ctx):
    s = ctx.state.session
    if ctx.turn == 1:
        s.set('a', 1); s.set('b', 2); s.set('c', 3)
    else:
        s.delete('a'); s.delete('nothing'); s.delete('b'); s.set('b', 4)
        ctx.notice(str(sorted(s.snapshot().items())))
"""
    told, here = await say(core, bench, code, capabilities=["state.*"])
    await here.run("input", turn=2)
    assert [d.text for d in here.live] == [*told, "[('b', 4), ('c', 3)]"]
    assert here.store.turns.read(here.session) == {"b": 4, "c": 3}
    code = "def process(ctx):\n    ctx.state.session.delete('b')\n    1 / 0\n"
    core.slot("input/one", code, capabilities=["state.*"])
    await here.run("input", turn=3)
    assert here.store.turns.read(here.session) == {"b": 4, "c": 3}


async def test_state_is_kept_by_scope(core: Core, bench: Make) -> None:
    """set, merge, append and get see each other at once, are written together, and are copies."""
    code = """
def process(ctx):
    s, p = ctx.state.session, ctx.state.project
    s.set('a', {'x': {'y': 1}})
    s.merge('a', {'x': {'z': 2}})
    s.append('list', 'one')
    s.append('list', 'two')
    p.set('n', p.get('n', 0) + 1)
    s.get('list').append('not kept')
    ctx.notice(str(sorted(s.snapshot())))
"""
    told, here = await say(core, bench, code, capabilities=["state.*"])
    assert told == ["['a', 'list']"]
    assert here.store.turns.read(here.session) == {"a": {"x": {"y": 1, "z": 2}}, "list": ["one", "two"]}
    await here.run("input", turn=2)
    assert here.store.turns.read("project") == {"n": 2}
    assert here.store.turns.read(here.session)["list"] == ["one", "two"] * 2


async def test_parallel_appends_lose_nothing(core: Core, bench: Make) -> None:
    """Changes are applied to what is kept when a slot ends, one slot after the other."""
    names = [f"s{n}" for n in range(8)]
    for name in names:
        core.slot(
            f"input/{name}",
            f"import time\ndef process(ctx):\n    ctx.state.project.append('all', '{name}')\n    time.sleep(0.01)\n",
            capabilities=["state.project.write"],
        )
    core.pipelines(input_parallel=names)
    here = bench()
    await here.run("input")
    assert sorted(here.store.turns.read("project")["all"]) == names


async def test_history_recent(core: Core, bench: Make) -> None:
    """The newest entries, oldest first, by role; this turn's included, hidden ones too."""
    code = "def process(ctx):\n    ctx.notice(str([e.text for e in ctx.history.recent(3)]))\n"
    code += "    ctx.notice(str([e.text for e in ctx.history.recent(9, roles=['user'])]))\n"
    core.slot("output/one", code)
    core.slot("output/first", "def process(ctx):\n    ctx.send_text('now', history_policy='model_hidden')\n")
    core.pipelines(output=["first", "one"])
    here = bench()
    turns, draft = here.store.turns, here.draft(turn=2)
    said = [("user", "q1"), ("assistant", "a1"), ("user", "q2"), ("assistant", "a2")]
    old = Turn(session=here.session, n=1, thread="t1", prompt="q1")
    turns.end(old, [HistoryEntry(turn=1, role=role, text=text, slot="x") for role, text in said])  # type: ignore[arg-type]
    await here.run("output", draft)
    assert [d.text for d in here.live if d.kind == "notice"] == ["['q2', 'a2', 'now']", "['q1', 'q2']"]

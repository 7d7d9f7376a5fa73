"""The recursion guard, sentence by sentence."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import slate_lab as sl
from slate_lab.errors import DispatchError
from slate_lab.weave.units.names import DENIED, guarded
from tests.weave.units.making import SEARCH, call, offered, refusals, selected

LAB_TOOLS = ("thread", "threads", "episode", "slate_change")
BUILT_IN = (
    "read",
    "bash",
    "edit",
    "write",
    "grep",
    "find",
    "ls",
    "python",
    "slate_read",
    "slate_write",
    "slate_search",
)


def tool(name: str) -> str:
    """A unit with one plain tool of a name that cannot be read off its source."""
    return f"""
def register(unit):
    unit.tool(lambda: "ran", name="".join({list(name)!r}))
"""


@pytest.mark.parametrize("name", LAB_TOOLS)
def test_workers_never_receive_thread_threads_episode_slate_change(write: Any, units_lab: Any, name: str) -> None:
    """Not by a unit's readable name, not by one made up while it runs, not in another spelling."""
    write(plain=f"def register(unit):\n    @unit.tool\n    def {name}() -> str:\n        return 'ran'\n")
    write(sly=tool(name), loud=tool(name.upper().replace("_", "-")), fine=SEARCH)
    model = sl.ScriptedModel([call(name), "done"])
    lab = units_lab(model)
    episode = lab.thread("x")
    assert not DENIED & set(offered(model))
    assert "there is no tool" in episode.facts[0].text
    assert set(refusals(lab)) == {"plain", "sly", "loud"}


def test_a_denylist_applied_after_the_allowlist(write: Any, units_lab: Any) -> None:
    """Neither the allowlist of an action nor that of a thread type brings a denied tool back."""
    write(sly=tool("thread"))
    model = sl.ScriptedModel(lambda request: "done")
    lab = units_lab(model, threadTypes={"boss": {"tools": ["read", "thread", "episode"]}})
    with pytest.raises(DispatchError, match="there is no tool 'thread'"):
        lab.thread("x", tools=["thread"])
    lab.thread("x", type="boss")
    assert offered(model) == ["read"]
    assert guarded(dict.fromkeys(("Thread", "slate-change", "read"))) == {"read": None}


AT_EVERY_CHANGE = """
def register(unit):
    @unit.tool
    def grow(name: str) -> str:
        try:
            unit.tool(lambda: "ran", name=name)
        except Exception as e:
            return str(e)
        return "grown"
"""


def test_and_at_every_change_of_the_tool_set(write: Any, units_lab: Any) -> None:
    """A tool registered while the worker runs joins what is offered next, unless its name is the lab's."""
    write(grow=AT_EVERY_CHANGE)
    names = ("thread", "read", "grow", "more")
    model = sl.ScriptedModel([*(call("grow", name=name) for name in names), call("more"), call("thread"), "done"])
    facts = [f.text for f in units_lab(model).thread("x").facts]
    assert all("not its own" in text or "twice" in text for text in facts[:3])
    assert facts[3:5] == ["grown", "ran"]
    assert "there is no tool 'thread'" in facts[5]
    assert "more" not in offered(model, 3)
    assert "more" in offered(model, 4)


def test_worker_extensions_are_unanchored_regular_expressions_over_the_units_names(write: Any, units_lab: Any) -> None:
    """A pattern is found anywhere in a name; what no pattern finds is never run; no pattern selects nothing."""
    write(my_search=SEARCH, other="raise SystemExit('ran')")
    assert selected(units_lab(patterns=["sear"])) == {"my_search": ["look_up"]}
    assert selected(units_lab(patterns=["^sear"])) == {}
    assert selected(units_lab(patterns=["h$", "nothing"])) == {"my_search": ["look_up"]}
    assert units_lab(patterns=[]).units.rows() == []


@pytest.mark.parametrize("name", [*BUILT_IN, "episode"])
def test_a_unit_with_any_tool_named_like_a_lab_tool_or_a_built_in_is_refused_whole(
    write: Any, units_lab: Any, name: str
) -> None:
    """Its other tools, its handlers and its models do not come either."""
    write(mixed=SEARCH + f"    unit.tool(look_up, name=''.join({list(name)!r}))\n    unit.provider('p', 1)\n")
    lab = units_lab()
    assert selected(lab) == {}
    assert lab.units.providers == {}
    assert refusals(lab)["mixed"].startswith(f"refused whole: it registers {name}")


BEFORE = {
    "a decorated function": "def register(unit):\n    @unit.tool\n    def thread(): ...\n",
    "a decorator with options": "def register(unit):\n    @unit.tool(reads=True)\n    async def bash(): ...\n",
    "a function that is passed": "def find(): ...\ndef register(unit):\n    unit.tool(find)\n",
    "a name that is given": "def register(unit):\n    unit.tool(print, name='ls')\n",
    "a name given to a decorator": "def register(unit):\n    @unit.tool(name='episode')\n    def harmless(): ...\n",
    "an attribute": "import os\ndef register(unit):\n    unit.tool(os.read)\n",
}


@pytest.mark.parametrize("text", BEFORE.values(), ids=BEFORE)
def test_before_its_code_runs_where_its_declared_names_allow_it(
    write: Any, units_lab: Any, project: Path, text: str
) -> None:
    """The source is read, never run."""
    write(bad=f"open({str(project / 'ran')!r}, 'w').close()\n{text}")
    assert refusals(units_lab())["bad"].startswith("refused whole: it declares")
    assert not (project / "ran").exists()


def test_and_again_after_start_up(write: Any, units_lab: Any) -> None:
    """A start-up handler that registers a taken name fails the action, also when the unit swallows the refusal."""
    write(
        late="""
        def register(unit):
            unit.tool(lambda: "x", name="fine")
            @unit.on_start
            async def start():
                try:
                    unit.tool(lambda: "ran", name="wri" + "te")
                except Exception:
                    pass
    """
    )
    model = sl.ScriptedModel()
    lab = units_lab(model)
    episode = lab.thread("x")
    assert (episode.status, episode.code, episode.compression) == ("failed", "tool_collision", "fixed")
    assert "late registers write" in (episode.detail or "")
    assert model.requests == []


def test_a_tool_registered_during_start_up_can_be_used(write: Any, units_lab: Any) -> None:
    """It is offered with the first request; a thread with a list of tools gets none that it did not list."""
    write(
        late="""
        def register(unit):
            unit.tool(lambda: "x", name="fine")
            unit.on_start(lambda: unit.tool(lambda: "ran", name="fresh"))
    """
    )
    model = sl.ScriptedModel([call("fresh"), "done", "done"])
    lab = units_lab(model)
    assert lab.thread("x").facts[0].text == "ran"
    lab.thread("x", tools=["fine"])
    assert offered(model, 2) == ["fine"]


def test_start_up_handlers_are_awaited_before_the_action(write: Any, units_lab: Any) -> None:
    """Plain and async ones, in the order in which they were given."""
    write(
        slow="""
        import asyncio, time
        def register(unit):
            done = []
            @unit.on_start
            async def first():
                await asyncio.sleep(0.05); done.append("first")
            @unit.on_start
            def second():
                time.sleep(0.05); done.append("second")
            unit.tool(lambda: ",".join(done), name="state")
    """
    )
    assert units_lab([call("state"), "done"]).thread("x").facts[0].text == "first,second"


FAILING = {
    "an error": "raise RuntimeError('no index')",
    "an end of the program": "raise SystemExit(3)",
    "a cancellation of its own": "raise asyncio.CancelledError",
}


@pytest.mark.parametrize("how", FAILING.values(), ids=FAILING)
@pytest.mark.parametrize("kind", ["async def", "def"])
def test_a_failure_blocks_it(write: Any, units_lab: Any, how: str, kind: str) -> None:
    """The thread fails with a fixed episode, no model is asked, and the lab goes on."""
    write(
        bad=f"""
        import asyncio
        def register(unit):
            unit.tool(lambda: "x", name="fine")
            @unit.on_start
            {kind} start():
                {how}
    """
    )
    model = sl.ScriptedModel(["done"])
    lab = units_lab(model)
    episode = lab.thread("x")
    assert (episode.status, episode.code, episode.compression) == ("failed", "unit_start", "fixed")
    assert "the unit bad: start-up failed" in (episode.detail or "")
    assert model.requests == []
    assert lab.thread("x", type="query", tools=[]).code == "unit_start"
    assert lab.live() == []


def test_shutdown_runs_once(write: Any, units_lab: Any) -> None:
    """On every path: a good end, a failure, a start-up that failed, a cancel, the closing of the lab."""
    write(
        counted="""
        import asyncio
        ended, fail = [], []
        def register(unit):
            unit.on_shutdown(lambda: ended.append(unit.thread))
            @unit.on_start
            async def start():
                if fail:
                    raise RuntimeError("no")
            @unit.tool
            async def hang() -> str:
                await asyncio.sleep(60)
            unit.tool(lambda: ended, name="ended")
            unit.tool(lambda: fail.append(1), name="spoil")
    """
    )
    model = sl.ScriptedModel(["done", RuntimeError("boom"), call("hang"), call("spoil"), "done"])
    lab = units_lab(model)
    ended = sys.modules[lab.units.resolution.selected[0].registrars[0].__module__].ended
    lab.thread("good")
    lab.thread("fails")
    handle = lab.dispatch("cancelled")
    while not handle.progress.tool_calls:
        time.sleep(0.01)
    handle.cancel()
    with pytest.raises(DispatchError):
        handle.result(10)
    lab.thread("spoils")
    assert lab.thread("does not start").code == "unit_start"
    lab.close()
    assert ended == ["t1", "t2", "t3", "t4", "t5"]


def test_and_disposal_even_if_shutdown_fails(write: Any, units_lab: Any) -> None:
    """Every other handler still runs, the worker's models are closed, its tools are gone, the fault is an event."""
    write(
        bad="""
        import slate_lab as sl
        log = []
        class Own(sl.ScriptedModel):
            async def aclose(self):
                log.append("closed")
        def register(unit):
            unit.provider("p", Own)
            unit.tool(lambda: log, name="log")
            unit.on_shutdown(lambda: log.append("first given"))
            @unit.on_shutdown
            async def boom():
                raise SystemExit("no")
    """
    )
    lab = units_lab(["done"])
    assert lab.thread("x").status == "ok"
    log = sys.modules[lab.units.resolution.selected[0].registrars[0].__module__].log
    assert log == ["first given", "closed"]
    assert lab.units.live == set()
    faults = [e.data["faults"] for e in lab.events() if e.kind == "tools.close_failed"]
    assert len(faults) == 1
    assert "the unit bad: shutdown failed" in faults[0][0]


def test_a_shutdown_that_hangs_is_left_behind(write: Any, units_lab: Any) -> None:
    """It holds the permit for a few seconds, not for ever, and does not hold up the end of the lab."""
    write(
        stuck="""
        import time
        def register(unit):
            unit.tool(lambda: "x", name="fine")
            @unit.on_shutdown
            def hang():
                while True:
                    time.sleep(0.05)
    """
    )
    lab = units_lab(["done"], maxConcurrent=1)
    begun = time.monotonic()
    assert lab.thread("x").status == "ok"
    assert any("left behind" in str(e.data) for e in lab.events())
    lab.close()
    assert time.monotonic() - begun < 6


WEB = {
    "web/fetch.py": "def register(unit):\n    unit.tool(lambda: 'f', name='fetch')\n",
    "web/crawl.py": "from .common import SEEN\ndef register(unit):\n    unit.tool(lambda: 'c', name='crawl')\n",
    "web/common.py": "SEEN = []\n",
}


def test_a_load_unit_is_one_module_or_one_package(write: Any, units_lab: Any) -> None:
    """A package that declares literal entries, all of which register tools, is one unit; a module is one."""
    write({**WEB, "web/__init__.py": "__entries__ = ['fetch.py', './crawl.py']\n"}, search=SEARCH)
    lab = units_lab()
    assert selected(lab) == {"search": ["look_up"], "web": ["fetch", "crawl"]}
    assert refusals(lab) == {}
    write({"self/__init__.py": "def register(unit):\n    unit.tool(lambda: 's', name='own')\n"})
    assert selected(units_lab(patterns=["self"])) == {"self": ["own"]}


NO_WHOLE = {
    "a glob": "['*.py']",
    "an override": "['!crawl.py', 'fetch.py']",
    "a path out of it": "['../search.py', 'fetch.py']",
    "an absolute path": "['/etc/fetch.py']",
    "an empty path": "['', 'fetch.py']",
    "a path that is not there": "['fetch.py', 'gone.py']",
    "no literal list": "[n + '.py' for n in ('fetch', 'crawl')]",
    "a list that is set twice": "['fetch.py']\n__entries__ = ['fetch.py', 'crawl.py']",
    "no list": "'fetch.py'",
    "an empty list": "[]",
}


@pytest.mark.parametrize("entries", NO_WHOLE.values(), ids=NO_WHOLE)
def test_a_package_loads_as_a_whole_only_when_every_entry_it_declares_is_a_literal_path(
    write: Any, units_lab: Any, entries: str
) -> None:
    """No globs, no overrides; otherwise its modules are considered one by one, each under its own name."""
    write({**WEB, "web/__init__.py": f"__entries__ = {entries}\n"})
    lab = units_lab()
    assert selected(lab) == {"web/crawl": ["crawl"], "web/fetch": ["fetch"]}
    assert "not loaded as a whole" in refusals(lab)["web"]
    assert selected(units_lab(patterns=["web/f"])) == {"web/fetch": ["fetch"]}


def test_and_every_one_of_them_is_seen_registered_in_the_lab(write: Any, units_lab: Any) -> None:
    """An entry that registers nothing, or fails, makes the package no whole; the entries that register come alone."""
    entries = "__entries__ = ['fetch.py', 'crawl.py', 'quiet.py', 'broken.py']\n"
    quiet, broken = "def register(unit):\n    pass\n", "def register(unit):\n    raise OSError('no')\n"
    write({**WEB, "web/__init__.py": entries, "web/quiet.py": quiet, "web/broken.py": broken})
    lab = units_lab()
    assert selected(lab) == {"web/fetch": ["fetch"], "web/crawl": ["crawl"]}
    assert "quiet.py, broken.py registers no tool" in refusals(lab)["web"]
    assert "OSError: no" in refusals(lab)["web/broken"]


def test_a_package_with_one_colliding_entry_is_refused_whole(write: Any, units_lab: Any, project: Path) -> None:
    """Where the name can be read, none of its entries is run."""
    ran = f"open({str(project / 'ran')!r}, 'w').close()\n"
    write({**WEB, "web/__init__.py": "__entries__ = ['fetch.py', 'bad.py']\n", "web/bad.py": BEFORE["an attribute"]})
    write({"web/fetch.py": ran + WEB["web/fetch.py"]})
    lab = units_lab()
    assert selected(lab) == {}
    assert refusals(lab) == {"web": "refused whole: it declares read, the name of a tool that is not its own"}
    assert not (project / "ran").exists()
    write({"web/bad.py": tool("ls")})
    assert refusals(units_lab()) == {"web": "refused whole: it registers ls, the name of a tool that is not its own"}


def test_a_unit_that_registers_no_tool_is_not_a_candidate(write: Any, units_lab: Any) -> None:
    """It is not loaded into workers; a module without `register` is no unit at all."""
    write(quiet="def register(unit):\n    unit.on_start(lambda: 1 / 0)\n", helper="X = 1\n")
    lab = units_lab(["done"])
    assert refusals(lab) == {"quiet": "it registers no tool"}
    assert lab.thread("x").status == "ok"


def test_resolution_is_frozen_at_first_use(write: Any, units_lab: Any) -> None:
    """Units that come, change or go later do not count in this lab, so what is told of workers stays true."""
    write(search=SEARCH)
    model = sl.ScriptedModel(lambda request: "done")
    lab = units_lab(model)
    first = lab.units.resolution
    write(search=tool("other"), more=tool("more"))
    lab.thread("x")
    assert "look_up" in offered(model)
    assert not {"more", "other"} & set(offered(model))
    assert lab.units.resolution is first
    assert lab.status()["units"] == [
        {"unit": "search", "where": "units/search.py", "tools": ["look_up"], "refused": None}
    ]


def test_first_use_from_many_threads_resolves_once(write: Any, units_lab: Any, project: Path) -> None:
    """Eight actions at once run a unit's module once in the lab."""
    write(search=f"with open({str(project / 'runs')!r}, 'a') as file:\n    file.write('x')\n" + SEARCH)
    lab = units_lab(lambda request: "done")
    threads = [threading.Thread(target=lab.thread, args=("x",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (project / "runs").read_text() == "x"


def test_teardown_removes_a_worker_from_the_live_set_before_it_awaits_shutdown(write: Any, units_lab: Any) -> None:
    """While a shutdown handler runs, the worker is no longer live and its tools refuse to run."""
    write(
        torn="""
        import asyncio
        seen = {}
        def register(unit):
            @unit.tool
            async def work() -> str:
                await asyncio.sleep(0.2)
                return "worked"
            @unit.on_shutdown
            async def end():
                seen["ending"] = True
                await asyncio.sleep(0.3)
    """
    )
    lab = units_lab([call("work"), "done"])
    seen = sys.modules[lab.units.resolution.selected[0].registrars[0].__module__].seen
    kept: list[Any] = []
    handle = lab.dispatch("x")
    while "ending" not in seen:
        kept += [crew.tools["work"] for crew in lab.units.live if "work" in crew.tools]
        time.sleep(0.002)
    assert lab.units.live == set()
    assert lab.live() != []
    assert handle.result(10).facts[0].text == "worked"
    kit = type("Kit", (), {"check": lambda s: None, "approve": None, "bounded": lambda s, t: t})()
    with pytest.raises(sl.errors.LabError, match="the worker has ended"):
        asyncio.run(kept[0].call(kit, {}))


OWN_MODEL = """
import slate_lab as sl
def register(unit):
    unit.tool(lambda: "x", name="fine")
    unit.provider("{id}", {model})
"""


def named(text: str) -> sl.ScriptedModel:
    """A model that always says the same."""
    return sl.ScriptedModel(lambda request: text)


def test_the_labs_provider_registrations_are_copied_in_before_authentication(units_lab: Any, project: Path) -> None:
    """A provider whose key is missing is answered by the model that the lab registered for it."""
    lab = sl.Lab.open(
        project, store=":memory:", env={"OPENAI_API_KEY": "k"}, trust=True, config={"compressor": {"mode": "fixed"}}
    )
    with lab:
        lab.units.provider("openai", named("from the lab"))
        assert lab.thread("x", model="gpt-luna").facts[0].text == "from the lab"


def test_a_workers_own_registration_wins(write: Any, units_lab: Any) -> None:
    """The lab's is copied only where the worker lacks the id; outside the worker the lab's answers."""
    write(own=OWN_MODEL.format(id="scripted", model="lambda: sl.ScriptedModel(lambda r: 'from ' + unit.thread)"))
    lab = units_lab(named("configured"))
    assert lab.thread("x").facts[0].text == "from t1"
    lab.units.provider("scripted", named("from the lab"))
    assert lab.thread("x").facts[0].text == "from t2"


def test_providers_of_a_unit_without_tools_are_copied_too(write: Any, units_lab: Any) -> None:
    """It is no candidate for workers, and its registration stands in the lab."""
    write(only="import slate_lab as sl\ndef register(unit):\n"
               "    unit.provider('scripted', sl.ScriptedModel(lambda r: 'from the unit'))\n")  # fmt: skip
    assert units_lab(named("configured")).thread("x").facts[0].text == "from the unit"


BAD_MODELS = {
    "a maker that fails": "lambda: 1 / 0",
    "a maker that ends the program": "lambda: exit(1)",
    "a maker of something else": "lambda: 'model'",
    "no model": "'model'",
}


@pytest.mark.parametrize("model", BAD_MODELS.values(), ids=BAD_MODELS)
def test_a_failed_copy_shuts_the_worker_down_and_fails_the_action(write: Any, units_lab: Any, model: str) -> None:
    """The unit's shutdown runs, the episode says which provider; the next thread is none the worse."""
    write(bad=OWN_MODEL.format(id="p", model=model) + "    unit.on_shutdown(lambda: ended.append(1))\nended = []\n")
    lab = units_lab(["never asked"])
    episode = lab.thread("x")
    assert (episode.status, episode.code, episode.compression) == ("failed", "provider", "fixed")
    assert "the provider p cannot be taken over" in (episode.detail or "")
    assert sys.modules[lab.units.resolution.selected[0].registrars[0].__module__].ended == [1]

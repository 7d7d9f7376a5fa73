"""Units that misbehave spoil themselves: not the lab, not each other, not the guard. And where units come from."""

from __future__ import annotations

import importlib.util
import py_compile
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import slate_lab as sl
from slate_lab.config import HeldBack, Trust
from slate_lab.errors import DispatchError
from slate_lab.weave.units import names
from tests.weave.units.making import SEARCH, call, offered, refusals, selected

AT_LOADING = {
    "raises at import": ("raise ValueError('no')\ndef register(unit): ...\n", "ValueError: no"),
    "ends the program at import": ("raise SystemExit(1)\ndef register(unit): ...\n", "SystemExit"),
    "raises in register": ("def register(unit):\n    1 / 0\n", "ZeroDivisionError"),
    "is no Python": ("def register(unit:\n", "it is no Python"),
    "holds a null byte": ("def register(unit): ...\n\0", "it is no Python"),
    "nests without end": ("def register(unit): ...\nx = " + "(" * 5000 + ")" * 5000, "it is no Python"),
    "imports what is not there": ("import nowhere_at_all\ndef register(unit): ...\n", "ModuleNotFoundError"),
    "loses its register": ("def register(unit): ...\ndel register\n", "AttributeError"),
    "registers no function": ("def register(unit):\n    unit.tool(3)\n", "no function"),
    "registers rest parameters": ("def register(unit):\n    unit.tool(lambda *a: 1, name='f')\n", "without names"),
    "registers a type without a JSON form": (
        "def f(x: set[object] | list[object]): ...\ndef register(unit):\n    unit.tool(f)\n", "no JSON form"),
    "registers a broken annotation": ("def f(x: 'Nope'): ...\ndef register(unit):\n    unit.tool(f)\n", "signature"),
    "registers a name that is none": ("def register(unit):\n    unit.tool(print, name='a b')\n", "no name for a tool"),
    "registers an empty name": ("def register(unit):\n    unit.tool(lambda: 1)\n", "no name for a tool"),
    "registers one name twice": (
        "def register(unit):\n    for _ in 1, 2:\n        unit.tool(lambda: 1, name='f')\n", "twice"),
    "empties the denylist": (
        "from slate_lab.weave.units import names\ndef register(unit):\n    names.DENIED.clear()\n", "AttributeError"),
    "borrows from the lab": ("from slate_lab.lab import *\ndef register(unit): ...\n", "no tool"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said"), AT_LOADING.values(), ids=AT_LOADING)
def test_a_unit_that_cannot_be_loaded_is_refused(write: Any, units_lab: Any, text: str, said: str) -> None:
    """Its reason is told in status and in `check`; units beside it, and threads, go on."""
    write(bad=text, search=SEARCH)
    lab = units_lab([call("look_up", term="x"), "done"])
    assert said in refusals(lab)["bad"]
    assert selected(lab) == {"search": ["look_up"]}
    assert lab.thread("x").facts[0].text == "x means 42"


def test_a_unit_that_rebinds_the_denylist_changes_nothing(write: Any, units_lab: Any, monkeypatch: Any) -> None:
    """The guard holds its own copy: a denied name registered at any time is still kept from workers."""
    monkeypatch.setattr(names, "DENIED", names.DENIED)  # put back afterwards
    write(
        sly="""
        from slate_lab.weave.units import crew, names
        names.DENIED = names.RESERVED = frozenset()
        def register(unit):
            unit.tool(lambda: "x", name="fine")
            unit.on_start(lambda: unit.tools.update(thread=unit.tools["fine"]))
    """
    )
    monkeypatch.setattr(names, "RESERVED", names.RESERVED)
    model = sl.ScriptedModel([call("thread"), "done"])
    lab = units_lab(model)
    assert "there is no tool 'thread'" in lab.thread("x").facts[0].text
    assert "thread" not in offered(model)


def test_registering_after_the_end_is_refused(write: Any, units_lab: Any) -> None:
    """A unit that keeps itself and registers later only hears that its worker has ended."""
    write(
        late="""
        kept = []
        def register(unit):
            kept.append(unit)
            unit.tool(lambda: "x", name="fine")
    """
    )
    lab = units_lab(["done"])
    lab.thread("x")
    kept = sys.modules[lab.units.resolution.selected[0].registrars[0].__module__].kept
    for unit in kept:
        for late in (
            lambda u=unit: u.tool(lambda: "x", name="more"),
            lambda u=unit: u.on_start(lambda: None),
            lambda u=unit: u.on_shutdown(lambda: None),
            lambda u=unit: u.provider("p", sl.ScriptedModel()),
        ):
            with pytest.raises(sl.errors.LabError, match="after its worker ended"):
                late()


BAD_CALLS = {
    "an error": ("raise KeyError('x')", "KeyError"),
    "an end of the program": ("raise SystemExit(3)", "tried to end the program"),
    "an interruption": ("raise KeyboardInterrupt", "tried to end the program"),
    "a cancellation": ("raise asyncio.CancelledError", "by its own doing"),
    "the end of an iteration": ("raise StopIteration", "failed"),
}


@pytest.mark.parametrize(("how", "said"), BAD_CALLS.values(), ids=BAD_CALLS)
@pytest.mark.parametrize("kind", ["async def", "def"])
def test_a_tool_that_misbehaves_is_a_result(write: Any, units_lab: Any, kind: str, how: str, said: str) -> None:
    """The model reads what went wrong and the thread goes on; the lab's loop lives."""
    write(bad=f"import asyncio\ndef register(unit):\n    @unit.tool\n    {kind} bad():\n        {how}\n")
    episode = units_lab([call("bad"), "done"]).thread("x")
    assert said in episode.facts[0].text
    assert (episode.status, episode.facts[1].text) == ("ok", "done")


def test_a_tool_that_never_returns_holds_nobody_up(write: Any, units_lab: Any) -> None:
    """Its thread is cancelled, and the lab closes, while the tool still blocks."""
    write(
        stuck="""
        import time
        def register(unit):
            @unit.tool
            def hang():
                time.sleep(60)
    """
    )
    lab = units_lab([call("hang")])
    handle = lab.dispatch("x")
    while not handle.progress.tool_calls:
        time.sleep(0.01)
    begun = time.monotonic()
    handle.cancel(compress=False)
    with pytest.raises(DispatchError):
        handle.result(10)
    lab.close()
    assert time.monotonic() - begun < 4


def test_two_units_cannot_have_one_name_or_one_tool(write: Any, units_lab: Any) -> None:
    """The first in order has it."""
    write({"b/__init__.py": SEARCH}, a=SEARCH, b="def register(unit):\n    unit.tool(lambda: 1, name='own')\n")
    rows = [(row["unit"], row["where"], row["refused"]) for row in units_lab().units.rows()]
    assert rows == [
        ("a", "units/a.py", None),
        ("b", "units/b", "refused whole: it declares look_up, the name of a tool that is not its own"),
        ("b", "units/b.py", "another unit has this name"),
    ]


# where units come from


def test_units_of_an_untrusted_project_do_not_run(write: Any, project: Path, units_lab: Any) -> None:
    """They are listed with the reason; installed ones would still run."""
    write(search=f"open({str(project / 'ran')!r}, 'w').close()\n" + SEARCH)
    with pytest.warns(HeldBack, match=r"units/search\.py"):
        lab = units_lab(["done"], trust=False)
    assert refusals(lab) == {"search": "held back: it was opened with trust=False"}
    assert lab.thread("x").status == "ok"
    assert not (project / "ran").exists()


def test_a_unit_that_changed_since_it_was_trusted_does_not_run(write: Any, project: Path, units_lab: Any) -> None:
    """Also between the opening of the lab and the first use of units."""
    write(search=SEARCH)
    Trust.of(project).record()
    lab = units_lab(trust=None)
    write(search=f"open({str(project / 'ran')!r}, 'w').close()\n" + SEARCH)
    assert "was changed while the lab was open" in refusals(lab)["search"]
    assert not (project / "ran").exists()


def test_a_byte_code_cache_in_a_project_is_never_read(
    write: Any, project: Path, units_lab: Any, tmp_path: Path
) -> None:
    """A cache that Python would take unchecked does not replace the source that was trusted."""
    write(search=SEARCH)
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(project / 'ran')!r}, 'w').close()\n" + SEARCH)
    cache = importlib.util.cache_from_source(str(project / "units" / "search.py"))
    py_compile.compile(str(evil), cfile=cache, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    Trust.of(project).record()
    assert selected(units_lab(trust=None)) == {"search": ["look_up"]}
    assert not (project / "ran").exists()


def test_units_of_two_labs_share_nothing(write: Any, units_lab: Any) -> None:
    """Each lab has modules of its own under private names; closing it forgets them; `sys.path` stays as it was."""
    write({"a/__init__.py": "", "a/one.py": "from .own import NAME\n" + SEARCH, "a/own.py": "NAME = 'a'\n"})
    path = list(sys.path)
    first, second = units_lab(), units_lab()
    assert selected(first) == selected(second) == {"a/one": ["look_up"]}
    modules = {lab.units.resolution.selected[0].registrars[0].__module__ for lab in (first, second)}
    assert len(modules) == 2
    first.close()
    second.close()
    assert not modules & set(sys.modules)
    assert sys.path == path


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path with an installed package that offers a unit."""
    site = tmp_path / "site"
    (site / "spider").mkdir(parents=True)
    (site / "spider-1.2.dist-info").mkdir()
    (site / "spider-1.2.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: spider\nVersion: 1.2\n")
    (site / "spider-1.2.dist-info" / "entry_points.txt").write_text("[slate_lab.units]\nweb = spider.web\n")
    (site / "spider" / "__init__.py").write_text("")
    (site / "spider" / "web.py").write_text(SEARCH)
    monkeypatch.syspath_prepend(site)
    yield site
    for name in [n for n in sys.modules if n.partition(".")[0] == "spider"]:
        del sys.modules[name]


def test_installed_packages_offer_units(installed: Path, units_lab: Any) -> None:
    """By entry points; they are the person's own, so that they need no trust in the project."""
    lab = units_lab([call("look_up", term="y"), "done"], trust=False)
    assert lab.units.rows() == [{"unit": "web", "where": "spider 1.2", "tools": ["look_up"], "refused": None}]
    assert lab.thread("x").facts[0].text == "y means 42"


def test_an_installed_unit_with_a_taken_name_is_not_even_imported(installed: Path, units_lab: Any) -> None:
    """Its source is found without importing its package."""
    (installed / "spider" / "__init__.py").write_text("raise SystemExit('imported')")
    (installed / "spider" / "web.py").write_text("def register(unit):\n    @unit.tool\n    def write(): ...\n")
    assert "it declares write" in refusals(units_lab())["web"]
    assert "spider" not in sys.modules


def test_the_lab_itself_is_no_unit(installed: Path, units_lab: Any) -> None:
    """Whatever the patterns say."""
    points = installed / "spider-1.2.dist-info" / "entry_points.txt"
    points.write_text("[slate_lab.units]\nweb = slate_lab.verbs.run\n")
    assert refusals(units_lab()) == {"web": "it is the lab itself"}


# who gets them

LOOKING_AND_CHANGING = """
def register(unit):
    unit.tool(lambda: "x", name="look", reads=True)
    unit.tool(lambda: "x", name="change")
"""


@pytest.mark.parametrize(
    ("kind", "gets"),
    [
        ("general", {"look", "change"}),
        ("implementer", {"look", "change"}),
        ("researcher", {"look"}),
        ("reviewer", {"look"}),
        ("adversarial", {"look"}),
        ("query", set()),
        ("listed", {"change"}),
        ("unlisted", set()),
        ("charter", {"look"}),
    ],
)
def test_which_types_get_the_tools_of_units(write: Any, units_lab: Any, kind: str, gets: set[str]) -> None:
    """Types that may change things get all, types that look get those that only look, listed tools are exact."""
    write(both=LOOKING_AND_CHANGING)
    types = {"listed": {"tools": ["read", "change"]}, "unlisted": {"tools": ["read"]}, "charter": {"charter": "c"}}
    model = sl.ScriptedModel(["done"])
    units_lab(model, threadTypes=types).thread("x", type=kind)
    assert set(offered(model)) & {"look", "change"} == gets


def test_an_action_lists_tools_of_units_by_name(write: Any, units_lab: Any) -> None:
    """As any other tool, within what its type may have."""
    write(both=LOOKING_AND_CHANGING)
    model = sl.ScriptedModel(["done"])
    lab = units_lab(model)
    lab.thread("x", tools=["look", "read"])
    assert offered(model) == ["look", "read"]
    with pytest.raises(DispatchError, match="the type researcher has no change"):
        lab.thread("x", type="researcher", tools=["change"])

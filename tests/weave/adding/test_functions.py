"""Python functions as tools by configuration: schema from signature and docstring, faults told, code under trust."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import slate_lab as sl
from slate_lab.config import HeldBack, Trust
from slate_lab.errors import ConfigError, DispatchError

LOOKUP = '''
import time
from dataclasses import dataclass
from .shared import NAMES

@dataclass
class Ticket:
    id: int
    title: str

def find_ticket(id: int, exact: bool = False) -> Ticket:
    """Find a ticket.

    Args:
        id: its number.
        exact: no near ones.
    """
    return Ticket(id, NAMES[id])

async def count() -> int:
    """How many there are."""
    return len(NAMES)

def where(kit) -> str:
    """Where it works."""
    return f"{kit.thread} in {kit.workspace.root.name}"

def nothing() -> None:
    time.sleep(0)
'''


@pytest.fixture
def tools(project: Path) -> Path:
    """The project's folder of tools, with one module and what it shares."""
    (project / "tools").mkdir()
    (project / "tools" / "lookup.py").write_text(LOOKUP)
    (project / "tools" / "shared.py").write_text("NAMES = {7: 'Index dropped'}\n")
    return project / "tools"


@pytest.fixture
def functions_lab(project: Path) -> Iterator[Callable[..., sl.Lab]]:
    """Opens labs with functions: `functions_lab(script, "lookup:find_ticket")`."""
    opened: list[sl.Lab] = []

    def open_one(script: Any, *functions: str, trust: bool | None = True) -> sl.Lab:
        model = script if hasattr(script, "reply") else sl.ScriptedModel(script)
        config = {"tools": {"functions": list(functions)}, "compressor": {"mode": "fixed"}}
        opened.append(sl.Lab.open(project, store=":memory:", config=config, models=model, env={}, trust=trust))
        return opened[-1]

    yield open_one
    for lab in opened:
        lab.close()


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    """A scripted call."""
    return {"tool": tool, "args": arguments}


def test_functions_are_tools(tools: Path, functions_lab: Callable[..., sl.Lab]) -> None:
    """Plain and async, with the schema of their signature; results as JSON; a first parameter `kit` is the worker's."""
    script = [
        call("find_ticket", id=7),
        call("find_ticket", id="seven"),
        call("find_ticket", id=8),
        call("count"),
        call("where"),
        call("nothing"),
        call("ceil", x=1.5),
        "done",
    ]
    model = sl.ScriptedModel(script)
    names = [f"lookup:{name}" for name in ("find_ticket", "count", "where", "nothing")]
    facts = [fact.text for fact in functions_lab(model, *names).thread("x").facts]
    spec = next(tool for tool in model.requests[0].tools if tool.name == "find_ticket")
    assert spec.description == "Find a ticket."
    assert spec.parameters["properties"]["id"] == {"type": "integer", "description": "its number."}
    assert spec.parameters["required"] == ["id"]
    assert facts[0] == '{"id":7,"title":"Index dropped"}'
    assert "wrong arguments for find_ticket" in facts[1]
    assert "KeyError" in facts[2]
    assert facts[3:6] == ["1", "t1 in project", "done"]
    assert "there is no tool 'ceil'" in facts[6]


def test_installed_modules_can_be_named(functions_lab: Callable[..., sl.Lab]) -> None:
    """A function of any package that is installed, also a dotted one."""
    lab = functions_lab([call("dirname", p="a/b"), "done"], "os.path:dirname")
    assert lab.thread("x").facts[0].text == "a"


UNUSABLE = {
    "a module that is not there": ("nowhere:seek", "ModuleNotFoundError"),
    "a function that is not there": ("lookup:seek", "AttributeError"),
    "a function without a signature of names": ("builtins:print", "without names"),
    "a module that fails": ("broken:seek", "ZeroDivisionError"),
    "a module that ends the program": ("ends:seek", "SystemExit"),
}


@pytest.mark.parametrize(("function", "said"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_function_that_cannot_be_used_says_why(
    tools: Path, functions_lab: Callable[..., sl.Lab], function: str, said: str
) -> None:
    """In status, and to whoever names it; threads go on without it."""
    (tools / "broken.py").write_text("1 / 0\n")
    (tools / "ends.py").write_text("raise SystemExit(1)\n")
    lab = functions_lab(["done"], function)
    assert said in lab.status()["units"][0]["refused"]
    assert lab.thread("x").status == "ok"
    with pytest.raises(DispatchError, match=said):
        lab.thread("x", tools=[function.partition(":")[2]])


@pytest.mark.parametrize(
    ("functions", "said"),
    [
        (["lookup:read"], "'read' is the name of another tool"),
        (["lookup:thread"], "'thread' is the name of another tool"),
        (["lookup:count", "other:count"], r"tools\.functions\[1\]"),
        (["lookup"], "module:function"),
        (["../lookup:find"], "module:function"),
    ],
)
def test_a_wrong_name_is_a_problem_of_the_configuration(
    functions_lab: Callable[..., sl.Lab], functions: list[str], said: str
) -> None:
    """Told when the lab is opened, before any code runs."""
    with pytest.raises(ConfigError, match=said):
        functions_lab([], *functions)


def test_functions_of_an_untrusted_project_do_not_run(tools: Path, functions_lab: Callable[..., sl.Lab]) -> None:
    """Also when the person named them in code: the module is the project's."""
    (tools / "lookup.py").write_text(f"open({str(tools / 'ran')!r}, 'w').close()\n{LOOKUP}")
    lab = functions_lab(["done"], "lookup:count", trust=False)
    assert "held back" in lab.status()["units"][0]["refused"]
    assert not (tools / "ran").exists()


def test_a_project_that_names_its_functions_is_hashed_with_its_tools(tools: Path, project: Path) -> None:
    """A change of any file in tools/ asks again; without `tools.functions` the folder is nobody's business."""
    assert Trust.of(project).entries == {}
    (project / "slate.yaml").write_text("tools: {functions: ['lookup:count']}\n")
    Trust.of(project).record()
    (tools / "shared.py").write_text("NAMES = {}\n")
    assert Trust.of(project).changes == ("changed tools/shared.py",)
    with pytest.warns(HeldBack, match=r"changed tools/shared\.py"):
        lab = sl.Lab.open(project, store=":memory:", env={}, models=sl.ScriptedModel())
    with lab:
        assert lab.config.tools.functions == []


def test_loose_modules_of_a_project_do_not_run(
    project: Path, functions_lab: Callable[..., sl.Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module beside the notebook is on Python's path and not under trust: refused with what to do."""
    (project / "loose.py").write_text(f"open({str(project / 'ran')!r}, 'w').close()\ndef seek(): ...\n")
    monkeypatch.syspath_prepend(project)
    lab = functions_lab(["done"], "loose:seek")
    assert "move it to tools/" in lab.status()["units"][0]["refused"]
    assert not (project / "ran").exists()
    assert "loose" not in sys.modules

"""MCP servers as tools: started when they are needed, bounded, told apart, gone at the end with all they started."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import slate_lab as sl
from slate_lab.errors import ConfigError, DispatchError

SERVER = str(Path(__file__).with_name("server.py"))
KEY = "sk-secret-of-the-tickets"


@pytest.fixture
def serve(project: Path) -> Iterator[Callable[..., sl.Lab]]:
    """Opens labs with one server: `serve(script, tools=[...])`."""
    opened: list[sl.Lab] = []

    def open_one(script: Any = (), *, name: str = "tickets", units: Any = (), **spec: Any) -> sl.Lab:
        spec = {"command": sys.executable, "args": [SERVER], **spec} if "url" not in spec else spec
        config = {"mcpServers": {name: spec}, "compressor": {"mode": "fixed"}, "workerExtensions": list(units)}
        model = script if hasattr(script, "reply") else sl.ScriptedModel(script)
        env = {"TICKET_KEY": KEY, "OTHER_KEY": "x"}
        opened.append(sl.Lab.open(project, store=":memory:", config=config, models=model, env=env, trust=True))
        return opened[-1]

    yield open_one
    for lab in opened:
        lab.close()


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    """A scripted call."""
    return {"tool": f"tickets_{tool}", "args": arguments}


def gone(pid: int) -> bool:
    """Whether a process has ended, or ends within two seconds."""
    until = time.monotonic() + 2
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def test_the_tools_of_a_server_are_tools_of_workers(serve: Callable[..., sl.Lab]) -> None:
    """One server from end to end: names, schemas, results, pictures, errors, bounds, environment, its end."""
    script = [
        call("look_up", term="bug", limit=3),
        call("picture"),
        call("fail"),
        call("look_up", limit="many"),
        call("long", size=40_000),
        call("environment"),
        call("breed"),
        "done",
    ]
    model = sl.ScriptedModel(script)
    lab = serve(model, env=["TICKET_KEY"])
    assert lab.status()["units"] == [{"server": "tickets", "tools": [], "state": "not started"}]
    episode = lab.thread("x")
    facts = [fact.text for fact in episode.facts]
    spec = next(tool for tool in model.requests[0].tools if tool.name == "tickets_look_up")
    assert spec.description.startswith("Look a term up.")
    assert spec.parameters["required"] == ["term"]
    assert facts[0] == "bug means 3"
    assert "a dot" in facts[1]
    assert "(image/png, 54 bytes, not shown)" in facts[1]
    assert facts[2].startswith("error: ")
    assert "no such ticket" in facts[2]
    assert facts[3].startswith("error: ")
    assert len(facts[4]) < 10_000
    assert "(cut here" in facts[4]
    assert "TICKET_KEY" in facts[5]
    assert "OTHER_KEY" not in facts[5]
    assert episode.status == "ok"
    assert lab.status()["units"][0]["state"] == "running"
    lab.close()
    assert gone(int(facts[6]))
    assert KEY not in str(lab.warnings)


@pytest.mark.drill  # starts a server of its own
def test_a_dead_server_is_a_clear_error(serve: Callable[..., sl.Lab]) -> None:
    """The call that kills it and those after it are results that say so; its last words come without the key."""
    lab = serve([call("die"), call("look_up", term="x"), "done"], env=["TICKET_KEY"], tools=["die", "look_up"])
    facts = [fact.text for fact in lab.thread("x").facts]
    assert facts[0].startswith("error: the server tickets failed")
    assert facts[1].startswith("error: the server tickets")
    assert KEY not in "".join(facts)


@pytest.mark.drill  # starts a server of its own
def test_a_call_that_takes_too_long_is_given_up(serve: Callable[..., sl.Lab]) -> None:
    """After timeoutSeconds; the lab closes while the server still hangs."""
    lab = serve([call("hang"), "done"], timeoutSeconds=8, tools=["hang"])
    assert "did not answer within 8 s" in lab.thread("x").facts[0].text


@pytest.mark.drill  # starts a server of its own
def test_a_listed_tool_that_is_not_there_is_told(serve: Callable[..., sl.Lab]) -> None:
    """A wrong allowlist is no silent lack of tools."""
    lab = serve(["done"], tools=["nope"])
    lab.thread("x")
    assert "it has no tool nope; it has look_up" in lab.status()["units"][0]["state"]


@pytest.mark.drill  # starts a server of its own
def test_only_listed_tools_are_offered(serve: Callable[..., sl.Lab]) -> None:
    """`tools` is an allowlist; what its server says only looks goes to types that look."""
    model = sl.ScriptedModel(lambda request: "done")
    lab = serve(model, tools=["look_up", "fail"])
    lab.thread("x")
    lab.thread("x", type="researcher")
    lab.thread("x", type="query")
    mine = [[t.name for t in r.tools if t.name.startswith("tickets_")] for r in model.requests if not r.schema]
    assert mine == [["tickets_look_up", "tickets_fail"], ["tickets_look_up"], []]


NOT_STARTED = {
    "no such program": ({"command": "no-such-program-here", "args": []}, "no-such-program-here cannot be started"),
    "a program that is no server": ({"command": "true", "args": []}, "it failed"),
    "one that never answers": ({"command": "sleep", "args": ["60"], "timeoutSeconds": 0.5}, "did not answer within"),
    "a variable that is not set": ({"env": ["NOT_SET"]}, "NOT_SET is not set"),
}


@pytest.mark.parametrize(("spec", "said"), NOT_STARTED.values(), ids=NOT_STARTED)
def test_a_server_that_cannot_be_used_says_why(serve: Callable[..., sl.Lab], spec: dict[str, Any], said: str) -> None:
    """In status; threads go on without it, and a thread that names its tools is refused."""
    lab = serve(["done"], **spec)
    assert lab.thread("x").status == "ok"
    assert said in lab.status()["units"][0]["state"]
    with pytest.raises(DispatchError, match="there is no tool 'tickets_look_up'"):
        lab.thread("x", tools=["tickets_look_up"])


@pytest.mark.drill  # starts a server of its own
def test_a_server_whose_tools_have_taken_names_is_refused_whole(serve: Callable[..., sl.Lab], project: Path) -> None:
    """As a unit is: by name of the lab's tools, of built-ins, and of what else was added."""
    (project / "units").mkdir()
    unit = "def register(unit):\n    unit.tool(lambda: 'own', name='tickets_look_up')\n"
    (project / "units" / "mine.py").write_text(unit)
    model = sl.ScriptedModel([call("look_up"), "done"])
    lab = serve(model, units=["mine"])
    assert lab.thread("x").facts[0].text == "own"
    assert lab.status()["units"][1]["state"].startswith("refused whole: tickets_look_up is the name of another tool")
    assert [t.name for t in model.requests[0].tools if t.name.startswith("tickets_")] == ["tickets_look_up"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, "either command or url"),
        ({"command": "a", "url": "http://127.0.0.1:1/mcp"}, "either command or url"),
        ({"url": "http://127.0.0.1:1/mcp", "args": ["x"]}, "belong to command"),
        ({"command": "a", "env": ["K=secret"]}, "mcpServers.s.env"),
        ({"command": "a", "cwd": "/"}, "unknown"),
    ],
)
def test_a_wrong_server_is_a_problem_of_the_configuration(project: Path, spec: dict[str, Any], said: str) -> None:
    """Told when the lab is opened, before anything is started."""
    with pytest.raises(ConfigError, match=said):
        sl.Lab.open(project, store=":memory:", config={"mcpServers": {"s": spec}}, env={})


@pytest.mark.drill  # starts a server of its own
def test_ctrl_c_comes_through_while_a_server_starts_and_nothing_is_left(project: Path) -> None:
    """Also where the server never answers; the next action starts it anew, closing ends all of them."""
    config = {"mcpServers": {"slow": {"command": "sleep", "args": ["61.5"], "timeoutSeconds": 6}}}
    with sl.Lab.open(project, store=":memory:", config=config, models=sl.ScriptedModel(["done"]), trust=True) as lab:
        importlib.import_module("mcp")  # a second of work, which no signal can cut
        threading.Timer(0.8, os.kill, (os.getpid(), signal.SIGINT)).start()
        before = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            lab.thread("x")
        assert time.monotonic() - before < 5
        assert lab.threads() == []
        assert lab.thread("x").code is None
        assert "did not answer within" in lab.status()["units"][0]["state"]
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "sleep 61.5" not in listed


@pytest.mark.drill  # starts a server of its own
def test_a_schema_that_fills_every_prompt_is_refused_whole(serve: Callable[..., sl.Lab]) -> None:
    """The server says so and brings none; threads go on."""
    lab = serve(["done"], args=[SERVER, "large"])
    assert lab.thread("x").status == "ok"
    assert "the schema of large" in lab.status()["units"][0]["state"]

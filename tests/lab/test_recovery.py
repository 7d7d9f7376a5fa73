"""Recovery through the front door: scripted models on exact routes exhaust, refuse and fault; work goes on or stops.

Three logical models of the project: `a` on `one` and `two`, `b` of the same rating on `three`, `c` below on `one`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import slate_lab as sl
from slate_lab.errors import ConfigError, DispatchError, ModelError
from slate_lab.records import Request

ONE, TWO, THREE, LAST = "one/a-1", "two/a-2", "three/b-3", "one/c-1"
OPEN = {"protocol": "chat", "baseUrl": "http://127.0.0.1:9/v1", "maxRetries": 0}
READ = {"tool": "read", "args": {"path": "notes/a.md"}}


def defined(name: str, rating: int, preferred: str, **providers: str) -> dict[str, Any]:
    """A whole definition."""
    return {
        "model": name, "capabilityRating": rating, "effort": "off", "costRating": 10, "preferredProvider": preferred,
        "providers": providers, "guidelines": "Any.", "cautions": "None.",
    }  # fmt: skip


def config(**more: Any) -> dict[str, Any]:
    """The project: three providers, three models, no retries, episodes without a model unless asked for."""
    models = [
        defined("a", 50, "one", one="a-1", two="a-2"),
        defined("b", 50, "three", three="b-3"),
        defined("c", 40, "one", one="c-1"),
    ]
    base = {
        "defaultModel": "a",
        "models": {"include": [], "add": models},
        "providers": {name: dict(OPEN) for name in ("one", "two", "three")},
        "compressor": {"mode": "fixed"},
    }
    for key, value in more.items():
        base[key] = {**base[key], **value} if key in ("providers",) else value  # type: ignore[dict-item]
    return base


def busy(text: str = "HTTP 429") -> ModelError:
    """What asking again might cure, were there retries left."""
    return ModelError("retry-exhausted", text, status=429)


class Script:
    """A model of one route: what it was asked, and what it answers or raises, in turn; the last one stays."""

    def __init__(self, *items: Any) -> None:
        self.items = list(items)
        self.model = sl.ScriptedModel(self._answer)

    def _answer(self, request: Request) -> Any:
        item = self.items.pop(0) if len(self.items) > 1 else self.items[0]
        if isinstance(item, BaseException):
            raise item
        return item

    @property
    def asked(self) -> int:
        """How often it was asked."""
        return len(self.model.requests)


Open = Callable[..., sl.Lab]


@pytest.fixture
def open_routes(project: Path) -> Iterator[Open]:
    """Opens labs on scripted routes that are closed at the end."""
    opened: list[sl.Lab] = []

    def open_one(routes: dict[str, Script], *, env: dict[str, str] | None = None, **more: Any) -> sl.Lab:
        models = {route: script.model for route, script in routes.items()}
        lab = sl.Lab.open(project, store=":memory:", config=config(**more), models=models, env=env or {})
        opened.append(lab)
        return lab

    yield open_one
    for lab in opened:
        lab.close()


def kinds(lab: sl.Lab, prefix: str) -> list[str]:
    """The kinds of the events that begin with `prefix`."""
    return [e.kind for e in lab.events() if e.kind.startswith(prefix)]


def test_an_exhausted_route_hands_on_to_the_other_provider(open_routes: Open) -> None:
    """The same logical model's other provider answers; requested and ran route, the hop and its cause are kept."""
    one, two = Script(busy()), Script("done")
    lab = open_routes({ONE: one, TWO: two})
    episode = lab.thread("x", type="query")
    assert episode.status == "ok"
    assert (episode.requested_route, episode.ran_route) == (ONE, TWO)
    (hop,) = episode.hops
    assert (hop.kind, hop.n, hop.from_route, hop.to_route, hop.to_logical) == ("worker", 1, ONE, TWO, "a")
    assert "HTTP 429 (after 1 attempt)" in hop.cause
    thread = lab.threads()[0]
    assert (thread.requested_route, thread.ran_route, thread.hops) == (ONE, TWO, episode.hops)
    assert kinds(lab, "route") == ["route.hop"]
    assert lab.store.episodes.get(episode.id).hops == episode.hops  # type: ignore[union-attr]


def test_every_hop_is_a_row_with_its_cause_in_the_frames(open_routes: Open) -> None:
    """Calls and attempts carry hop and cause; failed spend is counted on the route where it was made."""
    lab = open_routes({ONE: Script(busy()), TWO: Script(busy("HTTP 503")), THREE: Script("done")})
    lab.thread("x", type="query")
    calls = lab.frames.calls()
    assert calls[["route", "hop", "outcome"]].values.tolist() == [
        [ONE, 0, "retry-exhausted"], [TWO, 1, "retry-exhausted"], [THREE, 2, "ok"],
    ]  # fmt: skip
    assert calls["cause"].isna().tolist() == [True, False, False]
    assert "HTTP 503" in calls["cause"][2]
    attempts = lab.frames.attempts()
    assert attempts[["route", "hop"]].values.tolist() == [[ONE, 0], [TWO, 1], [THREE, 2]]
    threads = lab.frames.threads()
    assert threads[["route", "ran_route", "hops"]].values.tolist() == [[ONE, THREE, 2]]


def test_a_completed_tool_call_never_runs_again(open_routes: Open) -> None:
    """The route dies between two turns: the next one is given the same messages, tool result included."""
    one, two = Script(READ, busy()), Script("it is 7.5 %")
    lab = open_routes({ONE: one, TWO: two})
    episode = lab.thread("x", type="researcher")
    assert episode.status == "ok"
    assert [f.tool for f in episode.facts if f.kind == "tool"] == ["read"]
    died, went_on = one.model.requests[-1], two.model.requests[0]
    assert died.messages == went_on.messages
    assert [m.role for m in went_on.messages].count("tool") == 1


def test_work_stays_on_the_route_that_answered(open_routes: Open) -> None:
    """After a hop the following turns are asked on the new route, without trying the dead one each time."""
    one, two = Script(busy()), Script(READ, "done")
    lab = open_routes({ONE: one, TWO: two})
    lab.thread("x", type="researcher")
    assert (one.asked, two.asked) == (1, 2)


@pytest.mark.parametrize(
    "error",
    [
        ModelError("auth", "the key is refused", status=401),
        ModelError("billing", "no credit", status=402),
        ModelError("context-overflow", "too long", status=400),
        ModelError("bad-request", "no", status=400),
        ModelError("bad-reply", "half a stream"),
        KeyError("a fault of the model's own"),
    ],
    ids=["auth", "billing", "context overflow", "bad request", "bad reply", "a foreign exception"],
)
def test_what_refuses_or_faults_stops(open_routes: Open, error: Exception) -> None:
    """Nothing but proved exhaustion goes on: the action fails with its own code and no other route is asked."""
    two = Script("done")
    lab = open_routes({ONE: Script(error), TWO: two, THREE: two})
    episode = lab.thread("x", type="query")
    assert (episode.status, two.asked, episode.hops) == ("failed", 0, ())
    kind = error.kind if isinstance(error, ModelError) else "bad-reply"
    assert episode.code == f"model_{kind.replace('-', '_')}"


def test_each_route_is_asked_once_in_an_operation(open_routes: Open) -> None:
    """All four routes are exhausted: each was asked once, in order, and the error says so."""
    scripts = {route: Script(busy(route)) for route in (ONE, TWO, THREE, LAST)}
    lab = open_routes(scripts)
    episode = lab.thread("x", type="query")
    assert (episode.status, episode.code) == ("failed", "model_retry_exhausted")
    assert "4 routes were asked" in (episode.detail or "")
    assert [f"{c.provider}/{c.model}" for c in lab.calls()] == [ONE, TWO, THREE, LAST]
    assert [hop.to_route for hop in episode.hops] == [TWO, THREE, LAST]
    assert kinds(lab, "route") == [*["route.hop"] * 3, "route.stopped"]


def test_a_route_without_credentials_is_skipped(open_routes: Open) -> None:
    """A provider whose key is not set is passed over with an event that names the variable, never a value."""
    keyed = {"two": {**OPEN, "apiKeyEnv": "TWO_API_KEY"}}
    lab = open_routes({ONE: Script(busy()), THREE: Script("done")}, providers=keyed)
    episode = lab.thread("x", type="query")
    assert episode.ran_route == THREE
    (skipped,) = [e for e in lab.events() if e.kind == "route.skipped"]
    assert (skipped.data["code"], skipped.data["route"]) == ("missing_key", TWO)
    assert "TWO_API_KEY" in skipped.data["why"]


def test_an_unsupported_effort_stops(open_routes: Open) -> None:
    """The next model in order asks for an effort that its route does not know: recovery stops and says where."""
    loud = defined("b", 50, "three", three="b-3") | {"effort": "high"}
    models = {"include": [], "add": [defined("a", 50, "one", one="a-1"), loud, defined("c", 40, "one", one="c-1")]}
    last = Script("done")
    lab = open_routes({ONE: Script(busy()), THREE: Script("done"), LAST: last}, models=models)
    episode = lab.thread("x", type="query")
    assert (episode.status, episode.code, last.asked) == ("failed", "model_retry_exhausted", 0)
    assert f"recovery stopped at {THREE}" in (episode.detail or "")
    assert [e.data["code"] for e in lab.events() if e.kind == "route.stopped"] == ["effort_unsupported"]


@pytest.mark.parametrize(
    ("route", "code"),
    [({"window": 64}, "window"), ({"tools": False}, "no_tools")],
    ids=["the conversation does not fit its window", "it cannot call the tools that are offered"],
)
def test_a_route_that_cannot_take_the_conversation_is_skipped(
    open_routes: Open, route: dict[str, Any], code: str
) -> None:
    """The next route is checked before it is asked; the one behind it answers."""
    small = {"two": {**OPEN, "models": {"a-2": route}}}
    two = Script("done")
    lab = open_routes({ONE: Script(busy()), TWO: two, THREE: Script("done")}, providers=small)
    episode = lab.thread("what stands in the notes?", type="researcher")
    assert (episode.ran_route, two.asked) == (THREE, 0)
    assert [e.data["code"] for e in lab.events() if e.kind == "route.skipped"] == [code]


def test_a_success_is_remembered_for_the_next_action(open_routes: Open) -> None:
    """The provider that answered is asked first from now on, shown with the pool; a failure teaches nothing."""
    one, two = Script(busy()), Script("done", "again", ModelError("auth", "no"), "x")
    lab = open_routes({ONE: one, TWO: two})
    assert lab.thread("x", type="query").requested_route == ONE
    assert lab.thread("y", type="query").requested_route == TWO
    assert one.asked == 1
    assert [r["provider"] for r in lab.models() if r["remembered"]] == ["two"]
    assert lab.thread("z", type="query").status == "failed"
    assert lab.store.preferences.providers() == {"a": "two"}


def test_a_cancelled_action_goes_nowhere(project: Path) -> None:
    """Cancelling while a route is asked ends the action; nothing is asked elsewhere."""
    hang, two = sl.ScriptedModel(["late"], delay_s=60), Script("done")
    models = {ONE: hang, TWO: two.model}
    with sl.Lab.open(project, store=":memory:", config=config(), models=models, env={}) as lab:
        handle = lab.dispatch("x", type="query")
        while not hang.requests:
            time.sleep(0.01)
        handle.cancel()
        with pytest.raises(DispatchError):
            handle.result(10)
    assert two.asked == 0


COMPRESSED = json.dumps({"intent": "i", "actions_taken": ["looked"], "key_findings": [], "open_issues": [],
                         "handoff_notes": "go on"})  # fmt: skip


def test_the_compressor_has_its_own_list_and_goes_forward(open_routes: Open) -> None:
    """The first entry is exhausted on both routes, the second writes the episode, and later actions start with it."""
    one, two, three = Script("worked", busy(), "worked"), Script(busy("HTTP 503")), Script(COMPRESSED)
    lab = open_routes({ONE: one, TWO: two, THREE: three}, compressor={"models": ["a", "b"]})
    episode = lab.thread("x", type="query")
    assert (episode.status, episode.compression) == ("ok", "compressed")
    assert episode.ran_route == ONE
    assert [(h.kind, h.from_route, h.to_route) for h in episode.hops] == [
        ("compressor", ONE, TWO), ("compressor", TWO, THREE),
    ]  # fmt: skip
    rows = [(c.kind, f"{c.provider}/{c.model}", c.hop, c.outcome) for c in lab.calls()]
    assert rows == [
        ("worker", ONE, 0, "ok"),
        ("compressor", ONE, 0, "retry-exhausted"),
        ("compressor", TWO, 1, "retry-exhausted"),
        ("compressor", THREE, 2, "ok"),
    ]
    assert lab.thread("y", type="query").compression == "compressed"
    assert [c.model for c in lab.calls()[4:]] == ["a-1", "b-3"]


def test_a_compressor_that_refuses_is_not_replaced(open_routes: Open) -> None:
    """A refusal is no exhaustion: the work stands, its episode is the worker's own words."""
    three = Script(COMPRESSED)
    refused = ModelError("billing", "no credit")
    lab = open_routes({ONE: Script("worked", refused), TWO: three, THREE: three}, compressor={"models": ["a", "b"]})
    episode = lab.thread("x", type="query")
    assert (episode.status, episode.compression, three.asked) == ("ok", "uncompressed", 0)
    assert "no credit" in (episode.notice or "")


def test_exhausted_compressors_leave_the_work_standing(open_routes: Open) -> None:
    """Every entry is exhausted: a success in the worker's own words, with a notice."""
    lab = open_routes({ONE: Script("worked", busy()), TWO: Script(busy())}, compressor={"models": ["a"]})
    episode = lab.thread("x", type="query")
    assert (episode.status, episode.compression) == ("ok", "uncompressed")
    assert [h.to_route for h in episode.hops] == [TWO]


def test_a_model_on_a_route_that_nobody_permits_is_refused(project: Path) -> None:
    """A double for a route stands only where a logical model permits the route; near ones are named."""
    with pytest.raises(ConfigError, match=r"did you mean one/a-1") as caught:
        sl.Lab.open(project, store=":memory:", config=config(), models={"one/a-9": sl.ScriptedModel(["x"])}, env={})
    assert caught.value.problems[0].code == "unknown_route"

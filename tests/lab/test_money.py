"""Caps in dollars through the front door: they hold however many threads, kernels and crashes there are."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import slate_lab as sl
from slate_lab.errors import DispatchError
from slate_lab.records import Reply, Request, ToolCall, Usage

ROUTE = "shop/m"


def config(*, price: int = 1, output: int = 1, most: int = 100, **limits: Any) -> dict[str, Any]:
    """One priced route; `most` tokens of an answer; the limits given as dollars by scope."""
    shop = {
        "protocol": "chat",
        "baseUrl": "http://127.0.0.1:9/v1",
        "maxRetries": 0,
        "models": {"m": {"window": 100_000, "maxOutput": most, "price": {"input": price, "output": output}}},
    }
    mine = {
        "model": "mine", "capabilityRating": 50, "effort": "off", "costRating": 10, "preferredProvider": "shop",
        "providers": {"shop": "m"}, "guidelines": "Any.", "cautions": "None.",
    }  # fmt: skip
    return {
        "defaultModel": "mine",
        "models": {"include": [], "add": [mine]},
        "providers": {"shop": shop},
        "compressor": {"mode": "fixed"},
        "limits": {scope: {"usd": Decimal(usd)} for scope, usd in limits.items()},
        "maxConcurrent": 64,
    }


@contextmanager
def opened(root: Path, answer: Any, /, *, store: Any = ":memory:", **more: Any) -> Iterator[sl.Lab]:
    """A lab on the priced route."""
    model = sl.ScriptedModel(answer)
    with sl.Lab.open(root, store=store, config=config(**more), models={ROUTE: model}, env={}) as lab:
        yield lab


@pytest.mark.parametrize("scope", ["session", "day", "project"])
def test_a_fan_out_cannot_overshoot(project: Path, scope: str) -> None:
    """Actions that each may use 0.10 are admitted until the cap is set aside; the next is refused with the figures."""
    held = threading.Event()

    async def answer(request: Request) -> str:
        while not held.is_set():
            await asyncio.sleep(0.005)
        return "done"

    with opened(project, answer, **{scope: "0.35"}) as lab:
        waiting = [lab.dispatch("x", type="query", limits={"usd": Decimal("0.10")}) for _ in range(3)]
        with pytest.raises(DispatchError, match=rf"limits\.{scope}\.usd=0\.35: .* this action may use 0\.1") as caught:
            lab.dispatch("x", type="query", limits={"usd": Decimal("0.10")})
        assert caught.value.codes == ("over_budget",)
        assert len(lab.threads()) == 3
        held.set()
        for handle in waiting:
            assert handle.result(10).status == "ok"
        assert lab.store.reserves.others(None) == 0
        assert lab.thread("again", type="query", limits={"usd": Decimal("0.10")}).status == "ok"


def test_an_action_without_a_limit_sets_its_first_call_aside(project: Path) -> None:
    """It is refused when not even that is left, and nothing of it is stored."""
    with opened(project, ["done"], session="0.0001", price=10, output=10) as lab:
        with pytest.raises(DispatchError, match="its first call may cost") as caught:
            lab.dispatch("x" * 400, type="query")
        assert caught.value.code == "over_budget"
        assert lab.threads() == []


def test_a_batch_is_admitted_whole_or_not_at_all(project: Path) -> None:
    """Three actions of 0.10 under a cap of 0.25: none is stored, nothing stays set aside."""
    with opened(project, ["done"], project="0.25") as lab:
        actions = [sl.Action(task="x", type="query", limits=sl.Limits(usd=Decimal("0.10"))) for _ in range(3)]
        with pytest.raises(DispatchError) as caught:
            lab.batch(actions)
        assert caught.value.code == "over_budget"
        assert (lab.threads(), lab.store.reserves.others(None)) == ([], 0)


def test_parallel_threads_never_exceed_the_cap(project: Path) -> None:
    """Twenty threads that would each spend 30 times what is left for them: the sum of all calls stays under the cap."""

    async def answer(request: Request) -> Any:
        await asyncio.sleep(0.001)
        assert request.max_output_tokens is not None
        used = Usage(input_fresh=10, output=request.max_output_tokens)
        return Reply(text="", calls=(ToolCall(id="c", name="read", arguments={"path": f"{time.time_ns()}"}),),
                     finish="tool_calls", usage=used)  # fmt: skip

    with opened(project, answer, session="0.10", most=4_000) as lab:
        handles = [lab.dispatch(f"n{i}", type="researcher") for i in range(20)]
        codes = {handle.result(60).code for handle in handles}
        spent = lab.store.calls.spent_nusd()
    assert codes == {"limit_session_usd"}
    assert 0.05 < spent / 1e9 <= 0.10


def test_a_call_is_stopped_before_it_would_pass_the_limit_of_its_action(project: Path) -> None:
    """0.002 is left of 0.01 and the next call may cost more: it does not go out, and the code names the limit."""
    calls = [Reply(text="", calls=(ToolCall(id=f"c{i}", name="ls", arguments={"path": "."}),), finish="tool_calls",
                   usage=Usage(input_fresh=8_000, output=1)) for i in range(3)]  # fmt: skip
    with opened(project, calls, most=4_000) as lab:
        episode = lab.thread("x", type="researcher", limits={"usd": Decimal("0.010")})
        assert (episode.status, episode.code) == ("failed", "limit_usd")
        assert "leaves too little for the next call: 0.008001 used" in (episode.detail or "")
        assert len(lab.calls()) == 1


def test_a_long_answer_is_cut_to_what_can_be_paid(project: Path) -> None:
    """A model of 128,000 tokens an answer is not refused under a small cap: it is asked for as much as is paid for."""
    asked: list[int | None] = []

    def answer(request: Request) -> Any:
        asked.append(request.max_output_tokens)
        return "done"

    with opened(project, answer, session="0.02", most=40_000) as lab:
        assert lab.thread("x", type="query").status == "ok"
    assert asked[0] is not None
    assert 1_024 <= asked[0] < 5_000


@pytest.mark.parametrize("how", ["ok", "error", "cancel"])
def test_what_was_set_aside_is_released_on_every_path(project: Path, how: str) -> None:
    """Success, failure and cancellation leave nothing set aside, while the work runs there is something."""
    seen: list[int] = []
    box: list[sl.Lab] = []

    async def answer(request: Request) -> Any:
        seen.append(box[0].store.reserves.others(None))
        if how == "cancel":
            await asyncio.sleep(60)
        if how == "error":
            raise KeyError("x")
        return "done"

    with opened(project, answer, project="1") as lab:
        box.append(lab)
        handle = lab.dispatch("x", type="query")
        while not seen:
            time.sleep(0.01)
        if how == "cancel":
            handle.cancel()
        lab.wait(10)
        assert seen[0] > 0
        assert lab.store.reserves.others(None) == 0


def test_a_block_of_limits_sets_aside_too(project: Path) -> None:
    """Ten threads in one block of 0.02 dollars never spend more than it together."""

    async def answer(request: Request) -> Any:
        await asyncio.sleep(0.001)
        return Reply(text="done", usage=Usage(input_fresh=10, output=request.max_output_tokens))

    with opened(project, answer, most=4_000) as lab:
        with sl.limit(usd=Decimal("0.02")):
            handles = [lab.dispatch(f"n{i}", type="query") for i in range(10)]
        codes = {handle.result(30).code for handle in handles}
        assert codes <= {None, "limit_usd"}
        assert lab.store.calls.spent_nusd() / 1e9 <= 0.02


def test_two_kernels_share_the_cap_of_the_project_but_not_of_the_session(project: Path) -> None:
    """What another open lab has set aside counts for project and day; its session's cap is its own."""
    store = project / "s.db"

    async def slow(request: Request) -> Any:
        await asyncio.sleep(60)
        return "done"

    ask = {"type": "query", "limits": {"usd": Decimal("0.6")}}
    with opened(project, slow, store=store, project="1") as one, opened(project, slow, store=store, project="1") as two:
        one.dispatch("x", **ask)
        with pytest.raises(DispatchError, match=r"0\.6 set aside for threads that live"):
            two.dispatch("x", **ask)
        one.cancel(compress=False)
    with opened(project, slow, store=store, session="1") as one, opened(project, slow, store=store, session="1") as two:
        for lab in (one, two):
            lab.dispatch("x", **ask)
            lab.cancel(compress=False)


def test_what_a_killed_kernel_had_set_aside_is_free_again(project: Path) -> None:
    """A process dies with money set aside: the next refusal looks for the dead and goes on without a new opening."""
    store = project / "s.db"
    code = """
        import os, sys, asyncio
        from pathlib import Path
        sys.path.insert(0, sys.argv[2])
        from test_money import opened
        from decimal import Decimal
        async def slow(request):
            await asyncio.sleep(60)
        with opened(Path(sys.argv[1]), slow, store=sys.argv[1] + "/s.db", project="1") as lab:
            lab.dispatch("x", type="query", limits={"usd": Decimal("0.6")})
            print("set aside", flush=True)
            sys.stdin.readline()
            os.kill(os.getpid(), 9)
    """
    here = str(Path(__file__).parent)
    with opened(project, ["done"], store=store, project="1") as lab:
        other = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), str(project), here],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
        assert other.stdout is not None
        assert other.stdout.readline() == "set aside\n"
        with pytest.raises(DispatchError, match="set aside"):
            lab.dispatch("x", type="query", limits={"usd": Decimal("0.6")})
        other.communicate("\n", timeout=30)
        assert lab.thread("x", type="query", limits={"usd": Decimal("0.6")}).status == "ok"


def test_what_runs_here_is_never_refused_at_the_door(project: Path) -> None:
    """A free route sets nothing aside, whatever is left."""
    with sl.Lab.open(
        project, store=":memory:", models=sl.ScriptedModel(["done"]), env={},
        config={"limits": {"session": {"usd": Decimal("0.000001")}}, "compressor": {"mode": "fixed"}},
    ) as lab:  # fmt: skip
        assert lab.thread("x", type="query", limits={"usd": 5}).status == "ok"

"""The gate: retries, deadline, cap, and a row for every exchange."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from slate_lab.errors import LimitExceeded, ModelError
from slate_lab.models.faults import Fault
from slate_lab.models.gate import Gate
from slate_lab.models.prices import PriceBook, Rates, Seller
from slate_lab.models.retry import RetrySpec
from slate_lab.models.scripted import ScriptedModel
from slate_lab.records import Attempt, Message, Reply, Request, Route, ToolCall, Usage

ASK = Request(messages=(Message(role="user", text="hello"),))
ROUTE = Route("scripted", "one")


class Clock:
    """A clock that moves when it is told, and while something sleeps on it."""

    def __init__(self) -> None:
        self.now = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z
        self.slept: list[float] = []

    def __call__(self) -> int:
        """The time in nanoseconds."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Move on by `seconds` at once."""
        self.slept.append(seconds)
        self.now += int(seconds * 1e9)


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


@pytest.fixture
def gate(clock: Clock) -> Gate:
    """A gate whose jitter is always the most."""
    prices = PriceBook({"shop": Seller(rates={"m": Rates(input=1, output=2)})})  # type: ignore[arg-type]
    return Gate(prices, clock=clock, sleep=clock.sleep, random=lambda: 1.0)


def busy(after: float | None = None, status: int = 429) -> Fault:
    """A passing fault."""
    return Fault("retry-exhausted", f"HTTP {status}", transient=True, status=status, retry_after_s=after)


async def test_an_answer_is_one_row(gate: Gate) -> None:
    """An answer at the first try: one row, `ok`, cost 0 for a scripted route."""
    trail: list[Attempt] = []
    reply = await gate.ask(ScriptedModel(["hi"]), ROUTE, ASK, trail=trail)
    assert reply.text == "hi"
    assert [(a.n, a.outcome, a.cost.nusd, a.cost.price) for a in trail] == [(1, "ok", 0, "scripted")]
    assert trail[0].usage == reply.usage
    assert trail[0].first_token_ns is not None


async def test_passing_faults_are_asked_again_with_doubling_waits(gate: Gate, clock: Clock) -> None:
    """Two faults, then the answer: three rows, waits that double, the wait in the row of the exchange it preceded."""
    trail: list[Attempt] = []
    await gate.ask(ScriptedModel([busy(), busy(status=503), "hi"]), ROUTE, ASK, trail=trail)
    assert clock.slept == [0.5, 1.0]
    assert [(a.n, a.outcome, a.status, a.waited_s) for a in trail] == [
        (1, "transient", 429, 0.0),
        (2, "transient", 503, 0.5),
        (3, "ok", None, 1.0),
    ]


async def test_the_provider_says_when(gate: Gate, clock: Clock) -> None:
    """A wait the provider asks for replaces the back-off."""
    await gate.ask(ScriptedModel([busy(7.5), "hi"]), ROUTE, ASK, trail=[])
    assert clock.slept == [7.5]


async def test_too_long_a_wait_ends_the_call_with_the_time_to_come_back(gate: Gate, clock: Clock) -> None:
    """A wait over maxWaitSeconds is not slept: the error has status, seconds, and the clock time to come back."""
    with pytest.raises(ModelError, match="come back at 2026-01-01 00:05:00 UTC") as caught:
        await gate.ask(ScriptedModel([busy(300), "hi"]), ROUTE, ASK, trail=[])
    assert (caught.value.kind, caught.value.status, caught.value.retry_after_s) == ("retry-exhausted", 429, 300)
    assert clock.slept == []


async def test_retries_end(gate: Gate) -> None:
    """After the last retry the error is `retry-exhausted`, says how often it was tried, and every try has its row."""
    trail: list[Attempt] = []
    model = ScriptedModel([busy()] * 9)
    with pytest.raises(ModelError, match=r"HTTP 429 \(after 3 attempts\)") as caught:
        await gate.ask(model, ROUTE, ASK, trail=trail, retry=RetrySpec(max_retries=2))
    assert caught.value.kind == "retry-exhausted"
    assert len(trail) == 3 == len(model.requests)


@pytest.mark.parametrize("kind", ["auth", "billing", "context-overflow", "bad-request", "bad-reply", "replay-miss"])
async def test_terminal_kinds_are_not_asked_again(gate: Gate, kind: str) -> None:
    """What asking again cannot cure ends the call at once."""
    trail: list[Attempt] = []
    with pytest.raises(ModelError) as caught:
        await gate.ask(ScriptedModel([ModelError(kind, "no"), "hi"]), ROUTE, ASK, trail=trail)  # type: ignore[arg-type]
    assert caught.value.kind == kind
    assert [a.outcome for a in trail] == [kind]


class Breaks:
    """Streams a piece and then breaks, once."""

    def __init__(self) -> None:
        self.capabilities = ScriptedModel().capabilities
        self.asked = 0

    async def reply(self, request: Request, *, on_delta=None) -> Reply:
        """Break at first, answer then."""
        self.asked += 1
        if on_delta and self.asked == 1:
            on_delta("half ")
        if self.asked == 1:
            raise Fault("bad-reply", "the stream broke off", transient=True)
        return Reply(text="whole", usage=Usage(input_fresh=10, output=5))

    async def aclose(self) -> None:
        """Nothing to release."""


async def test_a_broken_stream_is_asked_again_only_if_nothing_was_delivered(gate: Gate) -> None:
    """With text already given to the caller the call ends as `bad-reply`; without, it is asked again."""
    model = Breaks()
    with pytest.raises(ModelError, match="part of the answer was delivered") as caught:
        await gate.ask(model, ROUTE, ASK, trail=[], on_delta=lambda piece: None)
    assert caught.value.kind == "bad-reply"
    assert model.asked == 1
    assert (await gate.ask(Breaks(), ROUTE, ASK, trail=[])).text == "whole"


async def test_what_a_broken_answer_used_is_counted_and_called_an_estimate(gate: Gate) -> None:
    """Text that arrived before a break is spent: tokens are counted by the lab, the cost says that it is estimated."""
    trail: list[Attempt] = []
    await gate.ask(Breaks(), Route("shop", "m"), ASK, trail=trail)
    broken, whole = trail
    assert broken.raw_usage is not None
    assert broken.raw_usage["estimated_by"] == "slate_lab"
    assert broken.cost.price == "config, estimated tokens"
    assert broken.cost.nusd == broken.usage.input_fresh * 1000 + broken.usage.output * 2000  # type: ignore[operator]
    assert (whole.cost.nusd, whole.cost.price) == (20_000, "config")


async def test_a_refused_request_costs_nothing(gate: Gate) -> None:
    """An exchange that ended with an HTTP error is not billed: 0, not unknown."""
    trail: list[Attempt] = []
    with pytest.raises(ModelError):
        await gate.ask(ScriptedModel([Fault("auth", "no", status=401)]), Route("shop", "m"), ASK, trail=trail)
    assert trail[0].cost.nusd == 0


async def test_cancelling_writes_a_row(gate: Gate) -> None:
    """A cancelled exchange has a row that says so, and the cancellation goes on to the caller."""
    trail: list[Attempt] = []
    task = asyncio.create_task(gate.ask(ScriptedModel(["hi"], delay_s=60), ROUTE, ASK, trail=trail))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [a.outcome for a in trail] == ["cancelled"]


async def test_the_deadline_holds_for_the_exchange() -> None:
    """A request that has no answer at its deadline is a `timeout`, and is not asked again."""
    trail: list[Attempt] = []
    late = Request(messages=ASK.messages, deadline_s=0.05)
    with pytest.raises(ModelError, match=r"within the deadline of 0\.05 s") as caught:
        await Gate().ask(ScriptedModel(["hi"], delay_s=60), ROUTE, late, trail=trail)
    assert caught.value.kind == "timeout"
    assert [a.outcome for a in trail] == ["timeout"]


async def test_the_deadline_holds_for_the_waits(gate: Gate, clock: Clock) -> None:
    """A wait that would pass the deadline is not slept."""
    late = Request(messages=ASK.messages, deadline_s=3)
    with pytest.raises(ModelError, match=r"the deadline ends in 3\.0 s"):
        await gate.ask(ScriptedModel([busy(10), "hi"]), ROUTE, late, trail=[])
    assert clock.slept == []


async def test_a_cap_per_route() -> None:
    """No more exchanges of one route at once than its cap; another route is not held up."""
    gate, at_once, most = Gate(), 0, 0

    async def count(request: Request) -> str:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.005)
        at_once -= 1
        return "x"

    capped = RetrySpec(max_concurrent=2)
    model = ScriptedModel(count)
    await asyncio.gather(*(gate.ask(model, ROUTE, ASK, trail=[], retry=capped) for _ in range(8)))
    assert most == 2
    most = 0
    other = Route("scripted", "two")
    await asyncio.gather(*(gate.ask(model, r, ASK, trail=[], retry=capped) for r in (ROUTE, other) * 4))
    assert most == 4


async def test_the_deadline_holds_for_the_cap() -> None:
    """A request that gets no place on its route before its deadline is a `timeout`; it was never sent."""
    gate, capped, trail = Gate(), RetrySpec(max_concurrent=1), []
    slow, late = ScriptedModel(["x"], delay_s=60), Request(messages=ASK.messages, deadline_s=0.05)
    first = asyncio.create_task(gate.ask(slow, ROUTE, ASK, trail=[], retry=capped))
    await asyncio.sleep(0)
    with pytest.raises(ModelError, match="all 1 places were taken") as caught:
        await gate.ask(ScriptedModel(["hi"]), ROUTE, late, trail=trail, retry=capped)
    assert caught.value.kind == "timeout"
    assert trail == []
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert (await gate.ask(ScriptedModel(["hi"]), ROUTE, ASK, trail=[], retry=capped)).text == "hi"


async def test_a_model_carries_its_own_rules(gate: Gate) -> None:
    """Without rules from the caller the gate follows the model's."""
    model = ScriptedModel([busy(), "hi"])
    model.retry = RetrySpec(max_retries=0)  # type: ignore[attr-defined]
    with pytest.raises(ModelError, match="after 1 attempt"):
        await gate.ask(model, ROUTE, ASK, trail=[])


async def test_a_recorded_answer_costs_nothing_and_says_what_it_was(gate: Gate) -> None:
    """A replayed answer has cost 0, and the cost it had beside it."""
    trail: list[Attempt] = []
    reply = Reply(text="x", usage=Usage(input_fresh=10, output=5), recorded=True)
    await gate.ask(ScriptedModel([reply]), Route("shop", "m"), ASK, trail=trail)
    assert trail[0].recorded
    assert (trail[0].cost.nusd, trail[0].cost.price) == (0, "replay")
    assert trail[0].recorded_cost is not None
    assert trail[0].recorded_cost.nusd == 20_000


class Own:
    """A model written by a user: one function."""

    def __init__(self, act: Callable[..., Awaitable[Reply]]) -> None:
        self.capabilities = ScriptedModel().capabilities
        self.asked = 0
        self._act = act

    async def reply(self, request: Request, *, on_delta=None) -> Reply:
        """Do what the test says."""
        self.asked += 1
        return await self._act(on_delta)

    async def aclose(self) -> None:
        """Nothing to release."""


class Unspeakable(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        """Fail."""
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        pytest.param(ValueError("out of\nideas"), "ValueError: out of ideas", id="value"),
        pytest.param(TimeoutError("mine"), "TimeoutError: mine", id="timeout-of-its-own"),
        pytest.param(KeyError("k"), "KeyError: 'k'", id="key"),
        pytest.param(RuntimeError(), "RuntimeError", id="no-text"),
        pytest.param(OSError("key=sk-planted-0123456789"), r"OSError: key=\[hidden\]", id="secret"),
        pytest.param(Unspeakable(), "Unspeakable", id="no-words"),
        pytest.param(ExceptionGroup("two", [ValueError("a")]), "ExceptionGroup: two", id="group"),
    ],
)
@pytest.mark.parametrize("own", [False, True], ids=["scripted", "own-model"])
async def test_an_exception_of_a_model_is_a_bad_reply(gate: Gate, error: Exception, says: str, own: bool) -> None:
    """What a script function or a user's model raises ends the call as `bad-reply`: type and text said, the exception
    as the cause, not asked again, one row.
    """

    async def act(_: object) -> Reply:
        raise error

    def script(_: Request) -> str:
        raise error

    trail: list[Attempt] = []
    with pytest.raises(ModelError, match=f"scripted/one: the model raised .*{says}") as caught:
        await gate.ask(Own(act) if own else ScriptedModel(script), ROUTE, ASK, trail=trail)
    assert caught.value.kind == "bad-reply"
    assert caught.value.__cause__ is error
    assert [(a.outcome, a.error) for a in trail] == [("bad-reply", caught.value.message)]


@pytest.mark.parametrize(
    "error", [LimitExceeded("usd", used=2, limit=1), asyncio.CancelledError()], ids=["error-of-the-lab", "cancelled"]
)
async def test_what_passes_the_gate_as_it_is(gate: Gate, error: BaseException) -> None:
    """Errors of the lab and cancellations keep their type; the exchange has its row."""
    trail: list[Attempt] = []
    with pytest.raises(type(error)):
        await gate.ask(ScriptedModel([error]), ROUTE, ASK, trail=trail)
    assert len(trail) == 1


async def test_a_reply_of_another_type_is_a_bad_reply(gate: Gate) -> None:
    """A model that answers with a text, or streams something else, is told so."""

    async def texts(on_delta: object) -> Reply:
        return "hello"  # type: ignore[return-value]

    async def streams(on_delta: Callable[[object], None]) -> Reply:
        on_delta(5)
        return Reply(text="5")

    for act, says in ((texts, "a Reply, not str"), (streams, "TypeError")):
        trail: list[Attempt] = []
        with pytest.raises(ModelError, match=says) as caught:
            await gate.ask(Own(act), ROUTE, ASK, trail=trail)
        assert (caught.value.kind, len(trail)) == ("bad-reply", 1)


async def test_a_reply_of_the_users_model_is_made_plain(gate: Gate) -> None:
    """Hostile numbers, arguments and texts of any model are fit to be stored, in the reply and in the row."""
    pieces: list[str] = []

    async def act(on_delta: Callable[[str], None]) -> Reply:
        on_delta("a\ud83c")
        call = ToolCall(id="c", name="f", arguments={1: 10**30})  # type: ignore[dict-item]
        usage = Usage(input_fresh=10**30, output=-1)
        return Reply(text="a\ud83c", calls=(call,), usage=usage, raw_usage={"n": 10**30})

    trail: list[Attempt] = []
    reply = await gate.ask(Own(act), Route("own", "x"), ASK, trail=trail, on_delta=pieces.append)
    assert (reply.text, pieces) == ("a\ufffd", ["a\ufffd"])
    assert reply.calls[0].arguments == {"1": "1" + "0" * 30}
    assert trail[0].usage == reply.usage == Usage(flagged=True)
    assert trail[0].raw_usage == {"n": "1" + "0" * 30}
    assert trail[0].cost.nusd is None


async def test_a_fault_of_the_users_model_is_made_plain(gate: Gate) -> None:
    """What a failed exchange reports is fit to be stored too."""
    fault = Fault("auth", "no\ud83c", usage=Usage(output=2**70), raw_usage={"n": 2**70}, response_id="\ud83c")
    trail: list[Attempt] = []
    with pytest.raises(ModelError):
        await gate.ask(ScriptedModel([fault]), ROUTE, ASK, trail=trail)
    assert (trail[0].usage, trail[0].raw_usage) == (Usage(flagged=True), {"n": str(2**70)})
    assert (trail[0].error, trail[0].response_id) == ("no\ufffd", "\ufffd")


async def swallow_and_answer() -> Reply:
    """Go on after a cancellation."""
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        await asyncio.sleep(0.01)
    return Reply(text="late", usage=Usage(input_fresh=7, output=3))


async def swallow_and_fail() -> Reply:
    """Turn a cancellation into a passing fault."""
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        raise busy() from None
    raise AssertionError("not cancelled")


async def swallow_and_break() -> Reply:
    """Turn a cancellation into an exception."""
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        raise ValueError("broken") from None
    raise AssertionError("not cancelled")


@pytest.mark.parametrize("act", [swallow_and_answer, swallow_and_fail, swallow_and_break])
async def test_a_model_that_swallows_the_cancellation_does_not_stop_it(
    gate: Gate, act: Callable[[], Awaitable[Reply]]
) -> None:
    """The caller's cancellation comes out whatever the model makes of it: nothing more is asked, one row `cancelled`,
    with what a late answer used.
    """
    model, trail = Own(lambda _: act()), []
    task = asyncio.create_task(gate.ask(model, ROUTE, ASK, trail=trail))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert model.asked == 1
    assert [a.outcome for a in trail] == ["cancelled"]
    assert trail[0].usage.output == (3 if act is swallow_and_answer else None)


async def test_cleaning_up_after_a_cancellation_may_ask() -> None:
    """A task that was cancelled before and goes on is answered: only a cancellation during the exchange ends it."""

    async def work() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return (await Gate().ask(ScriptedModel(["bye"]), ROUTE, ASK, trail=[])).text
        return "never"

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "bye"

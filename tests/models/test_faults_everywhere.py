"""The fault server, put to every protocol: what is asked again, what it says, and what was billed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from decimal import Decimal

import pytest
from aiohttp import web

from models.faultserver import FaultServer, Handler, document, drop, status, stream, zipped
from models.speech import ALL, MESSAGES, ROUTE, Speech
from slate_lab.errors import ModelError
from slate_lab.models.gate import Gate
from slate_lab.models.prices import PriceBook, Rates, Seller
from slate_lab.models.protocol import Capabilities
from slate_lab.models.retry import RetrySpec
from slate_lab.models.transport import open_transport
from slate_lab.records import Attempt, Message, Reply, Request

pytestmark = [pytest.mark.loopback, pytest.mark.allow_hosts(["127.0.0.1", "::1", "localhost"])]
every = pytest.mark.parametrize("speech", ALL, ids=lambda speech: speech.name)

ASK = Request(messages=(Message(role="user", text="hello"),))
BOOK = PriceBook({"shop": Seller(rates={"m-1": Rates(input=Decimal(1), output=Decimal(10))})})
WHOLE = 10 * 1000 + 2 * 10_000  # nano-dollars of a good answer: 10 tokens in, 2 out


@pytest.fixture
async def server() -> AsyncIterator[FaultServer]:
    """A server whose script the test sets."""
    async with FaultServer(status(500)) as running:
        yield running


async def ask(
    speech: Speech, server: FaultServer, trail: list[Attempt], *, stream: bool = True, timeout_s: float = 5.0
) -> Reply:
    """One call through the gate, waits shortened."""
    model = speech.model(
        ROUTE,
        server.url,
        transport=open_transport(),
        capabilities=Capabilities(),
        retry=RetrySpec(base_s=0.01, max_retries=2),
        timeout_s=timeout_s,
        stream=stream,
    )
    try:
        return await Gate(BOOK).ask(model, ROUTE, ASK, trail=trail)
    finally:
        await model.aclose()


def lying(speech: Speech, length: int) -> Handler:
    """A good answer whose `content-length` is wrong by `length` bytes."""

    async def answer(request: web.Request) -> web.StreamResponse:
        body = b"".join(speech.good())
        assert request.transport is not None
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body) + length}\r\n\r\n"
        request.transport.write(head.encode() + body)  # type: ignore[attr-defined]
        request.transport.close()
        return web.Response()

    return answer


def faults(speech: Speech) -> dict[str, tuple[Handler, str | None]]:
    """Faults that pass: what the server does, and what of it is billed: nothing, an unknown sum, or an estimate."""
    half = [*speech.head, speech.text("hel")]
    return {
        "429": (status(429, retry_after="0"), "nothing"),
        "500": (status(500), "nothing"),
        "529": (status(529, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}), "nothing"),
        "503-as-text": (status(503, "<html><h1>Service unavailable</h1></html>"), "nothing"),
        "dropped-before-the-answer": (drop(), None),
        "reset-in-the-stream": (stream(*half, reset=True), "something"),
        "half-a-stream": (stream(*half), "something"),
        "half-an-event": (stream(*half, speech.text("lo")[:-20]), "something"),
        "error-in-the-stream": (stream(*half, speech.error), "something"),
        "no-body": (stream(), None),
    }


@every
@pytest.mark.parametrize("name", list(faults(MESSAGES)))
async def test_a_fault_that_passes_is_asked_again_and_both_are_billed(
    speech: Speech, name: str, server: FaultServer
) -> None:
    """Two requests, two rows: what the fault cost is 0, more than 0, or unknown, and the answer is billed in full."""
    fault, billed = faults(speech)[name]
    server.script = [fault, stream(*speech.good())]
    trail: list[Attempt] = []
    reply = await ask(speech, server, trail)
    assert (reply.text, reply.finish, len(server.requests)) == ("hello", "stop", 2)
    first, last = trail
    assert first.outcome != "ok"
    assert (last.outcome, last.cost.nusd, last.cost.price) == ("ok", WHOLE, "config")
    if first.cost.price == "counted once":  # a broken answer with the id of the whole one
        assert first.response_id == last.response_id
    elif billed == "nothing":
        assert (first.cost.nusd, first.cost.price) == (0, "no answer")
    elif billed == "something":
        assert first.cost.nusd is not None
        assert first.cost.nusd > 0
    else:
        assert first.cost.nusd is None


@every
@pytest.mark.parametrize(
    "good",
    [
        pytest.param(lambda s: stream(*s.good(), kind="text/plain"), id="wrong-content-type"),
        pytest.param(lambda s: stream(*s.good(), kind="application/json"), id="a-stream-called-json"),
        pytest.param(lambda s: document(s.whole("hello", []), kind="text/event-stream"), id="json-called-a-stream"),
        pytest.param(lambda s: document(s.whole("hello", []), kind="application/octet-stream"), id="no-type-at-all"),
        pytest.param(lambda s: zipped(*s.good()), id="gzip"),
        pytest.param(lambda s: stream(*[bytes([b]) for b in b"".join(s.good())]), id="slow-drip"),
        pytest.param(lambda s: lying(s, 50), id="longer-than-it-is"),
    ],
)
async def test_odd_but_whole_answers_are_read(speech: Speech, good: object, server: FaultServer) -> None:
    """What is whole is read at once, whatever its wrapping says, and billed once."""
    server.script = [good(speech)]  # type: ignore[operator]
    trail: list[Attempt] = []
    assert (await ask(speech, server, trail)).text == "hello"
    assert [(a.outcome, a.cost.nusd) for a in trail] == [("ok", WHOLE)]


@every
async def test_an_answer_cut_short_by_its_length_is_broken(speech: Speech, server: FaultServer) -> None:
    """A `content-length` that ends inside the answer: a fault, asked again, not a shorter answer."""
    server.script = [lying(speech, -len(b"".join(speech.tail("stop"))) - 10), stream(*speech.good())]
    trail: list[Attempt] = []
    assert (await ask(speech, server, trail)).text == "hello"
    assert [a.outcome == "ok" for a in trail] == [False, True]


@every
async def test_a_server_that_never_gets_well(speech: Speech, server: FaultServer) -> None:
    """Three exchanges, three rows, nothing billed, and the error says how often it was asked."""
    trail: list[Attempt] = []
    with pytest.raises(ModelError, match="after 3 attempts") as caught:
        await ask(speech, server, trail)
    assert caught.value.kind == "retry-exhausted"
    assert [(a.status, a.cost.nusd) for a in trail] == [(500, 0)] * 3


@every
async def test_silence_ends_an_answer(speech: Speech, server: FaultServer) -> None:
    """A stream that stops coming is a timeout; what came is billed by the lab's own count or the provider's."""
    server.script = [stream(*speech.head, speech.text("hel"), speech.text("lo"), pause_s=0.9)]
    trail: list[Attempt] = []
    with pytest.raises(ModelError) as caught:
        await ask(speech, server, trail, timeout_s=0.3)
    assert caught.value.kind == "timeout"
    assert len(trail) == 3


@every
async def test_cancelling_closes_the_socket_and_counts_what_was_billed(speech: Speech, server: FaultServer) -> None:
    """The server sees the client go within a second; the row says cancelled and holds a cost."""
    server.script = [stream(*speech.head, *[speech.text(f"word{n} ") for n in range(400)], pause_s=0.02)]
    model = speech.model(ROUTE, server.url, transport=open_transport(), capabilities=Capabilities())
    begun, trail = asyncio.Event(), []  # type: ignore[var-annotated]
    task = asyncio.create_task(Gate(BOOK).ask(model, ROUTE, ASK, trail=trail, on_delta=lambda _piece: begun.set()))
    await asyncio.wait_for(begun.wait(), 5)
    at = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(server.closed.wait(), 1.0)
    assert time.monotonic() - at < 1.0
    assert [a.outcome for a in trail] == ["cancelled"]
    assert trail[0].cost.nusd is not None
    assert trail[0].cost.nusd > 0
    await model.aclose()

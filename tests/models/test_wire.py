"""The chat protocol against a real server that misbehaves."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import time
import warnings
from collections.abc import AsyncIterator

import pytest

from models.faultserver import DONE, GOOD, FaultServer, chunk, document, drop, hang, status, stream, zipped
from slate_lab.errors import ModelError
from slate_lab.models.chat import ChatModel
from slate_lab.models.gate import Gate
from slate_lab.models.protocol import Capabilities
from slate_lab.models.redact import Secret
from slate_lab.models.retry import RetrySpec
from slate_lab.models.transport import open_transport
from slate_lab.records import Attempt, Message, Reply, Request, Route, ToolCall

pytestmark = [pytest.mark.loopback, pytest.mark.allow_hosts(["127.0.0.1", "::1", "localhost"])]

ASK = Request(messages=(Message(role="user", text="hello"),))
ROUTE = Route("shop", "m-1")
KEY = "sk-planted-0123456789abcdef"


def connect(url: str, *, timeout_s: float = 5.0, **options: object) -> ChatModel:
    """A chat model on its own transport."""
    return ChatModel(
        ROUTE,
        url,
        transport=open_transport(),
        capabilities=Capabilities(),
        key=Secret(KEY),
        timeout_s=timeout_s,
        **options,  # type: ignore[arg-type]
    )


async def ask(server: FaultServer, *, trail: list[Attempt] | None = None, **options: object) -> Reply:
    """One call through the gate, waits shortened."""
    model = connect(server.url, **{"retry": RetrySpec(base_s=0.01), **options})
    try:
        return await Gate().ask(model, ROUTE, ASK, trail=[] if trail is None else trail)
    finally:
        await model.aclose()


@pytest.fixture
async def server() -> AsyncIterator[FaultServer]:
    """A server whose script the test sets."""
    async with FaultServer(stream(*GOOD)) as running:
        yield running


async def test_a_good_answer(server: FaultServer) -> None:
    """Text, usage, id, model and finish arrive; the request asks for a stream with usage and carries the key."""
    reply = await ask(server)
    assert (reply.text, reply.finish, reply.response_id, reply.model) == ("hello", "stop", "r1", "m-1")
    assert (reply.usage.input_fresh, reply.usage.output, reply.usage.total_reported) == (10, 2, 12)
    assert reply.first_token_ns is not None
    assert server.requests[0]["stream_options"] == {"include_usage": True}
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


async def test_text_arrives_as_it_is_sent(server: FaultServer) -> None:
    """The first piece is delivered while the server still waits to send the second."""
    server.script = [stream(chunk("one"), chunk("two", finish="stop"), DONE, pause_s=0.15)]
    model, at = connect(server.url), []
    await model.reply(ASK, on_delta=lambda piece: at.append((piece, time.perf_counter())))
    await model.aclose()
    assert [piece for piece, _ in at] == ["one", "two"]
    assert at[1][1] - at[0][1] > 0.1


async def test_connections_are_used_again(server: FaultServer) -> None:
    """Ten answers, one connection: an answer is read to its end."""
    model = connect(server.url)
    for _ in range(10):
        await model.reply(ASK)
    await model.aclose()
    assert len(server.sockets) == 1


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(status(429, retry_after="0"), id="429"),
        pytest.param(status(408), id="408"),
        pytest.param(status(409), id="409"),
        pytest.param(status(500), id="500"),
        pytest.param(status(503, {"error": {"message": "Loading model", "type": "unavailable_error"}}), id="loading"),
        pytest.param(status(529, {"type": "error", "error": {"type": "overloaded_error"}}), id="529"),
        pytest.param(drop(), id="dropped-before-answer"),
        pytest.param(stream(chunk("hel"), reset=True), id="reset-in-stream"),
        pytest.param(stream(chunk("hel")), id="half-stream"),
        pytest.param(stream(chunk("hel"), b'data: {"choices":[{"del'), id="torn-line"),
        pytest.param(stream(b'data: {"error":{"message":"overloaded","code":503}}\n\n'), id="error-in-200"),
        pytest.param(stream(DONE), id="empty-stream"),
        pytest.param(stream(), id="no-body"),
    ],
)
async def test_passing_faults_are_asked_again(server: FaultServer, fault: object) -> None:
    """After one such fault the second exchange answers; both have a row."""
    server.script = [fault, stream(*GOOD)]  # type: ignore[list-item]
    trail: list[Attempt] = []
    assert (await ask(server, trail=trail)).text == "hello"
    assert len(server.requests) == 2
    assert [a.outcome == "ok" for a in trail] == [False, True]


@pytest.mark.parametrize(
    ("fault", "kind", "says"),
    [
        pytest.param(status(401, {"error": {"message": f"Incorrect API key {KEY}"}}), "auth", "HTTP 401", id="401"),
        pytest.param(status(403), "auth", "HTTP 403", id="403"),
        pytest.param(status(402), "billing", "HTTP 402", id="402"),
        pytest.param(
            status(429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}),
            "billing",
            "quota",
            id="no-credit-as-429",
        ),
        pytest.param(status(404, {"detail": "model not found"}), "bad-request", "model not found", id="404"),
        pytest.param(status(422, {"detail": [{"msg": "bad field"}]}), "bad-request", "bad field", id="422"),
        pytest.param(
            status(
                400,
                {
                    "error": {
                        "code": 400,
                        "type": "exceed_context_size_error",
                        "message": "request (4476 tokens) exceeds the available context size (4096 tokens)",
                        "n_prompt_tokens": 4476,
                        "n_ctx": 4096,
                    }
                },
            ),
            "context-overflow",
            r"4476 tokens needed, the window is 4096",
            id="overflow-llamacpp",
        ),
        pytest.param(
            status(
                400,
                {
                    "error": {
                        "code": "context_length_exceeded",
                        "message": "This model's maximum context length is 8192 tokens. However, your messages "
                        "resulted in 9000 tokens.",
                    }
                },
            ),
            "context-overflow",
            r"9000 tokens needed, the window is 8192",
            id="overflow-openai",
        ),
        pytest.param(
            status(500, {"error": {"message": "The model produced output that does not match the expected X format"}}),
            "bad-reply",
            "does not match",
            id="llamacpp-unparsed-output",
        ),
        pytest.param(stream(b"<html><title>Login</title>", kind="text/html"), "bad-reply", "web page", id="html"),
        pytest.param(status(302, location="https://else.where/v1?k=1"), "bad-request", "redirects", id="redirect"),
        pytest.param(document({"hello": 1}), "bad-reply", "no answer", id="other-json"),
    ],
)
async def test_terminal_faults(server: FaultServer, fault: object, kind: str, says: str) -> None:
    """Each is told by its kind, asked once, and its message shows no key."""
    server.script = [fault]  # type: ignore[list-item]
    with pytest.raises(ModelError, match=says) as caught:
        await ask(server)
    assert caught.value.kind == kind
    assert len(server.requests) == 1
    assert KEY not in str(caught.value)


async def test_an_echoed_key_is_not_kept(server: FaultServer) -> None:
    """A provider that echoes the key, in pieces, in calls, in usage or as its own name: what is kept holds none of it.

    Pieces of text are delivered as they come; a header that is no credential is an ordinary word.
    """
    call = {"index": 0, "id": KEY, "function": {"name": KEY, "arguments": f'{{"{KEY}": ["x {KEY}"]}}'}}
    torn = {"index": 1, "id": "b", "function": {"name": "f", "arguments": f"{'x' * 70}{KEY}"}}
    usage = {"prompt_tokens": 1, "note": KEY, KEY: [{"k": KEY}], "team": "cookie-value-1 hunter22"}
    events = [
        {"id": KEY, "model": "m" * 190 + KEY, "choices": [{"delta": {"content": f"your key {KEY[:9]}"}}]},
        {"choices": [{"delta": {"content": f"{KEY[9:]}, slate and cookie-value-1"}}]},
        {"choices": [{"delta": {"tool_calls": [call, torn]}, "finish_reason": "tool_calls"}], "usage": usage},
    ]
    server.script = [stream(*[b"data: " + json.dumps(event).encode() + b"\n\n" for event in events], DONE)]
    headers = {"x-title": Secret("slate"), "x-session-cookie": Secret("cookie-value-1")}
    url = server.url.replace("//", "//user:hunter22@")
    model, pieces = connect(url, headers=headers), []
    trail: list[Attempt] = []
    reply = await Gate().ask(model, ROUTE, ASK, trail=trail, on_delta=pieces.append)
    await model.aclose()
    assert reply.text == "your key [hidden], slate and [hidden]"
    assert "".join(pieces) == f"your key {KEY}, slate and cookie-value-1"
    assert reply.calls[0] == ToolCall(id="[hidden]", name="[hidden]", arguments={"[hidden]": ["x [hidden]"]})
    assert reply.raw_usage is not None
    assert reply.raw_usage["team"] == "[hidden] [hidden]"
    for secret in (KEY[:9], "cookie-value-1", "hunter22"):
        assert secret not in repr((reply, trail))


async def test_a_broken_answer_keeps_no_key(server: FaultServer) -> None:
    """What is kept of an answer that broke off, and its message, hold no key and no half of one."""
    usage = b'data: {"id":"' + KEY.encode() + b'","choices":[],"usage":{"note":"' + KEY.encode() + b'"}}\n\n'
    server.script = [stream(chunk("x"), usage, b"data: {" + KEY.encode() + b"x" * 60 + b"\n\n")]
    trail: list[Attempt] = []
    with pytest.raises(ModelError, match="broke off inside a line") as caught:
        await ask(server, trail=trail, stream=True)
    for half in (KEY, KEY[-9:]):
        assert half not in repr((caught.value, trail))


async def test_the_wait_that_is_asked_for_is_in_the_row(server: FaultServer) -> None:
    """`Retry-After: 0.2` is slept, and stands as waiting time of the second exchange."""
    server.script = [status(429, retry_after="0.2"), stream(*GOOD)]
    trail: list[Attempt] = []
    await ask(server, trail=trail)
    assert trail[0].status == 429
    assert trail[1].waited_s >= 0.2


async def test_a_compressed_answer_is_read(server: FaultServer) -> None:
    """A gzip body is decompressed, whatever the chunks."""
    server.script = [zipped(*GOOD)]
    assert (await ask(server)).text == "hello"


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/octet-stream"])
async def test_the_content_type_may_lie(server: FaultServer, kind: str) -> None:
    """A stream under another type is read as a stream, a document as a document."""
    server.script = [stream(*GOOD, kind=kind)]
    assert (await ask(server)).text == "hello"
    whole = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}}
    server.script = [document(whole, kind)]
    assert (await ask(server)).text == "hi"


async def test_an_answer_that_never_comes_is_a_timeout(server: FaultServer) -> None:
    """Silence longer than the provider's timeout: kind `timeout`, once for every try."""
    server.script = [hang()]
    trail: list[Attempt] = []
    with pytest.raises(ModelError, match=r"did not answer in time .*after 4 attempts") as caught:
        await ask(server, trail=trail, timeout_s=0.05)
    assert caught.value.kind == "timeout"
    assert [a.outcome for a in trail] == ["timeout"] * 4


async def test_an_answer_that_stops_is_a_timeout(server: FaultServer) -> None:
    """Silence in the middle counts too; what was spent until then is estimated."""
    server.script = [stream(chunk("hel"), b": ping\n\n", pause_s=1.0)]
    trail: list[Attempt] = []
    with pytest.raises(ModelError, match="stopped coming"):
        await ask(server, trail=trail, timeout_s=0.4, retry=RetrySpec(max_retries=0))
    assert trail[0].usage.output == 1
    assert trail[0].raw_usage is not None
    assert "estimated_by" in trail[0].raw_usage


async def test_a_refused_connection_is_unreachable() -> None:
    """Nothing listens: kind `unreachable`, not a timeout; the address is named, and it cost nothing."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model = connect(f"http://user:pass@127.0.0.1:{port}/v1?key=abcdefgh")
    trail: list[Attempt] = []
    with pytest.raises(ModelError, match=f"cannot connect to http://127.0.0.1:{port}/v1") as caught:
        await Gate().ask(model, ROUTE, ASK, trail=trail, retry=RetrySpec(max_retries=0))
    await model.aclose()
    assert caught.value.kind == "unreachable"
    assert trail[0].cost.nusd == 0
    assert "pass" not in str(caught.value)
    assert "abcdefgh" not in str(caught.value) + repr(model)


async def test_cancelling_closes_the_socket(server: FaultServer) -> None:
    """The server sees the connection close within a second of the cancellation, and the row says `cancelled`."""
    server.script = [stream(*[chunk("x")] * 500, pause_s=0.02)]
    trail: list[Attempt] = []
    model, first = connect(server.url), asyncio.Event()
    task = asyncio.create_task(Gate().ask(model, ROUTE, ASK, trail=trail, on_delta=lambda piece: first.set()))
    await first.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(1):
        await server.closed.wait()
    await model.aclose()
    assert trail[0].outcome == "cancelled"
    assert trail[0].usage.output


async def test_closing_leaves_nothing_open(server: FaultServer) -> None:
    """After `aclose` no socket, session or connector is left to be collected with a warning."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model = connect(server.url)
        await asyncio.gather(*(model.reply(ASK) for _ in range(5)))
        await model.aclose()
        del model
        gc.collect()
        await asyncio.sleep(0)
    assert [str(w.message) for w in seen if issubclass(w.category, ResourceWarning)] == []


async def test_the_environment_is_left_alone(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy in the environment is not used unless asked for."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert (await ask(server)).text == "hello"
    model = ChatModel(ROUTE, server.url, transport=open_transport(trust_env=True), capabilities=Capabilities())
    with pytest.raises(ModelError) as caught:
        await model.reply(ASK)
    await model.aclose()
    assert caught.value.kind == "unreachable"

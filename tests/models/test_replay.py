"""Record and replay at the level of bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from models.faultserver import DONE, GOOD, FaultServer, chunk, hang, status, stream, zipped
from slate_lab.config import ReplaySpec
from slate_lab.errors import ConfigError, ModelError
from slate_lab.models.cassette import Cassette, Mode, request_key
from slate_lab.models.chat import ChatModel
from slate_lab.models.protocol import Capabilities
from slate_lab.models.redact import Secret
from slate_lab.models.replay import ReplayTransport
from slate_lab.models.transport import open_transport
from slate_lab.records import Message, Reply, Request, Route

pytestmark = [pytest.mark.loopback, pytest.mark.allow_hosts(["127.0.0.1", "::1", "localhost"])]

KEY = "sk-planted-0123456789abcdef"


def asks(text: str = "hello", **options: object) -> Request:
    """A request."""
    return Request(messages=(Message(role="user", text=text),), **options)  # type: ignore[arg-type]


class Unreachable(httpx.AsyncBaseTransport):
    """Fails the test if anything goes out."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Go out."""
        raise AssertionError("went out")


def model(cassette: Cassette, url: str = "http://nowhere.invalid/v1", inner: httpx.AsyncBaseTransport | None = None):
    """A chat model behind a recorder."""
    return ChatModel(
        Route("shop", "m-1"),
        url,
        transport=ReplayTransport(cassette, inner or Unreachable()),
        capabilities=Capabilities(),
        key=Secret(KEY),
        headers={"x-team": Secret("team-secret-value")},
    )


async def ask(cassette: Cassette, request: Request, url: str | None = None) -> Reply:
    """One exchange; without an address nothing may go out."""
    made = model(cassette, url, open_transport()) if url else model(cassette)
    try:
        return await made.reply(request)
    finally:
        await made.aclose()


@pytest.fixture
async def server() -> AsyncIterator[FaultServer]:
    """A server whose script the test sets."""
    async with FaultServer(stream(*GOOD)) as running:
        yield running


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the cassette lies."""
    return tmp_path / "notes" / "replay.jsonl"


async def test_what_was_recorded_is_answered_again_without_going_out(server: FaultServer, path: Path) -> None:
    """The same reply, from the file alone, marked as recorded, at another address and with another key."""
    first = await ask(Cassette(path, "auto"), asks(), server.url)
    again = await ask(Cassette(path, "replay"), asks())
    assert not first.recorded
    assert again.recorded
    assert (again.text, again.usage, again.response_id) == (first.text, first.usage, first.response_id)
    assert len(server.requests) == 1


async def test_chunks_keep_their_boundaries(server: FaultServer, path: Path) -> None:
    """Pieces arrive as they did; bytes that are no UTF-8 by themselves come back too."""
    server.script = [stream(b'data: {"choices":[{"delta":{"content":"caf\xc3', b'\xa9"}}]}\n\n', *GOOD, pause_s=0.02)]
    first, again = [], []
    recorder = model(Cassette(path, "record"), server.url, open_transport())
    await recorder.reply(asks(), on_delta=first.append)
    await recorder.aclose()
    await model(Cassette(path, "replay")).reply(asks(), on_delta=again.append)
    assert again == first == ["café", "hel", "lo"]
    chunks = json.loads(path.read_text())["chunks"]
    assert [type(c) for c in chunks[:3]] == [dict, dict, str]


async def test_the_nth_request_gets_the_nth_recording(server: FaultServer, path: Path) -> None:
    """Identical requests are answered in the order of recording; one too many is a miss that says so."""
    server.script = [stream(chunk(str(n), finish="stop"), DONE) for n in (1, 2)]
    recorder = Cassette(path, "auto")
    assert [(await ask(recorder, asks(), server.url)).text for _ in range(2)] == ["1", "2"]
    replay = Cassette(path, "replay")
    assert [(await ask(replay, asks())).text for _ in range(2)] == ["1", "2"]
    with pytest.raises(ModelError, match="recorded 2 times, this is number 3") as caught:
        await ask(replay, asks())
    assert caught.value.kind == "replay-miss"


async def test_a_miss_shows_the_route_and_the_first_difference(server: FaultServer, path: Path) -> None:
    """The message names the route and the first line that differs from the nearest recorded request."""
    await ask(Cassette(path, "auto"), asks("line one\nthe sky is blue\nend"), server.url)
    with pytest.raises(ModelError, match=r"shop/m-1: not recorded in replay\.jsonl.*sky is blue.*sky is red"):
        await ask(Cassette(path, "replay"), asks("line one\nthe sky is red\nend"))
    with pytest.raises(ModelError, match="holds nothing of this route"):
        await ask(Cassette(path.with_name("other.jsonl"), "replay"), asks())


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"temperature": 0.0}, id="temperature"),
        pytest.param({"seed": 1}, id="seed"),
        pytest.param({"max_output_tokens": 5}, id="max-output"),
        pytest.param({"schema": {"type": "object"}}, id="schema"),
    ],
)
async def test_everything_that_shapes_the_answer_is_in_the_key(
    server: FaultServer, path: Path, changed: dict[str, object]
) -> None:
    """A parameter that is present is not the same as an absent one."""
    await ask(Cassette(path, "auto"), asks(), server.url)
    with pytest.raises(ModelError, match="not recorded"):
        await ask(Cassette(path, "replay"), asks(**changed))


def test_the_key_does_not_depend_on_the_order_of_names() -> None:
    """The body is canonical; the route is part of the key."""
    assert request_key("a/b", {"x": 1, "y": 2}) == request_key("a/b", {"y": 2, "x": 1})
    assert request_key("a/b", {}) != request_key("a/c", {})


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(status(500), id="500"),
        pytest.param(status(400, {"error": {"message": "no"}}), id="400"),
        pytest.param(stream(chunk("hel")), id="half-stream"),
        pytest.param(stream(chunk("hel"), reset=True), id="reset"),
        pytest.param(stream(b'data: {"error":{"message":"overloaded"}}\n\n'), id="error-in-200"),
    ],
)
async def test_errors_are_never_recorded(server: FaultServer, path: Path, fault: object) -> None:
    """A fault leaves nothing behind; the answer that follows it is number one."""
    server.script = [fault, stream(*GOOD)]  # type: ignore[list-item]
    cassette = Cassette(path, "auto")
    with pytest.raises(ModelError):
        await ask(cassette, asks(), server.url)
    assert not path.exists()
    await ask(cassette, asks(), server.url)
    assert (await ask(Cassette(path, "replay"), asks())).text == "hello"


async def test_a_refusal_is_returned_but_never_recorded(server: FaultServer, path: Path) -> None:
    """An answer that a content filter cut is not worth keeping."""
    server.script = [stream(chunk("no", finish="content_filter"), DONE)]
    assert (await ask(Cassette(path, "auto"), asks(), server.url)).finish == "content_filter"
    assert not path.exists()


@pytest.mark.parametrize("step", [hang(), stream(*[chunk("x")] * 100, pause_s=0.05)], ids=["waiting", "streaming"])
async def test_cancelled_answers_are_never_recorded(server: FaultServer, path: Path, step: object) -> None:
    """Neither before the answer nor in the middle of it."""
    server.script = [step, stream(*GOOD)]  # type: ignore[list-item]
    cassette = Cassette(path, "auto")
    task = asyncio.create_task(ask(cassette, asks(), server.url))
    await asyncio.sleep(0.15)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not path.exists()
    await ask(cassette, asks(), server.url)
    assert (await ask(Cassette(path, "replay"), asks())).text == "hello"


async def test_recording_anew_replaces(server: FaultServer, path: Path) -> None:
    """Mode `record` goes out although there is a recording, and replaces it; others stay."""
    server.script = [stream(chunk(str(n), finish="stop"), DONE) for n in (1, 2, 3)]
    first = Cassette(path, "auto")
    await ask(first, asks("a"), server.url)
    await ask(first, asks("b"), server.url)
    anew = Cassette(path, "record")
    await ask(anew, asks("a"), server.url)
    anew.save()
    replay = Cassette(path, "replay")
    assert [(await ask(replay, asks(t))).text for t in ("a", "b")] == ["3", "2"]
    assert replay.count == 2


async def test_the_saved_file_is_the_same_bytes_in_any_order(server: FaultServer, tmp_path: Path) -> None:
    """Recordings are sorted when they are saved; what another process appended meanwhile is kept."""
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    for file, order in ((one, "abc"), (two, "cab")):
        cassette = Cassette(file, "auto")
        for text in order[:2]:
            await ask(cassette, asks(text), server.url)
        await ask(Cassette(file, "auto"), asks(order[2]), server.url)
        cassette.save()
    assert one.read_bytes() == two.read_bytes()
    assert len(one.read_bytes().splitlines()) == 3


async def test_a_compressed_answer_is_recorded_as_text(server: FaultServer, path: Path) -> None:
    """So that the file can be read, searched and compared."""
    server.script = [zipped(*GOOD)]
    await ask(Cassette(path, "auto"), asks(), server.url)
    assert '\\"hel\\"' in path.read_text()
    assert (await ask(Cassette(path, "replay"), asks())).text == "hello"


async def test_secrets_never_reach_the_file(server: FaultServer, path: Path) -> None:
    """A key in headers, address, prompt or echoed in the answer is in no recording, and the recording still answers."""
    server.script = [stream(chunk(f"your key is {KEY} and team-secret-value", finish="stop"), DONE)]
    url = server.url + "?key=url-secret-0123"
    prompt = f"my key is {KEY}, the address has url-secret-0123"
    await ask(Cassette(path, "auto"), asks(prompt), url)
    text = path.read_text()
    assert "your key is" in text
    for secret in (KEY, "team-secret-value", "url-secret-0123", "127.0.0.1", "authorization"):
        assert secret not in text


@pytest.mark.parametrize(
    ("line", "says"),
    [
        pytest.param(b"{oops\n{}\n", r"replay\.jsonl:1: this line is no recording", id="not-json"),
        pytest.param(b"\n{}\n", r"replay\.jsonl:2: this line is no recording", id="json-of-another-kind"),
        pytest.param(
            b'{"v":9,"key":"k","n":1,"route":"a/b","request":{},"status":200,"headers":{},"chunks":[]}\n',
            "version 9",
            id="other-version",
        ),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, line: bytes, says: str) -> None:
    """File and line are named."""
    path = tmp_path / "replay.jsonl"
    path.write_bytes(line)
    with pytest.raises(ConfigError, match=says):
        Cassette(path, "auto")


TORN = [
    pytest.param(b'{"v":1,"key"', id="unterminated"),
    pytest.param(b'{"v":1,"key"\n', id="terminated"),
    pytest.param(b"\x00\x00\x00", id="zeros"),
    pytest.param(b'{"v":1,"key":"caf\xc3', id="within-a-character"),
]


@pytest.mark.parametrize("tail", TORN)
@pytest.mark.parametrize("mode", ["auto", "record"])
async def test_a_torn_last_line_is_set_aside(server: FaultServer, path: Path, mode: Mode, tail: bytes) -> None:
    """A process that died while it appended costs its last answer: the session after it, and the one after that, work.

    The tail is kept beside the file, the warning names it, and what is recorded next begins a line of its own.
    """
    await ask(Cassette(path, "auto"), asks("a"), server.url)
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    cassette = Cassette(path, mode)
    assert cassette.count == 1
    assert path.read_bytes() == whole
    assert path.with_name("replay.jsonl.torn").read_bytes() == tail.rstrip(b"\n") + b"\n"
    (warning,) = cassette.warnings
    assert "moved to replay.jsonl.torn; 1 recordings are kept" in warning
    await ask(cassette, asks("b"), server.url)
    assert Cassette(path, "auto").count == 2
    cassette.save()
    assert (Cassette(path, "auto").count, Cassette(path, "auto").warnings) == (2, ())


@pytest.mark.parametrize("tail", TORN)
async def test_replay_leaves_a_torn_file_alone(server: FaultServer, path: Path, tail: bytes) -> None:
    """Replaying never writes: the tail is left out with a warning, the file stays as it is."""
    await ask(Cassette(path, "auto"), asks(), server.url)
    torn = path.read_bytes() + tail
    path.write_bytes(torn)
    cassette = Cassette(path, "replay")
    assert (await ask(cassette, asks())).text == "hello"
    cassette.save()
    assert path.read_bytes() == torn
    assert [p.name for p in path.parent.iterdir()] == ["replay.jsonl"]
    assert "cut off and is left out; 1 recordings" in cassette.warnings[0]


async def test_a_whole_last_line_without_its_end_is_kept(server: FaultServer, path: Path) -> None:
    """An editor that drops the last line end costs nothing; the next recording begins a line of its own."""
    await ask(Cassette(path, "auto"), asks("a"), server.url)
    path.write_bytes(path.read_bytes().rstrip())
    cassette = Cassette(path, "auto")
    await ask(cassette, asks("b"), server.url)
    assert (Cassette(path, "auto").count, cassette.warnings) == (2, ())


async def test_a_line_torn_by_another_process_meanwhile(server: FaultServer, path: Path) -> None:
    """What another process tears while this one records is set aside too, before the next answer and when saving."""
    cassette = Cassette(path, "auto")
    await ask(cassette, asks("a"), server.url)
    path.write_bytes(path.read_bytes() + b'{"v":1')
    await ask(cassette, asks("b"), server.url)
    path.write_bytes(path.read_bytes() + b'{"v":2')
    cassette.save()
    assert path.with_name("replay.jsonl.torn").read_bytes() == b'{"v":1\n{"v":2\n'
    assert Cassette(path, "replay").count == 2
    assert len(cassette.warnings) == 1


async def test_saving_over_a_file_that_was_broken_meanwhile(server: FaultServer, path: Path) -> None:
    """A broken line in the middle is told at saving, the file stays, and the answers appended before are in it."""
    cassette = Cassette(path, "auto")
    await ask(cassette, asks("a"), server.url)
    broken = b"{oops\n" + path.read_bytes()
    path.write_bytes(broken)
    cassette.save()
    assert path.read_bytes() == broken
    assert "replay.jsonl:1: this line is no recording" in cassette.warnings[0]
    path.write_bytes(broken.removeprefix(b"{oops\n"))
    cassette.save()
    assert Cassette(path, "replay").count == 1


async def test_a_file_that_cannot_be_written_costs_no_answer(server: FaultServer, path: Path) -> None:
    """The answer is given, the warning says that it is not kept yet; saving works once the way is free."""
    cassette = Cassette(path, "auto")
    path.parent.write_text("a file where the folder should be")
    assert (await ask(cassette, asks(), server.url)).text == "hello"
    assert "could not be appended" in cassette.warnings[0]
    cassette.save()
    assert "could not be put in order" in cassette.warnings[1]
    path.parent.unlink()
    cassette.save()
    assert Cassette(path, "replay").count == 1
    assert [p.name for p in path.parent.iterdir()] == ["replay.jsonl"]


def test_a_folder_is_no_cassette(tmp_path: Path) -> None:
    """A path that cannot be read is an error of the configuration that names it."""
    with pytest.raises(ConfigError, match="cannot be read"):
        Cassette(tmp_path, "auto")


@pytest.mark.parametrize("mode", ["off", "auto", "record", "replay"])
def test_the_configuration_opens_it(tmp_path: Path, mode: Mode) -> None:
    """`off` is no cassette; the file is relative to the project."""
    spec = ReplaySpec.model_validate({"mode": mode, "file": "tapes/a.jsonl"})
    cassette = Cassette.open_for(spec, tmp_path)
    assert (cassette and cassette.path) == (None if mode == "off" else tmp_path / "tapes" / "a.jsonl")

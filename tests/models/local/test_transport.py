"""The embedded server's life: started by the first request, shared, replaced when it dies, gone with its last user."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from models.local import fakeserver
from models.local.files import CONTENT, SHA256
from slate_lab.config import ProviderSpec
from slate_lab.errors import ModelError
from slate_lab.models.local import LocalTransport, describe_local, template_path
from slate_lab.models.local_server import SERVE
from slate_lab.models.transport import open_transport

pytestmark = [pytest.mark.loopback, pytest.mark.allow_hosts(["127.0.0.1", "::1", "localhost"])]

FAKE = (sys.executable, fakeserver.__file__)


class Told:
    """Collects progress."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str, _done: float | None) -> None:
        self.lines.append(line)


def spec_of(tmp_path: Path, **options: Any) -> ProviderSpec:
    """A local provider on a file that only looks like a model."""
    file = tmp_path / "small.gguf"
    if not file.exists():
        file.write_bytes(CONTENT)
    return ProviderSpec.model_validate({"protocol": "local", "weights": str(file), **options})


def transport(
    tmp_path: Path, *, command: tuple[str, ...] = FAKE, told: Told | None = None, **options: Any
) -> LocalTransport:
    """A transport whose servers and cache are the test's own."""
    return LocalTransport(
        spec_of(tmp_path, **options),
        open_transport(),
        model_id="small",
        progress=told or Told(),
        cache=tmp_path / "cache",
        env={},
        command=command,
    )


async def ask(way: LocalTransport, text: str = "who", **body: Any) -> dict[str, Any]:
    """One exchange by a client that knows neither address nor key."""
    request = httpx.Request(
        "POST",
        "http://embedded.invalid/v1/chat/completions",
        json={"messages": [{"role": "user", "content": text}], **body},
        headers={"authorization": "Bearer of-another"},
    )
    response = await way.handle_async_request(request)
    data = await response.aread()
    await response.aclose()
    assert response.status_code == 200, data
    choice: dict[str, Any] = response.json()["choices"][0]
    return choice


async def pid(way: LocalTransport) -> int:
    """The process that answers."""
    return int((await ask(way))["message"]["content"].split()[1])


def lives(process: int) -> bool:
    """Whether a process is there."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


async def ended(process: int, within_s: float = 5) -> bool:
    """Whether a process goes within a time."""
    until = time.monotonic() + within_s
    while lives(process) and time.monotonic() < until:
        await asyncio.sleep(0.05)
    return not lives(process)


async def test_kernels_share_one_server_that_ends_with_its_last_user(tmp_path: Path) -> None:
    """Two transports, asked at once, meet in one process; the first to leave lets it live, the second ends it."""
    one, two = transport(tmp_path), transport(tmp_path)
    first, second, again = await asyncio.gather(pid(one), pid(two), pid(one))
    assert first == second == again
    state = next((tmp_path / "cache").rglob("state.json"))
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    await one.aclose()
    assert await pid(two) == first
    await two.aclose()
    assert await ended(first)
    assert not state.exists()


async def test_a_server_that_dies_during_a_request_is_started_again_once(tmp_path: Path) -> None:
    """The request that killed it is sent once more to a new process and answered."""
    told = Told()
    way = transport(tmp_path, told=told)
    before = await pid(way)
    after = int((await ask(way, "die once"))["message"]["content"].split()[1])
    assert after != before
    assert told.lines.count("loading small") == 2
    await way.aclose()
    assert await ended(after)


async def test_an_idle_server_ends_by_itself_and_the_next_request_starts_another(tmp_path: Path) -> None:
    """`idleSeconds` without a request free the memory also while a kernel stays open; no state is left behind."""
    way = transport(tmp_path, idleSeconds=1)
    first = await pid(way)
    assert await ended(first, 8)
    assert await pid(way) != first
    await way.aclose()


async def test_what_a_dead_server_left_is_not_believed(tmp_path: Path) -> None:
    """A state that names a living process of someone else, and a server killed hard: both are replaced."""
    way = transport(tmp_path)
    first = await pid(way)
    state = next((tmp_path / "cache").rglob("state.json"))
    left = state.read_text()
    os.kill(first, 9)
    assert await ended(first)
    state.write_text(left.replace(str(first), str(os.getpid())))
    other = transport(tmp_path)
    assert await pid(other) not in (first, os.getpid())
    await way.aclose()
    assert await pid(other)
    await other.aclose()


async def test_calls_are_read_on_the_way(tmp_path: Path) -> None:
    """A request that offers tools gets its bare object as a tool call; one that does not gets the text."""
    way = transport(tmp_path)
    tools = [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object", "properties": {}}}}]
    choice = await ask(way, "call", tools=tools)
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "ls"
    assert (await ask(way, "call"))["message"]["content"].startswith("{")
    await way.aclose()


async def test_cancelling_comes_back_at_once_and_leaves_a_usable_transport(tmp_path: Path) -> None:
    """A cancelled request ends within a second; the server stays and answers the next."""
    way = transport(tmp_path)
    first = await pid(way)
    task = asyncio.create_task(ask(way, "wait"))
    await asyncio.sleep(0.2)
    task.cancel()
    started = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < 1
    assert await pid(way) == first
    await way.aclose()


async def test_a_file_that_cannot_be_loaded_is_told_with_the_log(tmp_path: Path) -> None:
    """llama.cpp refuses the file: `unavailable`, with the end of the server's log and where it is."""
    way = transport(tmp_path, command=SERVE)
    with pytest.raises(ModelError, match=r"the server of small did not start: .*\(log: .*server\.log\)") as caught:
        await ask(way)
    assert caught.value.kind == "unavailable"
    await way.aclose()


async def test_weights_that_are_nowhere_start_nothing(tmp_path: Path) -> None:
    """The error says where they were looked for; closing afterwards is quiet."""
    way = LocalTransport(
        ProviderSpec.model_validate({"protocol": "local", "weights": "gone.gguf"}),
        open_transport(), model_id="gone", progress=Told(), cache=tmp_path, env={}, command=FAKE,
    )  # fmt: skip
    with pytest.raises(ModelError, match=r"no weights for gone\.gguf"):
        await ask(way)
    await way.aclose()
    assert not (tmp_path / "servers").exists()


def test_a_report_names_what_ran_without_asking_the_network(tmp_path: Path) -> None:
    """Model, file, source, hash, context and template; before the weights are here the source is unknown."""
    told = describe_local(spec_of(tmp_path), cache=tmp_path, env={})
    assert (told["model"], told["file"], told["source"]) == ("small", "small.gguf", "the given path")
    assert (told["sha256"], told["context"], told["template"]) == (SHA256, 8192, "bare_calls")
    fresh = describe_local(ProviderSpec.model_validate({"protocol": "local"}), cache=tmp_path, env={})
    assert (fresh["source"], fresh["licence"]) == (None, "Apache-2.0")
    assert template_path(fresh["template"]).is_file()

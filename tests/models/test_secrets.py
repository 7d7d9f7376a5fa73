"""Keys never show: planted in headers, addresses, bodies and errors, and looked for in all that a lab wrote."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import traceback
from pathlib import Path

import pytest
from aiohttp import web

import slate_lab as sl
from models.faultserver import FaultServer, Handler
from models.speech import ALL, ROUTE, Speech
from slate_lab.errors import LabError, ModelError
from slate_lab.models.cassette import Cassette
from slate_lab.models.protocol import Capabilities
from slate_lab.models.redact import Secret
from slate_lab.models.replay import ReplayTransport
from slate_lab.models.transport import open_transport
from slate_lab.records import Message, Request

pytestmark = [pytest.mark.loopback, pytest.mark.allow_hosts(["127.0.0.1", "::1", "localhost"])]

PLANTED = {
    "key": "planted-key-0123456789+/=",
    "header": "planted-header-abcdefgh",
}


def echo(speech: Speech, code: int) -> Handler:
    """Answers with all that was sent: as an error (`code`), or as text, a call, ids and usage of a good answer."""

    async def answer(request: web.Request) -> web.StreamResponse:
        sent = " ".join([request.path_qs, *(f"{name}: {value}" for name, value in request.headers.items())])
        sent = f"{sent} {' '.join(PLANTED.values())}"
        if code != 200:
            body = {"error": {"message": sent, "code": sent, "type": "x"}, "detail": sent}
            return web.json_response(body, status=code, headers={"x-echo": "planted-key-0123456789"})
        text = speech.text(json.dumps(sent)[1:-1])
        call = speech.call(60, "id " + PLANTED["key"], "read", [json.dumps({"path": sent})])
        chunks = [*speech.head, *speech.thought, text, *call, *speech.tail("tool_calls")]
        body = b"".join(chunks).replace(b'"r1"', json.dumps(PLANTED["key"]).encode())
        return web.Response(body=body, content_type="text/event-stream")

    return answer


@pytest.mark.parametrize("speech", ALL, ids=lambda speech: speech.name)
@pytest.mark.parametrize("code", [200, 401, 500])
async def test_what_a_lab_writes_holds_no_key(
    speech: Speech, code: int, project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Store, recording, events, frames, repr, logs and tracebacks of a lab whose provider echoes all it was sent."""
    caplog.set_level(logging.DEBUG)
    async with FaultServer(echo(speech, code)) as server:
        config = {
            "providers": {
                "shop": {
                    "protocol": speech.name,
                    "baseUrl": server.url,
                    "apiKeyEnv": "SHOP_KEY",
                    "headers": {"X-Team-Token": PLANTED["header"]},
                    "maxRetries": 0,
                }
            },
            "models": {
                "exclude": ["local"],
                "add": [
                    {
                        "model": "mine",
                        "capabilityRating": 5,
                        "effort": "off",
                        "costRating": 5,
                        "preferredProvider": "shop",
                        "providers": {"shop": "m-1"},
                        "guidelines": "x",
                        "cautions": "x",
                    }
                ],
            },
            "defaultModel": "mine",
            "replay": {"mode": "record", "file": "tape.jsonl"},
            "compressor": {"mode": "fixed"},
        }
        shown = await asyncio.to_thread(use, project, config)
    shown += caplog.text
    files = [path for path in project.rglob("*") if path.is_file()]
    assert any(path.name == "tape.jsonl" for path in files) == (code == 200)
    assert any(path.suffix == ".db" for path in files)
    for path in files:
        shown += path.read_bytes().decode("utf-8", "replace")
        if path.suffix == ".db":
            with sqlite3.connect(path) as base:
                shown += "\n".join(base.iterdump())
    for name, value in PLANTED.items():
        assert value not in shown, name
        assert value[:20] not in shown, name


@pytest.mark.parametrize("address", ["http://user:planted-pw-12345@h/v1", "http://h/v1?token=planted-query-1"])
def test_an_address_with_a_key_is_refused_without_showing_it(address: str, project: Path) -> None:
    """A key does not belong into an address of the configuration; the error names the place, not the value."""
    config = {"providers": {"shop": {"protocol": "chat", "baseUrl": address}}}
    with pytest.raises(LabError, match=r"providers\.shop\.baseUrl") as caught:
        sl.Lab.open(project, config=config, env={}, store=":memory:", trust=True)
    assert "planted" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("speech", ALL, ids=lambda speech: speech.name)
@pytest.mark.parametrize("code", [200, 401])
async def test_a_model_given_an_address_with_keys_keeps_none(speech: Speech, code: int, tmp_path: Path) -> None:
    """User, password and query of an address given in Python reach the server, and nothing that is kept."""
    cassette = Cassette(tmp_path / "tape.jsonl", "record")
    async with FaultServer(echo(speech, code)) as server:
        address = server.url.replace("//", "//user:planted-password-1@") + "?token=planted-query-1"
        model = speech.model(
            ROUTE,
            address,
            transport=ReplayTransport(cassette, open_transport()),
            capabilities=Capabilities(),
            key=Secret(PLANTED["key"]),
            headers={"X-Team-Token": Secret(PLANTED["header"])},
        )
        try:
            shown = repr(await model.reply(Request(messages=(Message(role="user", text="hello"),))))
        except ModelError as error:
            shown = "".join(traceback.format_exception(error))
        await model.aclose()
    assert server.queries[0] == "token=planted-query-1"
    shown += repr(model) + repr(vars(model)["_password"])
    shown += "".join(path.read_text() for path in tmp_path.iterdir())
    assert "planted" not in shown


def use(project: Path, config: dict) -> str:
    """Run an action, and everything that a lab shows of it."""
    with sl.Lab.open(project, config=config, env={"SHOP_KEY": PLANTED["key"]}, trust=True) as lab:
        told = [repr(lab), str(lab.status()), repr(lab.models()), repr(lab.config.providers)]
        try:
            episode = lab.thread("Say hello.", type="researcher", limits={"turns": 2})
            told += [repr(episode), str(lab.facts(episode.id))]
        except LabError as error:
            told.append("".join(traceback.format_exception(error)))
        told += [repr(lab.calls()), repr(lab.events()), repr(lab.threads()), repr(lab.replay())]
        told += [getattr(lab.frames, name)().to_string() for name in ("calls", "attempts", "episodes", "events")]
    return "\n".join(told)

"""From settings to a model, and what never shows."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path

import pytest

from models.faultserver import GOOD, FaultServer, status, stream
from slate_lab.config import ProviderSpec
from slate_lab.errors import ModelError
from slate_lab.models.cassette import Cassette
from slate_lab.models.connect import connect
from slate_lab.models.protocol import Capabilities, Model
from slate_lab.models.redact import CAP, Secret, plain_url, redact
from slate_lab.records import Message, Request

KEY = "planted+key/0123456789=="
ASK = Request(messages=(Message(role="user", text="hello"),))


def spec(**options: object) -> ProviderSpec:
    """A provider's settings, as the file spells them."""
    return ProviderSpec.model_validate({"protocol": "chat", "baseUrl": "https://x.invalid/v1", **options})


def open_model(provider: ProviderSpec, *, env: dict[str, str] | None = None, replay: Cassette | None = None) -> Model:
    """The model of a provider."""
    return connect(
        "shop", provider, "m", Capabilities(), env=env or {}, replay=replay, progress=lambda text, share: None
    )


def test_retry_rules_come_from_the_settings() -> None:
    """The model carries the rules of its provider, which the gate follows."""
    model = open_model(spec(maxRetries=1, maxWaitSeconds=5, maxConcurrent=2))
    assert (model.retry.max_retries, model.retry.max_wait_s, model.retry.max_concurrent) == (1, 5, 2)  # type: ignore[attr-defined]


@pytest.mark.loopback
@pytest.mark.allow_hosts(["127.0.0.1", "::1", "localhost"])
async def test_a_server_on_this_machine_gets_a_connection_for_every_request() -> None:
    """A local server that closes after each answer unannounced, as llama.cpp's does, loses no request."""
    async with FaultServer(stream(*GOOD)) as server:
        model = open_model(spec(baseUrl=server.url))
        for _ in range(3):
            assert (await model.reply(ASK)).text == "hello"
        await model.aclose()
        assert len(server.sockets) == 3


@pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])
def test_every_protocol_is_spoken(protocol: str) -> None:
    """A provider of each protocol is a model that shows its route and address, and no key."""
    model = open_model(spec(protocol=protocol, apiKeyEnv="SHOP_KEY"), env={"SHOP_KEY": KEY})
    assert repr(model) == f"{protocol.capitalize()}Model('shop/m', 'https://x.invalid/v1')"


def test_a_missing_key_names_its_variable() -> None:
    """The line to type is in the message."""
    with pytest.raises(ModelError, match=r"export SHOP_KEY=") as caught:
        open_model(spec(apiKeyEnv="SHOP_KEY"))
    assert caught.value.kind == "auth"


@pytest.mark.parametrize("key", ["abc\r\nx-other: 1", "abcd…efgh"], ids=["line-break", "not-ascii"])
def test_a_key_that_no_header_can_hold_is_refused_unshown(key: str) -> None:
    """It names its variable, before anything is sent, and shows nothing of the key."""
    with pytest.raises(ModelError, match="SHOP_KEY") as caught:
        open_model(spec(apiKeyEnv="SHOP_KEY"), env={"SHOP_KEY": key})
    assert caught.value.kind == "auth"
    assert "abc" not in "".join(traceback.format_exception(caught.value)).replace("format", "")


async def test_a_recording_needs_no_key(tmp_path: Path) -> None:
    """With a cassette the model opens without its key; only going out needs it."""
    model = open_model(spec(apiKeyEnv="SHOP_KEY"), replay=Cassette(tmp_path / "r.jsonl", "auto"))
    with pytest.raises(ModelError, match="export SHOP_KEY"):
        await model.reply(ASK)
    model = open_model(spec(apiKeyEnv="SHOP_KEY"), replay=Cassette(tmp_path / "r.jsonl", "replay"))
    with pytest.raises(ModelError, match="not recorded"):
        await model.reply(ASK)


@pytest.mark.loopback
@pytest.mark.allow_hosts(["127.0.0.1", "::1", "localhost"])
@pytest.mark.parametrize("form", ["plain", "percent", "escaped", "split-by-the-cap"])
async def test_keys_never_show(form: str, caplog: pytest.LogCaptureFixture) -> None:
    """A provider that echoes the key in any form gets it into no message, traceback, repr or log."""
    echo = {
        "plain": f"bad key {KEY}",
        "percent": "bad key planted%2Bkey%2F0123456789%3D%3D",
        "escaped": f"bad key '{KEY}' <b>{KEY}</b>",
        "split-by-the-cap": "x" * (CAP - 12) + KEY,
    }[form]
    caplog.set_level("DEBUG")
    async with FaultServer(status(401, {"error": {"message": echo}})) as server:
        provider = spec(baseUrl=server.url, apiKeyEnv="SHOP_KEY", headers={"x-more": "header-secret-1"})
        model = open_model(provider, env={"SHOP_KEY": KEY})
        with pytest.raises(ModelError) as caught:
            await model.reply(ASK)
        await model.aclose()
    shown = "".join(traceback.format_exception(caught.value)) + repr(model) + repr(vars(model)) + caplog.text
    assert "planted" not in shown
    assert "header-secret-1" not in shown
    assert len(caught.value.message) < CAP + 80


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("a\x1b[31mred\x1b[0m\x00 b\r\nc\u202ed", "ared b c d", id="control-characters"),
        pytest.param("<html><style>x{}</style><h1>Bad <i>gateway</i></h1>", "Bad gateway", id="markup"),
        pytest.param("key sk-abcdefgh12345678 end", "key [hidden] end", id="other-keys"),
        pytest.param("Authorization: Bearer abcdef123456", "Authorization: Bearer [hidden]", id="bearer"),
        pytest.param("https://x/?api_key=abcdef123", "https://x/?api_key=[hidden]", id="in-an-address"),
        pytest.param("y" * 999, "y" * (CAP - 1) + "…", id="long"),
    ],
)
def test_strangers_text_is_cleaned(text: str, shown: str) -> None:
    """One short line, without markup, control characters or keys."""
    assert redact(text) == shown


def test_secrets_show_themselves_to_nobody() -> None:
    """Neither in a repr nor in a pickle."""
    assert repr([Secret("abc")]) == "[[hidden]]"
    with pytest.raises(TypeError):
        pickle.dumps(Secret("abc"))
    assert plain_url("https://me:pw@host:1/v1?key=x#y") == "https://host:1/v1"

"""From a provider's settings to a model that answers: the one place where the parts of this room are put together.

In: a `ProviderSpec`, a model id, what the route can do, the environment with the keys. Out: a `Model`. Nothing is
opened and nothing is started before the first request. Called by the shelf. The way out of a model, from the inside:

    aiohttp's pool <- embedded server (protocol `local`) <- recorder (if replay is on) <- protocol
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import httpx

from slate_lab.config import ProviderSpec
from slate_lab.errors import ModelError
from slate_lab.models.cassette import Cassette
from slate_lab.models.chat import ChatModel
from slate_lab.models.messages import MessagesModel
from slate_lab.models.protocol import Capabilities, Model
from slate_lab.models.redact import Secret
from slate_lab.models.replay import ReplayTransport
from slate_lab.models.responses import ResponsesModel
from slate_lab.models.retry import RetrySpec
from slate_lab.models.transport import open_transport
from slate_lab.models.wire import WireModel
from slate_lab.records import Route

__all__ = ["connect"]

LOCAL_URL = "http://embedded.invalid/v1"  # the embedded server's transport puts its own address and key in
LOCAL_TIMEOUT_S = 900.0  # a long prompt on a small machine is silent for minutes; setting timeoutSeconds wins


def connect(
    provider_name: str,
    spec: ProviderSpec,
    model_id: str,
    capabilities: Capabilities,
    *,
    env: Mapping[str, str],
    replay: Cassette | None,
    progress: Callable[[str, float | None], None],
) -> Model:
    """The model of a route.

    Raises:
        ModelError: `auth`, the key is not set; `bad-request`, there is no address; `unavailable`, the model is given in
            Python.
    """
    route = Route(provider_name, model_id)
    if spec.protocol == "local":
        return _local(route, spec, capabilities, replay=replay, progress=progress)
    wire = _WIRES.get(spec.protocol or "")
    if wire is not None:
        return _remote(wire, route, spec, capabilities, env=env, replay=replay)
    raise ModelError("unavailable", f"{route}: a scripted model is given in Python: models=ScriptedModel([...])")


_WIRES: Mapping[str, type[WireModel]] = {"chat": ChatModel, "responses": ResponsesModel, "messages": MessagesModel}


def _remote(
    wire: type[WireModel],
    route: Route,
    spec: ProviderSpec,
    capabilities: Capabilities,
    *,
    env: Mapping[str, str],
    replay: Cassette | None,
) -> Model:
    if spec.base_url is None:
        raise ModelError("bad-request", f"{route}: no address; set providers.{route.provider}.baseUrl")
    key = env.get(spec.api_key_env, "").strip() if spec.api_key_env else ""
    transport = open_transport(keepalive_s=None if _is_loopback(spec.base_url) else 30.0)
    if spec.api_key_env and not key:
        missing = ModelError("auth", f"{route}: no key; set it with: export {spec.api_key_env}=...")
        if replay is None or replay.mode == "record":
            raise missing
        transport = _NoKey(missing)  # a recording needs no key
    if not (key.isascii() and key.isprintable()):
        raise ModelError("auth", f"{route}: the key in {spec.api_key_env} holds a line break or a sign that no key has")
    return wire(
        route,
        str(spec.base_url),
        transport=_recorder(replay, transport),
        capabilities=capabilities,
        key=Secret(key) if key else None,
        headers={name: Secret(value) for name, value in spec.headers.items()},
        timeout_s=spec.timeout_s,
        retry=_retry(spec, spec.max_concurrent),
    )


def _local(
    route: Route,
    spec: ProviderSpec,
    capabilities: Capabilities,
    *,
    replay: Cassette | None,
    progress: Callable[[str, float | None], None],
) -> Model:
    from slate_lab.models.local import LocalTransport  # needs the extra `local` only when it is asked

    inner = LocalTransport(spec, open_transport(keepalive_s=None), model_id=route.model, progress=progress)
    return ChatModel(
        route,
        LOCAL_URL,
        transport=_recorder(replay, inner),
        capabilities=capabilities,
        timeout_s=spec.timeout_s if "timeout_s" in spec.model_fields_set else LOCAL_TIMEOUT_S,
        retry=_retry(spec, spec.max_concurrent or 1),
    )


def _recorder(replay: Cassette | None, inner: httpx.AsyncBaseTransport) -> httpx.AsyncBaseTransport:
    return inner if replay is None else ReplayTransport(replay, inner)


def _is_loopback(url: str) -> bool:
    """Whether a server runs on this machine.

    llama.cpp's server closes the connection after every streamed answer without saying so: the next request on it
    would be lost. A new connection costs next to nothing here.
    """
    return httpx.URL(url).host in ("localhost", "127.0.0.1", "::1")


def _retry(spec: ProviderSpec, max_concurrent: int | None) -> RetrySpec:
    return RetrySpec(max_retries=spec.max_retries, max_wait_s=spec.max_wait_s, max_concurrent=max_concurrent)


class _NoKey(httpx.AsyncBaseTransport):
    """Refuses to go out without a key."""

    def __init__(self, error: ModelError) -> None:
        self._error = error

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise self._error

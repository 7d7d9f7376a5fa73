"""One exchange with a model over HTTP: what the protocols have in common.

In: a `Request`. Out: a `Reply`, its text streamed as it comes; or a `Fault`. One exchange each time it is asked; the
gate asks again. A protocol is a `WireModel` that says where it is asked (`path`), with what body, and how its answer is
read. Made by `connect`, over any httpx transport.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, ClassVar

import httpx
import msgspec

from slate_lab.models.answer import Answer
from slate_lab.models.assemble import Draft
from slate_lab.models.faults import Fault
from slate_lab.models.protocol import Capabilities, Delta
from slate_lab.models.redact import Secret, basic, hide, is_credential, plain_url, redact
from slate_lab.models.refusals import read_refusal, refusal_fault
from slate_lab.models.retry import RetrySpec, retry_after_s
from slate_lab.models.unpack import unpacked
from slate_lab.records import Reply, Request, Route

__all__ = ["WireModel"]

MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024
CONNECT_S = 15.0
DRAIN_S = 0.5  # what may follow the end marker, so that the connection can be used again


class WireModel(ABC):
    """One model behind an address.

    Args:
        route: the provider and model it stands for.
        base_url: the address without the protocol's `path`; a user in it is sent as basic authorization, its query
            with every request.
        transport: the way out; closed with the model.
        capabilities: what the route can do.
        key: sent as the protocol sends keys.
        headers: further headers; their values are secrets too.
        timeout_s: seconds of silence after which an exchange fails.
        retry: the rules the gate follows for this model.
        stream: ask for the answer in pieces.
        clock: nanoseconds since the epoch, for the first token and for dates in headers.
    """

    path: ClassVar[str]
    """What follows the address."""

    def __init__(
        self,
        route: Route,
        base_url: str,
        *,
        transport: httpx.AsyncBaseTransport,
        capabilities: Capabilities,
        key: Secret | None = None,
        headers: Mapping[str, Secret] | None = None,
        timeout_s: float = 120.0,
        retry: RetrySpec | None = None,
        stream: bool = True,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.route = route
        self.capabilities = capabilities
        self.retry = retry or RetrySpec()
        base = httpx.URL(base_url)
        self._url = base.copy_with(path=base.path.rstrip("/") + self.path, username=None, password=None)
        self._shown = plain_url(base_url)
        self._transport = transport
        self._key = key
        self._headers = dict(headers or {})
        if base.username and key is None:
            self._headers["authorization"] = basic(base.username, base.password)
        self._password = [Secret(value) for value in (base.password, *base.params.values()) if value]
        self._stream = stream
        self._clock = clock
        self._timeout = {"connect": min(CONNECT_S, timeout_s), "read": timeout_s, "write": timeout_s, "pool": 30.0}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.route)!r}, {self._shown!r})"

    async def reply(self, request: Request, *, on_delta: Delta | None = None) -> Reply:
        """Answer `request` in one exchange.

        Raises:
            Fault: it failed; `kind` and `transient` say what can be done.
        """
        http = self._request(request)
        try:
            response = await self._transport.handle_async_request(http)
        except httpx.HTTPError as error:
            raise self._unanswered(error) from None
        try:
            if response.status_code != 200:
                raise await self._refused(response)
            return await self._read(response, self._reader(request), on_delta)
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Close the transport."""
        await self._transport.aclose()

    @abstractmethod
    def _body(self, request: Request) -> dict[str, Any]:
        """The JSON of a request, in a fixed order.

        Raises:
            ModelError: `bad-request`, it asks for what the route cannot do.
        """

    @abstractmethod
    def _reader(self, request: Request) -> Draft:
        """What collects one reply."""

    def _credentials(self, key: Secret) -> Mapping[str, str]:
        """The headers that carry the key."""
        return {"authorization": f"Bearer {key.reveal()}"}

    def _protocol_headers(self) -> Mapping[str, str]:
        """Headers that every request of the protocol carries."""
        return {}

    def _request(self, request: Request) -> httpx.Request:
        body = self._body(request)
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream, application/json" if self._stream else "application/json",
            "accept-encoding": "identity" if self._stream else "gzip, deflate",
            "user-agent": "slate_lab",
            **self._protocol_headers(),
        }
        if self._key is not None:
            headers.update(self._credentials(self._key))
        headers.update((name, value.reveal()) for name, value in self._headers.items())
        return httpx.Request(
            "POST",
            self._url,
            headers=headers,
            content=msgspec.json.encode(body),
            extensions={"timeout": self._timeout, "slate_route": str(self.route)},
        )

    async def _read(self, response: httpx.Response, draft: Draft, on_delta: Delta | None) -> Reply:
        """The reply in a 200 answer, whatever its content type says."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/html":
            raise Fault("bad-reply", f"{self.route}: {self._shown} answered with a web page; check baseUrl", status=200)
        recorded = bool(response.extensions.get("slate_recorded"))
        answer = Answer(draft, on_delta=on_delta, hide=self._hide)
        chunks = _body(response)
        size = 0
        try:
            async for chunk in chunks:
                size += len(chunk)
                answer.feed(chunk)
                if answer.done:
                    break
                if size > MAX_ANSWER_BYTES:
                    raise Fault("bad-reply", f"the answer is larger than {MAX_ANSWER_BYTES} bytes")
            else:
                answer.close()
            if answer.done:
                await _drain(chunks)
            reply = answer.reply(recorded=recorded)
        except Fault as error:
            raise self._named(error, answer) from None
        except httpx.HTTPError as error:
            raise self._named(_broken(error), answer) from None
        if answer.refusal is not None:
            fault = refusal_fault(answer.refusal, status=None, secrets=self._secrets(), where=str(self.route))
            raise answer.with_usage(fault)
        keep = response.extensions.get("slate_keep")
        if keep is not None and reply.finish != "content_filter":
            keep()
        return reply

    async def _refused(self, response: httpx.Response) -> Fault:
        """The fault of an answer that is not 200."""
        now = self._clock()
        if 300 <= response.status_code < 400:
            target = plain_url(response.headers.get("location", ""))
            text = f"{self.route}: {self._shown} redirects to {redact(target, self._secrets())}; set that as baseUrl"
            return Fault("bad-request", text, status=response.status_code)
        body = b""
        try:
            async for chunk in unpacked(response):
                body += chunk
                if len(body) > MAX_ERROR_BYTES:
                    break
        except httpx.HTTPError as error:  # the status alone says what happened
            body = body or f"the body could not be read ({type(error).__name__})".encode()
        wait = retry_after_s(response.headers.items(), now_ns=now)
        return refusal_fault(
            read_refusal(_decoded(body)),
            status=response.status_code,
            retry_after_s=wait,
            secrets=self._secrets(),
            where=str(self.route),
        )

    def _unanswered(self, error: httpx.HTTPError) -> Fault:
        """The fault of an exchange that got no answer at all."""
        said = redact(str(error), self._secrets()) or type(error).__name__
        where = f"{self.route}: "
        if isinstance(error, (httpx.ConnectError, httpx.ProxyError)):
            wrong = isinstance(error.__cause__, ssl.SSLError) or "certificate" in said.lower()
            hint = "check its certificate" if wrong else "is it running, and is baseUrl right?"
            text = f"{where}cannot connect to {self._shown} ({said}); {hint}"
            return Fault("unreachable", text, transient=not wrong)
        if isinstance(error, httpx.TimeoutException):
            return Fault("timeout", f"{where}{self._shown} did not answer in time ({said})", transient=True)
        if isinstance(error, (httpx.UnsupportedProtocol, httpx.LocalProtocolError)):
            return Fault("bad-request", f"{where}{self._shown} cannot be asked ({said}); check baseUrl")
        text = f"{where}the connection to {self._shown} was lost before the answer ({said})"
        return Fault("retry-exhausted", text, transient=True)

    def _named(self, fault: Fault, answer: Answer) -> Fault:
        fault = answer.with_usage(fault)
        fault.message = f"{self.route}: {redact(fault.message, self._secrets())}"
        fault.args = (fault.message,)
        return fault

    def _secrets(self) -> list[Secret]:
        return [*self._headers.values(), *([self._key] if self._key else []), *self._password]

    def _hide(self, text: str) -> str:
        """What is kept of an answer: without the keys, should the provider echo one."""
        keys = [value for name, value in self._headers.items() if is_credential(name)]
        return hide(text, [*keys, *([self._key] if self._key else []), *self._password])


def _body(response: httpx.Response) -> AsyncIterator[bytes]:
    """The chunks as they came; only a packed body is unpacked on the way."""
    if "content-encoding" in response.headers:
        return unpacked(response)
    assert isinstance(response.stream, httpx.AsyncByteStream)
    return response.stream.__aiter__()


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read on to the end of the body, briefly."""
    try:
        async with asyncio.timeout(DRAIN_S):
            async for _ in chunks:
                pass
    except (TimeoutError, httpx.HTTPError):
        pass  # the answer is complete; only the connection is lost


def _broken(error: httpx.HTTPError) -> Fault:
    """The fault of an answer that had begun."""
    said = str(error) or type(error).__name__
    if isinstance(error, httpx.TimeoutException):
        return Fault("timeout", f"the answer stopped coming ({said})", transient=True)
    return Fault("bad-reply", f"the answer broke off ({said})", transient=True)


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):  # not JSON: the text itself
        return body.decode("utf-8", "replace")

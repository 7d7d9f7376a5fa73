"""The one way out to HTTP: httpx's transport interface on aiohttp's connection pool.

In: an `httpx.Request`. Out: an `httpx.Response` whose body arrives chunk by chunk as it was sent. Made once by
`connect` for each provider; the embedded server and the recorder stand in front of it. Proxies, `.netrc` and other
settings of the environment are left alone unless asked for. Failures come out as httpx's own exceptions, told apart:
refused, timed out, cut off.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from functools import cache
from typing import NoReturn

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

__all__ = ["open_transport"]


def open_transport(
    *, trust_env: bool = False, proxy: str | None = None, max_connections: int = 512, keepalive_s: float | None = 30.0
) -> httpx.AsyncBaseTransport:
    """A transport; it opens nothing until the first request, and must be closed on the loop that used it.

    Args:
        trust_env: follow the environment's proxy and certificate settings.
        proxy: an HTTP proxy for every request.
        max_connections: sockets at once; the caps on calls are the gate's.
        keepalive_s: how long an idle connection is kept; None opens one for every request.
    """
    return _Transport(
        verify=_tls(trust_env),
        trust_env=trust_env,
        proxy=httpx.Proxy(proxy) if proxy else None,
        client=lambda: aiohttp.ClientSession(
            connector=_connector(trust_env, max_connections, keepalive_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=trust_env,
            auto_decompress=False,
        ),
    )


def _connector(trust_env: bool, limit: int, keepalive_s: float | None) -> aiohttp.TCPConnector:
    if keepalive_s is None:
        return aiohttp.TCPConnector(ssl=_tls(trust_env), limit=limit, force_close=True)
    return aiohttp.TCPConnector(ssl=_tls(trust_env), limit=limit, keepalive_timeout=keepalive_s)


@cache
def _tls(trust_env: bool) -> ssl.SSLContext:
    """One context for all: reading the certificates takes tens of milliseconds."""
    return httpx.create_ssl_context(trust_env=trust_env)


class _Transport(AiohttpTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            response: httpx.Response = await super().handle_async_request(request)
        except (httpx.TransportError, aiohttp.ClientError, OSError) as error:
            _raise_plain(error, request, answered=False)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Body(response.stream, request)
        return response


class _Body(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, request: httpx.Request) -> None:
        self._inner = inner
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner:
                yield chunk
        except (httpx.TransportError, aiohttp.ClientError, OSError) as error:
            _raise_plain(error, self._request, answered=True)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _raise_plain(error: Exception, request: httpx.Request, *, answered: bool) -> NoReturn:
    """Raise what happened, by the cause: the library calls a refused connection and a lost one `ConnectTimeout`."""
    cause = error.__cause__ or error
    kind: type[httpx.TransportError]
    if isinstance(cause, aiohttp.ClientConnectorError):
        kind = httpx.ConnectError
    elif isinstance(cause, aiohttp.SocketTimeoutError) or isinstance(error, httpx.ReadTimeout):
        kind = httpx.ReadTimeout
    elif isinstance(cause, (aiohttp.ConnectionTimeoutError, TimeoutError)):
        kind = httpx.ReadTimeout if answered else httpx.ConnectTimeout
    elif isinstance(cause, (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, OSError)):
        kind = httpx.ReadError
    elif isinstance(error, aiohttp.ClientError):  # also what follows an answer longer than it said it was
        kind = httpx.RemoteProtocolError
    else:
        raise error
    raise kind(str(cause) or type(cause).__name__, request=request) from cause

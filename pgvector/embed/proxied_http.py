"""HTTP through the proxies of the environment, by httpx, which takes longer to import than most endpoints to answer."""

from __future__ import annotations

import socket
import ssl
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from ..domain.errors import EmbedderError
from .transport import (
    KEEPALIVE_S,
    MAX_CONNECTIONS,
    AllBusy,
    AnswerTooSlow,
    ConnectTooSlow,
    Deadline,
    OpenReply,
    TransportClosed,
    TransportError,
    addresses,
)

# The command line of httpx, if rich is installed, takes longer to load than all the rest of it: it is left out.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
import httpcore  # noqa: E402
import httpx  # noqa: E402

# A write is cut into pieces of this size, so that a server that reads slowly meets the deadline too.
_WRITE_BYTES = 64 * 1024

_deadline_at: ContextVar[float] = ContextVar("hermes_pgvector_embed_deadline_at")


def trusted_by_default(*, use_environment: bool) -> ssl.SSLContext:
    """Return what trusts the certificates that the environment names, else the usual ones. Raises OSError."""
    return httpx.create_ssl_context(trust_env=use_environment)


class ProxiedHttp:
    """The transport for whatever httpx can reach, with TLS where `context` is given.

    Raises EmbedderError where the proxies cannot be used.
    """

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._closed = False
        try:
            self._client = httpx.Client(
                verify=context or False,
                limits=httpx.Limits(
                    max_connections=MAX_CONNECTIONS,
                    max_keepalive_connections=MAX_CONNECTIONS,
                    keepalive_expiry=KEEPALIVE_S,
                ),
            )
        except (ValueError, ImportError, httpx.InvalidURL) as exc:
            raise EmbedderError(f"the proxy that the environment names cannot be used: {exc}") from None
        _enforce_deadlines(self._client)

    @contextmanager
    def answer(
        self, url: str, content: bytes | None, headers: Mapping[str, str], deadline: Deadline
    ) -> Iterator[OpenReply]:
        """Post `content`, or with None send a GET, and yield what comes back; see Transport."""
        token = _deadline_at.set(deadline.at)
        try:
            left_s = deadline.left_s()
            if left_s <= 0:
                raise AnswerTooSlow
            method = "GET" if content is None else "POST"
            with self._client.stream(
                method, url, content=content, headers=dict(headers), timeout=httpx.Timeout(left_s)
            ) as response:
                yield OpenReply(response.status_code, dict(response.headers), response.iter_raw())
        except httpx.PoolTimeout:
            raise AllBusy from None
        except httpx.ConnectTimeout:
            raise ConnectTooSlow from None
        except httpx.TimeoutException:
            raise AnswerTooSlow from None
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            said = str(exc) or type(exc).__name__
            if isinstance(exc, httpx.TransportError):
                raise TransportError(said) from None
            raise EmbedderError(said) from None
        except RuntimeError:
            if not self._closed:
                raise
            raise TransportClosed from None
        finally:
            _deadline_at.reset(token)

    def close(self) -> None:
        """Close all connections, also those in use, whose requests end at once."""
        self._closed = True
        self._client.close()


def _enforce_deadlines(client: httpx.Client) -> None:
    """Bound the sum of a request's socket operations.

    httpx bounds each operation alone, so a server that sends one byte of the headers or of the body a second keeps
    a request alive for hours. httpcore takes a network backend for such needs, but httpx does not hand one on.
    """
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx.HTTPTransport):
            pool = transport._pool
            pool._network_backend = _DeadlineBackend(pool._network_backend)


def _left_s(timeout_s: float | None, expired: type[httpcore.TimeoutException]) -> float | None:
    at = _deadline_at.get(None)
    if at is None:
        return timeout_s
    left_s = at - time.monotonic()
    if left_s <= 0:
        raise expired("")
    return left_s if timeout_s is None else min(left_s, timeout_s)


class _DeadlineStream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, timeout=_left_s(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _WRITE_BYTES):
            piece = buffer[start : start + _WRITE_BYTES]
            self._inner.write(piece, timeout=_left_s(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        sock = self._inner.get_extra_info("socket")
        if isinstance(sock, socket.socket):
            # Closing alone leaves a thread that is blocked in recv() waiting for its timeout.
            with suppress(OSError):
                # TLS's own first lets go of its keys: what is written in this moment would travel in the clear.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left_s = _left_s(timeout, httpcore.ConnectTimeout)
        return _DeadlineStream(self._inner.start_tls(ssl_context, server_hostname, left_s))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _DeadlineBackend(httpcore.NetworkBackend):
    def __init__(self, inner: httpcore.NetworkBackend) -> None:
        self._inner = inner

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        try:
            found = addresses(host, port)
        except TransportError as exc:
            raise httpcore.ConnectError(str(exc)) from exc
        for waiting, address in zip(range(len(found), 0, -1), found, strict=True):
            left_s = _left_s(timeout, httpcore.ConnectTimeout)
            # An address that drops packets must leave time for the ones after it.
            share_s = None if left_s is None else left_s / waiting
            try:
                stream = self._inner.connect_tcp(address, port, share_s, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if waiting == 1:
                    raise
            else:
                return _DeadlineStream(stream)
        raise httpcore.ConnectError(f"{host} has no address")

"""One POST over httpx that is over by its deadline, whatever the server does."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpcore
import httpx

from ..domain.errors import EmbedderError, EmbedderUnavailable

# 64 vectors of 4,096 numbers at 22 characters are 6 MB; more than ten times that is no answer to us.
MAX_REPLY_BYTES = 64 * 1024 * 1024
# Recall embeds one question at a time and the drain one batch: more would only queue in the endpoint.
_MAX_CONNECTIONS = 8
_KEEPALIVE_S = 30.0
# A write is cut into pieces of this size, so that a server that reads slowly meets the deadline too.
_WRITE_BYTES = 64 * 1024

_deadline_at: ContextVar[float] = ContextVar("hermes_pgvector_embed_deadline_at")


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the monotonic clock, and how many seconds it was away when it was set."""

    at: float
    total_s: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """The moment `seconds` from now."""
        return cls(time.monotonic() + seconds, seconds)

    def left_s(self) -> float:
        """Seconds to go; 0 or less when it has passed."""
        return self.at - time.monotonic()


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete HTTP reply; header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpTransport:
    """A small pool of kept-alive connections, opened at the first post. Safe to call from several threads."""

    def __init__(self, *, headers: Mapping[str, str], auth: tuple[str, str] | None, ca_file: str = "") -> None:
        self._headers = dict(headers)
        self._auth = auth
        self._ca_file = ca_file
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._closed = False

    def post(self, url: str, body: bytes, *, label: str, deadline: Deadline) -> Reply:
        """Send JSON and read the whole reply; `label` names the endpoint in errors.

        Raises EmbedderUnavailable when there is no complete answer by the deadline (name resolution alone is
        bounded by the system's resolver), EmbedderError when the answer cannot be read.
        """
        token = _deadline_at.set(deadline.at)
        try:
            return self._post(url, body, deadline)
        except httpx.PoolTimeout:
            raise EmbedderUnavailable(
                f"{label}: all {_MAX_CONNECTIONS} connections were busy for {deadline.total_s:.3g} s"
            ) from None
        except httpx.TimeoutException as exc:
            doing = "connection" if isinstance(exc, httpx.ConnectTimeout) else "complete answer"
            raise EmbedderUnavailable(f"{label}: no {doing} within {deadline.total_s:.3g} s") from None
        except httpx.TransportError as exc:
            raise EmbedderUnavailable(f"{label}: {str(exc) or type(exc).__name__}") from None
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            raise EmbedderError(f"{label}: {str(exc) or type(exc).__name__}") from None
        except _ReplyTooLarge:
            raise EmbedderError(f"{label}: expected less than {MAX_REPLY_BYTES} bytes, got more") from None
        except RuntimeError:
            if not self._closed:
                raise
            raise EmbedderUnavailable(f"{label}: the embedder was closed") from None
        finally:
            _deadline_at.reset(token)

    def _post(self, url: str, body: bytes, deadline: Deadline) -> Reply:
        client = self._open_client()
        left_s = deadline.left_s()
        if left_s <= 0:
            raise httpx.ReadTimeout("")
        with client.stream("POST", url, content=body, timeout=httpx.Timeout(left_s)) as response:
            read = bytearray()
            for chunk in response.iter_bytes():
                read += chunk
                if len(read) > MAX_REPLY_BYTES:
                    raise _ReplyTooLarge
            return Reply(response.status_code, dict(response.headers), bytes(read))

    def _open_client(self) -> httpx.Client:
        with self._lock:
            if self._closed:
                raise RuntimeError("closed")
            if self._client is None:
                self._client = self._new_client()
                _enforce_deadlines(self._client)
            return self._client

    def _new_client(self) -> httpx.Client:
        """A client that trusts and goes through what the environment names, as httpx reads it."""
        try:
            return httpx.Client(
                headers={"Content-Type": "application/json", **self._headers},
                auth=self._auth,
                verify=ssl.create_default_context(cafile=self._ca_file) if self._ca_file else True,
                limits=httpx.Limits(
                    max_connections=_MAX_CONNECTIONS,
                    max_keepalive_connections=_MAX_CONNECTIONS,
                    keepalive_expiry=_KEEPALIVE_S,
                ),
            )
        except OSError as exc:
            source = f"embed_ca_file {self._ca_file}" if self._ca_file else "SSL_CERT_FILE or SSL_CERT_DIR"
            raise EmbedderError(f"the certificates of {source} cannot be read: {exc.strerror or exc}") from None
        except (ValueError, ImportError, httpx.InvalidURL) as exc:
            raise EmbedderError(f"the proxy that the environment names cannot be used: {exc}") from None

    def close(self) -> None:
        """Close all connections, also those in use: their posts end at once with EmbedderUnavailable."""
        with self._lock:
            self._closed = True
            client, self._client = self._client, None
        if client is not None:
            client.close()


class _ReplyTooLarge(Exception):
    pass


def _enforce_deadlines(client: httpx.Client) -> None:
    """Bound the sum of a request's socket operations.

    httpx bounds each operation alone, so a server that sends one byte of the headers or of the body a second keeps
    a request alive for hours. httpcore takes a network backend for such needs, but httpx does not hand one on.
    """
    transports = [client._transport, *client._mounts.values()]
    for transport in transports:
        if isinstance(transport, httpx.HTTPTransport):
            pool = transport._pool
            pool._network_backend = _TimedBackend(pool._network_backend)


def _left_s(timeout_s: float | None, expired: type[httpcore.TimeoutException]) -> float | None:
    at = _deadline_at.get(None)
    if at is None:
        return timeout_s
    left_s = at - time.monotonic()
    if left_s <= 0:
        raise expired("")
    return left_s if timeout_s is None else min(left_s, timeout_s)


class _TimedStream(httpcore.NetworkStream):
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
                sock.shutdown(socket.SHUT_RDWR)
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left_s = _left_s(timeout, httpcore.ConnectTimeout)
        return _TimedStream(self._inner.start_tls(ssl_context, server_hostname, left_s))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _TimedBackend(httpcore.NetworkBackend):
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
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as exc:
            raise httpcore.ConnectError(f"cannot resolve {host}: {exc}") from exc
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        for waiting, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            left_s = _left_s(timeout, httpcore.ConnectTimeout)
            # An address that drops packets must leave time for the ones after it.
            share_s = None if left_s is None else left_s / waiting
            try:
                stream = self._inner.connect_tcp(address, port, share_s, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if waiting == 1:
                    raise
            else:
                return _TimedStream(stream)
        raise httpcore.ConnectError(f"{host} has no address")

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        return _TimedStream(
            self._inner.connect_unix_socket(path, _left_s(timeout, httpcore.ConnectTimeout), socket_options)
        )

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)

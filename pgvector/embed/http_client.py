"""The HTTP client of every endpoint: chooses the endpoint, authenticates, and keeps a request's deadline."""

from __future__ import annotations

import json
import socket
import ssl
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

from ..domain.errors import ConfigurationError, EmbedderError, EmbedderUnavailable, InputTooLong
from .endpoint import ESCAPES, Endpoint, NoSuchEndpoint, Reply, is_azure, parse_url

# If rich is installed, httpx imports its command line, which takes longer than all the rest: it is left out.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
import httpcore  # noqa: E402
import httpx  # noqa: E402

_T = TypeVar("_T")
# 64 vectors of 4,096 numbers at 22 characters are 6 MB; more than ten times that cannot be the answer.
MAX_REPLY_BYTES = 64 * 1024 * 1024
# Recall embeds one question at a time and the drain one batch: more would only queue in the endpoint.
_MAX_CONNECTIONS = 8
_KEEPALIVE_S = 30.0
_ENCODINGS = ("gzip", "x-gzip", "deflate")
_ANY_HEADER = 32 + 15  # window bits by which zlib accepts a header of gzip or zlib
# A write is cut into pieces of this size, so that a server that reads slowly meets the deadline too.
_WRITE_BYTES = 64 * 1024
# Shorter secrets are no secrets, and masking them would make messages unreadable.
_MIN_SECRET_CHARS = 4
# Each answer may set new ones, and every later request would carry them all.
_NO_COOKIES = DefaultCookiePolicy(allowed_domains=())
_NO_PROXY = "the proxy that the environment names cannot be used"

_deadline_at: ContextVar[float] = ContextVar("hermes_pgvector_embed_deadline_at")


class Deadline(NamedTuple):
    """A moment on the monotonic clock, and how many seconds it was away when it was set."""

    at: float
    total_s: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the moment `seconds` from now."""
        return cls(time.monotonic() + seconds, seconds)

    def left_s(self) -> float:
        """Return the seconds to go; 0 or less when it has passed."""
        return self.at - time.monotonic()


class HttpClient:
    """Asks the first of several endpoints that answers, over keep-alive connections. Safe to call from several threads.

    User and password are those in `url`, unless there is a key; Azure's key has a header of its own. `ca_file` holds
    the certificates to trust instead of the usual ones; `purpose` is the kind of endpoint in messages. Connects at
    the first request. Raises ConfigurationError for a key that no header can hold.
    """

    def __init__(
        self,
        url: str,
        endpoints: Sequence[Endpoint],
        *,
        purpose: str,
        api_key: str = "",
        ca_file: str = "",
        use_environment: bool = True,
    ) -> None:
        self._endpoints = endpoints
        self._chosen = endpoints[0] if len(endpoints) == 1 else None
        self._purpose = purpose
        parts = parse_url(url, endpoints[0].setting)
        user, password, key = unquote(parts.username or ""), unquote(parts.password or ""), _checked(api_key, purpose)
        self._secrets = [secret for secret in (key, password) if len(secret) >= _MIN_SECRET_CHARS]
        self._headers = _headers(key, azure=is_azure(parts))
        self._auth = (user, password) if user and not key else None
        self._tls = parts.scheme == "https"
        self._ca_file = ca_file
        self._use_environment = use_environment
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._closed = False

    @property
    def endpoint(self) -> Endpoint:
        """Return the endpoint that answers; before the first answer the one that is tried first."""
        return self._chosen or self._endpoints[0]

    def ask(self, exchange: Callable[[Endpoint], _T]) -> _T:
        """Return the result of `exchange` with the endpoint that answers; the first call finds out which one does.

        Raises what `exchange` raises, with key and password masked, and EmbedderError when none of them exists.
        """
        try:
            return exchange(self._chosen) if self._chosen is not None else self._find(exchange)
        except EmbedderError as exc:
            exc.args = tuple(self._masked(str(arg)) for arg in exc.args)
            raise

    def send(self, endpoint: Endpoint, body: object, deadline: Deadline) -> Reply:
        """Post `body` as JSON, or with None send a GET, and read the whole reply.

        Raises EmbedderUnavailable when there is no complete answer by the deadline (name resolution alone is
        bounded by the system's resolver), EmbedderError when the answer cannot be read.
        """
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        token = _deadline_at.set(deadline.at)
        try:
            return self._send(endpoint.url, content, deadline)
        except (httpx.HTTPError, httpx.InvalidURL, _ReplyTooLarge) as exc:
            raise _translated(exc, endpoint.label, deadline) from None
        except RuntimeError:
            if not self._closed:
                raise
            raise EmbedderUnavailable(f"{endpoint.label}: the embedder was closed") from None
        finally:
            _deadline_at.reset(token)

    def close(self) -> None:
        """Close all connections, also those in use: their requests end at once with EmbedderUnavailable."""
        with self._lock:
            self._closed = True
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _find(self, exchange: Callable[[Endpoint], _T]) -> _T:
        refused: list[str] = []
        for endpoint in self._endpoints:
            try:
                answer = exchange(endpoint)
            except NoSuchEndpoint as exc:
                refused.append(str(exc))
                continue
            except InputTooLong:
                self._chosen = endpoint
                raise
            self._chosen = endpoint
            return answer
        setting = self._endpoints[0].setting
        raise EmbedderError(f"{setting} names no {self._purpose} endpoint: {'; '.join(refused)}")

    def _masked(self, message: str) -> str:
        for secret in self._secrets:
            message = message.replace(secret, "***")
        return message

    def _send(self, url: str, content: bytes | None, deadline: Deadline) -> Reply:
        client = self._open_client()
        left_s = deadline.left_s()
        if left_s <= 0:
            raise httpx.ReadTimeout("")
        method = "GET" if content is None else "POST"
        with client.stream(method, url, content=content, timeout=httpx.Timeout(left_s)) as response:
            return Reply(response.status_code, dict(response.headers), _body(response))

    def _open_client(self) -> httpx.Client:
        with self._lock:
            if self._closed:
                raise RuntimeError("closed")
            if self._client is None:
                self._client = self._new_client()
                _enforce_deadlines(self._client)
            return self._client

    def _trusted(self) -> ssl.SSLContext | bool:
        # Loading the usual certificates takes longer than a request, and without TLS no server presents one.
        return ssl.create_default_context(cafile=self._ca_file) if self._ca_file else self._tls

    def _new_client(self) -> httpx.Client:
        """Return a client with the certificates and the proxy that the environment names, as httpx reads it."""
        try:
            return httpx.Client(
                headers=self._headers,
                auth=self._auth,
                cookies=CookieJar(_NO_COOKIES),
                verify=self._trusted(),
                trust_env=self._use_environment,
                limits=httpx.Limits(
                    max_connections=_MAX_CONNECTIONS,
                    max_keepalive_connections=_MAX_CONNECTIONS,
                    keepalive_expiry=_KEEPALIVE_S,
                ),
            )
        except OSError as exc:
            source = f"embed_ca_file {self._ca_file}" if self._ca_file else "SSL_CERT_FILE or SSL_CERT_DIR"
            raise EmbedderError(f"the certificates of {source} cannot be read: {exc.strerror or exc}") from None
        except ImportError as exc:
            raise EmbedderError(f"{_NO_PROXY}: {exc}") from None
        except (ValueError, httpx.InvalidURL):
            # What it says of the address may be part of the password.
            raise EmbedderError(f"{_NO_PROXY}: its address cannot be read; {ESCAPES}") from None


class _ReplyTooLarge(Exception):
    pass


def _body(response: httpx.Response) -> bytes:
    """Return the body, decompressed only up to the size limit; httpx would decompress all, as often as headers say."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", *_ENCODINGS):
        raise httpx.DecodingError(f"expected a body without encoding or in gzip, got {encoding[:40]!r}")
    packed = zlib.decompressobj(_ANY_HEADER) if encoding in _ENCODINGS else None
    read = bytearray()
    try:
        for chunk in response.iter_raw():
            read += chunk if packed is None else packed.decompress(chunk, MAX_REPLY_BYTES + 1 - len(read))
            if len(read) > MAX_REPLY_BYTES:
                raise _ReplyTooLarge
    except zlib.error as exc:
        raise httpx.DecodingError(f"expected a body in {encoding}: {exc}") from None
    return bytes(read)


def _checked(api_key: str, purpose: str) -> str:
    key = api_key.strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(f"the {purpose} endpoint's API key holds characters that no HTTP header can; check it")
    return key


def _headers(key: str, *, azure: bool) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept-Encoding": "gzip"}
    if not key:
        return headers
    return headers | ({"api-key": key} if azure else {"Authorization": f"Bearer {key}"})


def _translated(exc: Exception, label: str, deadline: Deadline) -> EmbedderError:
    match exc:
        case httpx.PoolTimeout():
            busy = f"all {_MAX_CONNECTIONS} connections were busy for {deadline.total_s:.3g} s"
            return EmbedderUnavailable(f"{label}: {busy}")
        case httpx.ConnectTimeout():
            return EmbedderUnavailable(f"{label}: no connection within {deadline.total_s:.3g} s")
        case httpx.TimeoutException():
            return EmbedderUnavailable(f"{label}: no complete answer within {deadline.total_s:.3g} s")
        case _ReplyTooLarge():
            return EmbedderError(f"{label}: expected less than {MAX_REPLY_BYTES} bytes, got more")
    kind = EmbedderUnavailable if isinstance(exc, httpx.TransportError) else EmbedderError
    return kind(f"{label}: {str(exc) or type(exc).__name__}")


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
                # A TLS socket's own shutdown drops TLS first: what is written in that moment travels in the clear.
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
                return _DeadlineStream(stream)
        raise httpcore.ConnectError(f"{host} has no address")

"""The HTTP client of every endpoint: who is asked, with which key, and that it is over by its deadline."""

from __future__ import annotations

import json
import ssl
import threading
import zlib
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import unquote

from ..domain.errors import ConfigurationError, EmbedderError, EmbedderUnavailable, InputTooLong
from ..domain.fork_safety import at_import
from .direct_http import DirectHttp, names_proxies
from .endpoint import Endpoint, NoSuchEndpoint, Reply, is_azure, parse_url
from .transport import (
    MAX_CONNECTIONS,
    AllBusy,
    AnswerTooSlow,
    ConnectTooSlow,
    Deadline,
    OpenReply,
    Transport,
    TransportClosed,
    TransportError,
)

_T = TypeVar("_T")
# 64 vectors of 4,096 numbers at 22 characters are 6 MB; more than ten times that is no answer to us.
MAX_REPLY_BYTES = 64 * 1024 * 1024
_ENCODINGS = ("gzip", "x-gzip", "deflate")
_ANY_HEADER = 32 + 15  # of gzip or zlib
# Shorter secrets are no secrets, and masking them would make messages unreadable.
_MIN_SECRET_CHARS = 4


class HttpClient:
    """Asks the first of some endpoints that answers, over kept-alive connections. Safe to call from several threads.

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
        if user and not key:
            self._headers["Authorization"] = f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"
        self._tls = parts.scheme == "https"
        self._ca_file = ca_file
        self._use_environment = use_environment
        self._lock = threading.Lock()
        self._transport: Transport | None = None
        self._closed = False

    @property
    def endpoint(self) -> Endpoint:
        """Return the endpoint that answers; before the first answer the one that is tried first."""
        return self._chosen or self._endpoints[0]

    def ask(self, exchange: Callable[[Endpoint], _T]) -> _T:
        """Return what `exchange` makes of the endpoint that answers; the first call finds out which it is.

        Raises what `exchange` raises, with key and password masked, and EmbedderError when no endpoint is there.
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
        label = endpoint.label
        try:
            with self._open().answer(endpoint.url, content, self._headers, deadline) as answer:
                return Reply(answer.status, answer.headers, _body(answer))
        except TransportError as exc:
            raise EmbedderUnavailable(f"{label}: {_told(exc, deadline)}") from None
        except TransportClosed:
            raise EmbedderUnavailable(f"{label}: the embedder was closed") from None
        except _Unreadable as exc:
            raise EmbedderError(f"{label}: {exc}") from None

    def close(self) -> None:
        """Close all connections, also those in use: their requests end at once with EmbedderUnavailable."""
        with self._lock:
            self._closed = True
            transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()

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

    def _open(self) -> Transport:
        with self._lock:
            if self._closed:
                raise TransportClosed
            if self._transport is None:
                self._transport = self._new_transport()
            return self._transport

    def _new_transport(self) -> Transport:
        """Return the way to the server that all endpoints are on, through what the environment names."""
        # Without TLS nobody shows a certificate, and to read the usual ones takes longer than to ask.
        context = self._context() if self._tls or self._ca_file else None
        if not (self._use_environment and names_proxies()):
            return DirectHttp(context if self._tls else None)
        with at_import:
            from .proxied_http import ProxiedHttp

        return ProxiedHttp(context)

    def _context(self) -> ssl.SSLContext:
        try:
            if self._ca_file:
                return ssl.create_default_context(cafile=self._ca_file)
            with at_import:
                from .proxied_http import trusted_by_default

            return trusted_by_default(use_environment=self._use_environment)
        except OSError as exc:
            source = f"embed_ca_file {self._ca_file}" if self._ca_file else "SSL_CERT_FILE or SSL_CERT_DIR"
            raise EmbedderError(f"the certificates of {source} cannot be read: {exc.strerror or exc}") from None


class _Unreadable(Exception):
    pass


def _body(answer: OpenReply) -> bytes:
    """Return the body, unpacked no further than it may be long."""
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", *_ENCODINGS):
        raise _Unreadable(f"expected a body without encoding or in gzip, got {encoding[:40]!r}")
    packed = zlib.decompressobj(_ANY_HEADER) if encoding in _ENCODINGS else None
    read = bytearray()
    try:
        for chunk in answer.chunks:
            read += chunk if packed is None else packed.decompress(chunk, MAX_REPLY_BYTES + 1 - len(read))
            if len(read) > MAX_REPLY_BYTES:
                raise _Unreadable(f"expected less than {MAX_REPLY_BYTES} bytes, got more")
    except zlib.error as exc:
        raise _Unreadable(f"expected a body in {encoding}: {exc}") from None
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


def _told(exc: TransportError, deadline: Deadline) -> str:
    match exc:
        case AllBusy():
            return f"all {MAX_CONNECTIONS} connections were busy for {deadline.total_s:.3g} s"
        case ConnectTooSlow():
            return f"no connection within {deadline.total_s:.3g} s"
        case AnswerTooSlow():
            return f"no complete answer within {deadline.total_s:.3g} s"
    return str(exc)

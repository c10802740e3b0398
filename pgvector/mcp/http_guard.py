"""The guard before the MCP server on HTTP: it decides who may call, from where, how often and how much."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from ..domain.errors import ConfigurationError
from ..domain.lru import LruDict
from .access import SCOPE_KEY, Access
from .tokens import Token, TokenFile, find_token
from .whole_characters import whole_characters_in

logger = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_DECISIVE: Final = frozenset(
    {"host", "origin", "authorization", "content-length", "x-hermes-session-key", "mcp-session-id"}
)
_ANY_ADDRESS: Final = frozenset({"", "0.0.0.0", "::"})  # no names to call a server by
# Of one address: unknown tokens that are checked, and log lines about rejected requests.
_REFUSED_PER_S: Final = 1.0
_REFUSED_BURST: Final = 20
_ERROR_CODE: Final = -32600  # JSON-RPC's code of a request that is not served


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What one caller may ask of the server; a caller is a token, or without one an address."""

    body_bytes: int = 4 * 1024 * 1024
    body_s: float = 30.0
    requests_per_s: float = 100.0
    burst: int = 400


class HttpGuard:
    """An ASGI application that wraps another one and calls it only for requests that may be served.

    The wrapped one finds their `Access` in the scope; without tokens, on loopback, there is none.
    """

    def __init__(
        self,
        app: AsgiApp,
        tokens: TokenFile,
        *,
        listen: str,
        names: Iterable[str] = (),
        limits: HttpLimits | None = None,
    ) -> None:
        """Guard `app`: `listen` is the address the server is bound to, `names` are further names that clients use.

        Raises ConfigurationError if anybody who reaches the address could read the memory.
        """
        self._app = app
        self._tokens = tokens
        self._limits = limits or HttpLimits()
        self._names = LOOPBACK_NAMES | {name.strip("[]").lower() for name in (listen, *names)} - _ANY_ADDRESS
        # Once a token was needed, it stays so: removing the last one must not open the server to everybody.
        self._closed = bool(tokens.read()) or not is_loopback(listen)
        if not tokens.read() and self._closed:
            raise ConfigurationError(
                f"{listen} can be reached from other machines: make a token first with "
                "`hermes-pgvector mcp token add NAME --theme THEME`, or listen on 127.0.0.1"
            )
        self._rates = RequestRates(self._limits.requests_per_s, self._limits.burst)
        self._unknown = RequestRates(_REFUSED_PER_S, _REFUSED_BURST)
        self._told = RequestRates(_REFUSED_PER_S, _REFUSED_BURST)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve a request, or reject it and say why."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            headers = _Headers(scope)
            self._check_names(headers)
            access = self._admitted(headers, _address(scope))
            body = await self._body(headers, receive)
        except _Refused as no:
            address = _address(scope)
            if not self._told.wait_s(address, time.monotonic()):
                logger.warning("hermes-pgvector: a request from %s was refused: %s", address, no)
            await _answer(no, send)
            return
        scope.pop(SCOPE_KEY, None)
        if access is not None:
            scope[SCOPE_KEY] = access
        await self._app(scope, _replayed(whole_characters_in(body), receive), send)

    def _check_names(self, headers: _Headers) -> None:
        """Reject requests of web pages whose own host name was made to point at this address."""
        host = headers["host"]
        if _host_name(f"//{host}") not in self._names:
            raise _Refused(403, f"the host {host[:200]!r} is not a name of this server; it is given by --allow-host")
        origin = headers["origin"]
        if origin and _host_name(origin) not in self._names:
            raise _Refused(403, f"pages of {origin[:200]!r} may not call this server; it is given by --allow-host")

    def _admitted(self, headers: _Headers, address: str) -> Access | None:
        tokens = self._known_tokens()
        if not self._closed:
            self._count(self._rates, address)
            return None
        token = self._bearer(tokens, headers["authorization"], address)
        self._count(self._rates, token.name)
        return Access(themes=() if token.any_theme else token.themes, read_only=token.read_only)

    def _known_tokens(self) -> tuple[Token, ...]:
        try:
            tokens = self._tokens.read()
        except ConfigurationError as exc:
            self._closed = True
            raise _Refused(503, str(exc), told="the server cannot read its tokens; its log says more") from exc
        self._closed = self._closed or bool(tokens)
        return tokens

    def _bearer(self, tokens: tuple[Token, ...], header: str, address: str) -> Token:
        scheme, _, secret = header.partition(" ")
        if scheme.lower() == "bearer" and (token := find_token(tokens, secret.strip())) is not None:
            return token
        self._count(self._unknown, address)
        if not header:
            raise _Refused(401, "a token is needed: send `Authorization: Bearer TOKEN`", ("www-authenticate", "Bearer"))
        raise _Refused(401, "the token is not known here", ("www-authenticate", 'Bearer error="invalid_token"'))

    def _count(self, rates: RequestRates, caller: str) -> None:
        if wait_s := rates.wait_s(caller, time.monotonic()):
            seconds = str(math.ceil(wait_s))
            raise _Refused(429, f"too many requests; try again in {seconds} s", ("retry-after", seconds))

    async def _body(self, headers: _Headers, receive: Receive) -> bytes:
        too_large = _Refused(413, f"the request is larger than {self._limits.body_bytes:,} bytes")
        length = headers["content-length"]
        if length.isdecimal() and int(length[:20]) > self._limits.body_bytes:
            raise too_large
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.body_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Refused(400, "the request ended before its body did")
                    chunks.append(message.get("body", b""))
                    size += len(chunks[-1])
                    if size > self._limits.body_bytes:
                        raise too_large
                    if not message.get("more_body"):
                        return b"".join(chunks)
        except TimeoutError:
            raise _Refused(408, f"the request did not arrive within {self._limits.body_s:g} s") from None


class _Refused(Exception):
    """The reason why a request is rejected; its sender gets `told` instead, if the log says more."""

    def __init__(
        self,
        status: int,
        why: str,
        header: tuple[str, str] | None = None,
        *,
        told: str = "",
    ) -> None:
        super().__init__(why)
        self.status = status
        self.told = told or why
        self.header = header


class _Headers:
    """The headers of a request. One that decides what is served must not occur twice: which value counts is unclear."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self._values: dict[str, str] = {}
        for raw, value in scope["headers"]:
            name = raw.decode("latin-1").lower()
            if name in _DECISIVE and name in self._values:
                raise _Refused(400, f"the header {name} stands there twice")
            self._values[name] = value.decode("utf-8", "surrogateescape")

    def __getitem__(self, name: str) -> str:
        return self._values.get(name, "").strip()


def is_loopback(listen: str) -> bool:
    """Return whether only this machine reaches a server that is bound to this name or address."""
    if listen.lower() == "localhost":
        return True
    try:
        return ip_address(listen).is_loopback
    except ValueError:
        return False


def _host_name(url: str) -> str:
    try:
        parts = urlsplit(url)
        return (parts.hostname or "") if parts.port != 0 else ""
    except ValueError:  # also for a port that is no number, as in "127.0.0.1:80.example"
        return ""


def _address(scope: Mapping[str, Any]) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "a local socket"


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body which was already read, then what still comes."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _answer(no: _Refused, send: Send) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": _ERROR_CODE, "message": no.told}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if no.header is not None:
        headers.append((no.header[0].encode(), no.header[1].encode()))
    await send({"type": "http.response.start", "status": no.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


_CALLERS: Final = 1024  # that are counted; the one that has not called for longest is dropped


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class RequestRates:
    """Counts the calls of each caller: `per_s` on average, up to `burst` at once. Not thread-safe."""

    def __init__(self, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._buckets: LruDict[str, _Bucket] = LruDict(_CALLERS)

    def wait_s(self, caller: str, now: float) -> float:
        """Count a call at the monotonic time `now` and return 0, or do not count it and return the seconds to wait."""
        bucket = self._buckets.use(caller)
        if bucket is None:
            bucket = self._buckets[caller] = _Bucket(self._burst, now)
        bucket.left = min(self._burst, bucket.left + (now - bucket.at) * self._per_s)
        bucket.at = now
        if bucket.left < 1:
            return (1 - bucket.left) / self._per_s
        bucket.left -= 1
        return 0.0

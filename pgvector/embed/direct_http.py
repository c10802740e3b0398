"""HTTP/1.1 straight to a server, with TLS or without, over kept-alive connections, by `http.client`."""

from __future__ import annotations

import io
import os
import select
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse, IncompleteRead, RemoteDisconnected
from urllib.parse import SplitResult, quote, urlsplit

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

_PIECE_BYTES = 256 * 1024  # of an answer, at most, that is read before its length is looked at
# A write is cut into pieces of this size, so that a server that reads slowly meets the deadline too.
_WRITE_BYTES = 64 * 1024
_LEFT_AS_IT_IS = "%/:=&?~#+!$,;'@()*[]"  # in a URL
_NO_ANSWER = "Server disconnected without sending a response."
_CUT_OFF = "peer closed connection without sending complete message body"
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy"})


def names_proxies() -> bool:
    """Return whether the environment names a proxy, for whatever."""
    if sys.platform in ("darwin", "win32"):  # where the system names proxies as well
        from urllib.request import getproxies

        return not getproxies().keys().isdisjoint({"http", "https", "all"})
    return any(value and name.lower() in _PROXIES for name, value in os.environ.items())


class DirectHttp:
    """The transport to one server; connects at the first request, with TLS where `context` is given."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        if context is not None:
            context.set_alpn_protocols(["http/1.1"])
        self._context = context
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()
        self._closed = False

    @contextmanager
    def answer(
        self, url: str, content: bytes | None, headers: Mapping[str, str], deadline: Deadline
    ) -> Iterator[OpenReply]:
        """Post `content`, or with None send a GET, and yield what comes back; see Transport."""
        parts = urlsplit(url)
        with _translated(), self._lent(parts, deadline) as connection:
            response = connection.ask(_request(parts, content, headers))
            yield OpenReply(response.status, _by_name(response), _pieces(response))
            connection.finish(response)

    def close(self) -> None:
        """Close all connections, also those in use, whose requests end at once."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            used, self._all = self._all.difference(idle), set()
            # Whoever uses one closes it: that its number may be another connection's is not to happen under them.
            for connection in used:
                connection.interrupt()
        for connection in idle:
            connection.close()

    @contextmanager
    def _lent(self, parts: SplitResult, deadline: Deadline) -> Iterator[_Connection]:
        """Lend a connection, one that has answered before or a new one; nobody else has it meanwhile."""
        if self._closed:
            raise TransportClosed
        left_s = deadline.left_s()
        if left_s <= 0:
            raise AnswerTooSlow
        if not self._free.acquire(timeout=left_s):
            raise AllBusy
        try:
            connection = self._connection(parts, deadline)
            try:
                yield connection
            finally:
                self._put_back(connection)
        finally:
            self._free.release()

    def _connection(self, parts: SplitResult, deadline: Deadline) -> _Connection:
        while (idle := self._taken()) is not None:
            if idle.is_alive():
                idle.deadline = deadline
                return idle
            self._drop(idle)
        made = _Connection(_connected(parts, self._context, deadline), deadline)
        with self._lock:
            if not self._closed:
                self._all.add(made)
                return made
        made.close()
        raise TransportClosed

    def _taken(self) -> _Connection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _put_back(self, connection: _Connection) -> None:
        with self._lock:
            if connection.reusable and not self._closed:
                connection.idle_since = time.monotonic()
                self._idle.append(connection)
                return
        self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        with self._lock:
            self._all.discard(connection)
        connection.close()


class _Connection:
    """One connection, which answers one request after another; `reusable` once an answer was read to its end."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self.deadline = deadline
        self.idle_since = 0.0
        self.reusable = False
        self._sock = sock
        self._reader = _Reader(self)
        self._answers = _Answers(self._reader)

    def is_alive(self) -> bool:
        """Return whether nothing came while nobody asked, neither an end nor anything else."""
        if time.monotonic() - self.idle_since > KEEPALIVE_S:
            return False
        with suppress(OSError, ValueError):
            if isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():  # of which the system knows no more
                return False
            poll = getattr(select, "poll", None)
            if poll is None:
                return not select.select([self._sock], [], [], 0)[0]
            waiting = poll()
            waiting.register(self._sock, select.POLLIN)
            return not waiting.poll(0)
        return False

    def close(self) -> None:
        self.interrupt()
        self._sock.close()

    def interrupt(self) -> None:
        """Have whoever uses it meet its end at once."""
        # Closing alone leaves a thread that is blocked in recv() waiting for its timeout.
        with suppress(OSError):
            # TLS's own first lets go of its keys: what is written in this moment would travel in the clear.
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def ask(self, request: bytes) -> HTTPResponse:
        """Send a request and read the head of its answer. Raises OSError or HTTPException."""
        self.reusable = self._reader.ended = False
        for start in range(0, len(request), _WRITE_BYTES):
            self._bounded().sendall(request[start : start + _WRITE_BYTES])
        while True:
            response = HTTPResponse(_Source(self._answers), method="POST")  # type: ignore[arg-type]
            response.begin()
            if response.status >= 200:
                return response

    def finish(self, response: HTTPResponse) -> None:
        """Note whether another request may follow: the answer was read to its end, and nothing came behind it."""
        self._reader.ended = True
        self.reusable = response.isclosed() and not response.will_close and not self._answers.peek()

    def read(self, into: memoryview) -> int:
        """Read what has come, as much as there is room for; return how much that was, 0 at the end."""
        return self._bounded().recv_into(into)

    def _bounded(self) -> socket.socket:
        left_s = self.deadline.left_s()
        if left_s <= 0:
            raise TimeoutError
        self._sock.settimeout(left_s)
        return self._sock


class _Reader(io.RawIOBase):
    """What comes over a connection, as a file; once it has `ended` nothing more does."""

    def __init__(self, connection: _Connection) -> None:
        self.ended = False
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        return 0 if self.ended else self._connection.read(buffer)


class _Answers(io.BufferedReader):
    """What comes over a connection, in pieces of any size: one answer after another."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            raise HTTPException("a chunk of negative length")
        return super().read(size)

    def close(self) -> None:
        """Stay open: HTTPResponse closes at the end of each answer, and what comes behind it has to be seen."""


class _Source:
    """What HTTPResponse takes for a socket."""

    def __init__(self, answers: _Answers) -> None:
        self._answers = answers

    def makefile(self, mode: str) -> io.BufferedReader:
        return self._answers


@contextmanager
def _translated() -> Iterator[None]:
    """Turn what sockets and http.client raise into TransportError."""
    try:
        yield
    except TimeoutError:
        raise AnswerTooSlow from None
    except RemoteDisconnected:
        raise TransportError(_NO_ANSWER) from None
    except IncompleteRead:
        raise TransportError(_CUT_OFF) from None
    except HTTPException as exc:
        raise TransportError(f"the answer cannot be read: {type(exc).__name__}: {str(exc).strip()}") from exc
    except OSError as exc:
        raise TransportError(str(exc) or type(exc).__name__) from exc


def _by_name(response: HTTPResponse) -> dict[str, str]:
    named: dict[str, str] = {}
    for name, value in response.getheaders():
        lower = name.lower()
        named[lower] = f"{named[lower]}, {value}" if lower in named else value
    return named


def _pieces(response: HTTPResponse) -> Iterator[bytes]:
    while piece := response.read(_PIECE_BYTES):
        yield piece
    if response.length:
        raise IncompleteRead(b"", response.length)


def _request(parts: SplitResult, content: bytes | None, headers: Mapping[str, str]) -> bytes:
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [
        f"{'GET' if content is None else 'POST'} {quote(target, safe=_LEFT_AS_IT_IS)} HTTP/1.1",
        f"Host: {_host_of(parts)}",
        "User-Agent: hermes-pgvector",
        "Accept: */*",
        "Connection: keep-alive",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    if content is not None:
        lines.append(f"Content-Length: {len(content)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (content or b"")


def _host_of(parts: SplitResult) -> str:
    host = parts.netloc.rpartition("@")[2].removesuffix(":443" if parts.scheme == "https" else ":80")
    return host if host.isascii() else host.encode("idna").decode("ascii")


def _connected(parts: SplitResult, context: ssl.SSLContext | None, deadline: Deadline) -> socket.socket:
    host, port = parts.hostname or "", parts.port or (80 if context is None else 443)
    found = addresses(host, port)
    for waiting, address in zip(range(len(found), 0, -1), found, strict=True):
        left_s = deadline.left_s()
        if left_s <= 0:
            break
        sock: socket.socket | None = None
        try:
            # An address that drops packets must leave time for the ones after it.
            sock = socket.create_connection((address, port), left_s / waiting)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock if context is None else _with_tls(sock, context, host, deadline)
        except TimeoutError:
            continue
        except OSError:
            if waiting == 1 or sock is not None:
                raise
    raise ConnectTooSlow


def _with_tls(sock: socket.socket, context: ssl.SSLContext, host: str, deadline: Deadline) -> socket.socket:
    try:
        sock.settimeout(max(0.001, deadline.left_s()))
        return context.wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise

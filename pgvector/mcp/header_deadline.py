"""Limits that uvicorn lacks: how long a client may take to send the headers of a request, and open connections."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol  # which bounds how large headers are; httptools does not

HEADERS_S: Final = 20.0  # uvicorn's own limit, of 5 s, is for a connection on which nothing arrives after an answer
BACKLOG: Final = 64  # connections that are accepted at once, before any of them is handled
_CONNECTIONS_MOST: Final = 1000


def _connections_most() -> int:
    """Return how many connections may be open: half of this process's file descriptors are for the memory itself."""
    with contextlib.suppress(ImportError):  # on Windows
        import resource

        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files != resource.RLIM_INFINITY:
            return min(_CONNECTIONS_MOST, files // 2)
    return _CONNECTIONS_MOST


class HeaderDeadline(H11Protocol):
    """A connection that is closed if the next request's headers take longer than `headers_s`.

    If there are more than `most`, the connection without a whole request for longest is closed to make room for a new
    one, or if there is none, the one that has only listened for longest. Whoever holds streams without end, or sends
    bodies that never end, keeps nobody out.
    """

    headers_s = HEADERS_S
    most = _connections_most()
    _late: asyncio.TimerHandle | None = None
    _quiet_since = 0.0

    def connection_made(self, transport: Any) -> None:
        """Start the deadline for a request; if there are too many connections, close another one."""
        super().connection_made(transport)
        self._quiet_since = self.loop.time()
        self._make_room()
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Take what arrives; while that is no whole request, the deadline runs."""
        super().data_received(data)
        if self._is_asked():
            self._quiet_since = self.loop.time()
            self._expect_no_more()
        else:
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline."""
        self._expect_no_more()
        super().connection_lost(exc)

    def _is_asked(self) -> bool:
        """Return whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _sends(self) -> bool:
        """Return whether the rest of a request is still to come: whoever never sends it is not waited for."""
        return self._is_asked() and bool(self.cycle.more_body)

    def _listens(self) -> bool:
        """Return whether a client listens to a session, which it can take up again."""
        return self._is_asked() and self.scope["method"] == "GET"

    def _make_room(self) -> None:
        if len(self.connections) > self.most:
            closed = self._least_needed()
            self.connections.discard(closed)  # at once: others may connect before it is told that it is closed
            closed.transport.abort()

    def _least_needed(self) -> HeaderDeadline:
        others = [each for each in self.connections if isinstance(each, HeaderDeadline) and each is not self]
        quiet = [each for each in others if not each._is_asked() or each._sends()]
        listening = [each for each in others if each._listens()]
        return min(quiet or listening or [self], key=lambda each: each._quiet_since)

    def _expect(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self.headers_s, self._close_late)

    def _expect_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close_late(self) -> None:
        self._late = None
        if not self._is_asked():
            self.transport.close()

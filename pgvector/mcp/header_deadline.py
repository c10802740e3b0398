"""What uvicorn lets a client do for as long as it likes: send the headers of a request."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol  # which bounds how large headers are; httptools does not

HEADERS_S: Final = 20.0  # uvicorn's own limit, of 5 s, is for a connection on which nothing arrives after an answer


class HeaderDeadline(H11Protocol):
    """A connection that is closed where the next request's headers take longer than `headers_s`."""

    headers_s = HEADERS_S
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Expect a request."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Take what arrives; what is no whole request yet has so long to be one."""
        super().data_received(data)
        if self._is_asked():
            self._expect_no_more()
        else:
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing."""
        self._expect_no_more()
        super().connection_lost(exc)

    def _is_asked(self) -> bool:
        """Return whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

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

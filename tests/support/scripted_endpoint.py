"""An HTTP server on loopback that does what its mode says, and changes its mind when a test wants it to."""

from __future__ import annotations

import ssl
import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from .embedding_server import EmbedHandler, LoopbackServer
from .ports import free_port

ModeT = TypeVar("ModeT", bound=str)


class ScriptedEndpoint(ABC, Generic[ModeT]):
    """Listens on one port for as long as it lives; in the mode "down" the port is closed.

    What its handler posts into `bodies` and `headers` it has been sent; `arrived` is set with the first request.
    """

    def __init__(self, mode: ModeT, tls: ssl.SSLContext | None = None) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.arrived = threading.Event()
        self._lock = threading.Lock()
        self._mode = mode
        self._released = threading.Event()
        self._tls = tls
        self._server: LoopbackServer | None = LoopbackServer(self._handler(), free_port(), tls)
        self.port = self._server.port
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"
        if mode == "down":
            self._stop()

    @property
    def mode(self) -> ModeT:
        """What the server does with the next request."""
        return self._mode

    @mode.setter
    def mode(self, mode: ModeT) -> None:
        self._switch(mode)
        if mode == "down":
            self._stop()
        elif self._server is None:
            self._server = LoopbackServer(self._handler(), self.port, self._tls)

    def close(self) -> None:
        """Stop; requests that hang are ended."""
        self._switch(self._mode)
        self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _now(self) -> tuple[ModeT, threading.Event]:
        """The mode, and what is set when another one comes."""
        with self._lock:
            return self._mode, self._released

    def _switch(self, mode: ModeT) -> None:
        with self._lock:
            self._mode = mode
            waiting, self._released = self._released, threading.Event()
        waiting.set()

    def _stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

    @abstractmethod
    def _handler(self) -> type[EmbedHandler]:
        """What answers a request."""

"""An ASGI application served over a real socket of loopback."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self

import uvicorn

from .ports import free_port
from .waiting import until


class AsgiServer:
    """Serves an application on a thread for as long as the block lasts."""

    def __init__(self, app: Any, http: Any = "auto") -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._server = uvicorn.Server(
            uvicorn.Config(app, host="127.0.0.1", port=self.port, http=http, log_config=None, lifespan="on")
        )
        self._thread = threading.Thread(target=self._server.run)

    def __enter__(self) -> Self:
        self._thread.start()
        until(lambda: self._server.started, what="the server to listen")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()

"""A messenger for the real gateway: what signal-cli's HTTP daemon says and hears, on loopback."""

from __future__ import annotations

import itertools
import json
import queue
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

ACCOUNT = "+4915199999999"
_ALIVE_EVERY_S = 1.0


class SignalServer:
    """Delivers what people say to the gateway's account, and keeps what the gateway answers, until the block ends."""

    def __init__(self) -> None:
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._said: list[tuple[str, str]] = []
        self._times = itertools.count(int(time.time() * 1000))
        self._over = threading.Event()
        self._http = _HttpServer(("127.0.0.1", 0), _Handler)
        self._http.signal = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), name="signal")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(30)

    @property
    def environment(self) -> dict[str, str]:
        """What a home's .env names so that its gateway serves this messenger, for everybody."""
        return {
            "SIGNAL_HTTP_URL": f"http://127.0.0.1:{self._http.server_address[1]}",
            "SIGNAL_ACCOUNT": ACCOUNT,
            "SIGNAL_ALLOWED_USERS": "*",
            "SIGNAL_GROUP_ALLOWED_USERS": "*",
            "SIGNAL_HOME_CHANNEL": ACCOUNT,  # without one, the first answer of a chat is advice to choose one
        }

    def say(self, text: str, *, sender: str, group: str = "") -> None:
        """Deliver a message, in a direct chat or a group."""
        data: dict[str, Any] = {"message": text, "timestamp": next(self._times)}
        if group:
            data["groupInfo"] = {"groupId": group, "groupName": "Harbour", "type": "DELIVER"}
        envelope = {"sourceNumber": sender, "sourceName": "Ada", "timestamp": data["timestamp"], "dataMessage": data}
        self._events.put({"envelope": envelope, "account": ACCOUNT})

    def answers(self, chat: str) -> list[str]:
        """Return what the gateway has said in a direct chat, named by its sender, or in a group."""
        return [text for to, text in self._said if to == chat]

    def next_event(self) -> dict[str, Any] | None:
        """Return the next message, None if there is none for a while. Raises: EOFError when the block has ended."""
        if self._over.is_set():
            raise EOFError
        try:
            return self._events.get(timeout=_ALIVE_EVERY_S)
        except queue.Empty:
            return None

    def call(self, method: str, params: dict[str, Any]) -> dict[str, Any] | list[Any]:
        """Return the result of a call."""
        if method != "send":
            return []
        for to in params.get("recipient") or [params.get("groupId")]:
            self._said.append((str(to), str(params.get("message", ""))))
        return {"timestamp": next(self._times), "results": []}


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    signal: SignalServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _HttpServer

    def do_GET(self) -> None:
        if not self.path.startswith("/api/v1/events"):
            self._answer(b"")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            while True:
                event = self.server.signal.next_event()
                line = ":" if event is None else f"event:receive\ndata:{json.dumps(event)}"
                self.wfile.write(f"{line}\n\n".encode())
        except (EOFError, OSError):
            return

    def do_POST(self) -> None:
        called = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        result = self.server.signal.call(called["method"], called.get("params") or {})
        self._answer(json.dumps({"jsonrpc": "2.0", "id": called["id"], "result": result}).encode())

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keeps the tests' output quiet."""

"""A messenger for the real gateway: what signal-cli's HTTP daemon says and hears, on loopback."""

from __future__ import annotations

import itertools
import json
import queue
import time
from typing import Any, Literal

from .embedding_server import EmbedHandler
from .scripted_endpoint import ScriptedEndpoint

ACCOUNT = "+4915199999999"
_ALIVE_EVERY_S = 1.0


class SignalServer(ScriptedEndpoint[Literal["up", "down"]]):
    """Delivers what people say to the gateway's account, and keeps what the gateway answers."""

    def __init__(self) -> None:
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._said: list[tuple[str, str]] = []
        self._times = itertools.count(int(time.time() * 1000))
        super().__init__("up")

    @property
    def environment(self) -> dict[str, str]:
        """What a home's .env names so that its gateway serves this messenger, for everybody."""
        return {
            "SIGNAL_HTTP_URL": self.url,
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
        """Return the next message, None if there is none for a while."""
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

    def _handler(self) -> type[EmbedHandler]:
        messenger = self

        class Handler(EmbedHandler):
            """The requests of one connection."""

            def do_GET(self) -> None:
                if not self.path.startswith("/api/v1/events"):
                    self.send_json(200, {})
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                while True:  # until the client or the server closes the connection
                    event = messenger.next_event()
                    line = ":" if event is None else f"event:receive\ndata:{json.dumps(event)}"
                    self.wfile.write(f"{line}\n\n".encode())

            def do_POST(self) -> None:
                called = self.read_body()
                result = messenger.call(called["method"], called.get("params") or {})
                self.send_json(200, {"jsonrpc": "2.0", "id": called["id"], "result": result})

        return Handler

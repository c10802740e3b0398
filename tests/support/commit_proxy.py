"""A proxy in front of Postgres that breaks connections at a chosen moment of a transaction."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from typing import Literal

from .tcp_proxy import TcpProxy

# Moments of a transaction, as the client's bytes tell them: a statement is on its way to Postgres, with the rest of the
# transaction unsent; or Postgres has committed, and the client is never told.
Moment = Literal["mid_transaction", "commit_unacknowledged"]

_INSERT = b"COPY conversations"
_COMMIT = b"COMMIT"


class CommitProxy(TcpProxy):
    """Does to the next `count` transactions that insert turns what `arm` says; `done` counts the ones it was done to.

    Statements are recognised in what passes by in one piece, which holds for the short messages meant here on loopback.
    """

    def __init__(self, target: Path) -> None:
        self._arms = threading.Lock()
        self._moment: Moment = "mid_transaction"
        self._armed = 0
        self._clients: dict[socket.socket, socket.socket] = {}
        self._inserting: set[socket.socket] = set()
        self._doomed: set[socket.socket] = set()
        self.done = 0
        super().__init__(target)

    def arm(self, moment: Moment, count: int) -> None:
        """Break the next `count` transactions."""
        with self._arms:
            self._moment, self._armed = moment, count

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        with self._arms:
            self._clients[server] = client
        super()._serve(client, server)
        with self._arms:
            self._clients.pop(server, None)
            self._inserting.discard(client)
            self._doomed.discard(client)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        from_server = source.family == socket.AF_UNIX
        look = self._answered if from_server else self._asked
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not look(self._clients[source] if from_server else source, data):
                    break
                self._speaks.wait()
                sink.sendall(data)
                if not from_server and source in self._doomed and self._moment == "mid_transaction":
                    break
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _asked(self, client: socket.socket, data: bytes) -> bool:
        """Take note of what a client sends; it is passed on in any case."""
        with self._arms:
            if _INSERT in data:
                self._inserting.add(client)
            due = _INSERT in data if self._moment == "mid_transaction" else _COMMIT in data
            if self._armed and due and client in self._inserting:
                self._armed -= 1
                self.done += 1
                self._doomed.add(client)
        return True

    def _answered(self, client: socket.socket, data: bytes) -> bool:
        """Whether the client may read what Postgres says; the end of a doomed commit is where its connection ends."""
        return not (client in self._doomed and self._moment == "commit_unacknowledged" and _COMMIT in data)

"""A proxy in front of Postgres that is as far away as a test says, and counts how often its clients wait for it."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from pathlib import Path

from .tcp_proxy import TcpProxy

_CHUNK_BYTES = 65536
# Of a client's messages those after which ours wait for an answer: Query and Sync.
_WAITING = frozenset(b"QS")
_BEFORE_STARTUP = frozenset((80877103, 80877104))  # what a client asks first: TLS, GSS encryption


class SlowProxy(TcpProxy):
    """Each byte arrives `delay_s` after it was sent, in either direction; `trips` counts round trips of all clients."""

    def __init__(self, target: Path, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self.trips = 0
        self._counting = threading.Lock()
        super().__init__(target)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        messages = None if source.family == socket.AF_UNIX else _Messages()
        under_way: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
        arrival = threading.Thread(target=self._arrive, args=(under_way, sink), name="proxy-arrival", daemon=True)
        arrival.start()
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                under_way.put((time.monotonic() + self.delay_s, data))
                if messages is not None and (waits := messages.waits(data)):
                    with self._counting:
                        self.trips += waits
        under_way.put((0.0, b""))
        arrival.join()
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _arrive(self, under_way: queue.SimpleQueue[tuple[float, bytes]], sink: socket.socket) -> None:
        never = threading.Event()
        with contextlib.suppress(OSError):
            while (item := under_way.get())[1]:
                never.wait(max(0.0, item[0] - time.monotonic()))
                sink.sendall(item[1])


class _Messages:
    """The frontend's messages of one connection, as they pass."""

    def __init__(self) -> None:
        self._pending = b""
        self._started = False

    def waits(self, data: bytes) -> int:
        """How many messages end in `data` after which the client waits, those of the connection's start left out."""
        self._pending += data
        found = 0
        while (kind := self._next()) is not None:
            found += kind in _WAITING
        return found

    def _next(self) -> int | None:
        head = 1 if self._started else 0
        if len(self._pending) < head + 4:
            return None
        end = head + int.from_bytes(self._pending[head : head + 4], "big")
        if len(self._pending) < end:
            return None
        kind = self._pending[0] if self._started else 0
        self._started = self._started or int.from_bytes(self._pending[4:8], "big") not in _BEFORE_STARTUP
        self._pending = self._pending[end:]
        return kind

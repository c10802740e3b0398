"""A TCP port on loopback in front of a Unix socket, on which a network fails in the way a test asks for."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_CHUNK_BYTES = 65536


class TcpProxy:
    """Passes connections of `port` on to the Unix socket `target`; `start`, `deaf`, `cut` and `stop` change how.

    The port is kept for as long as the proxy lives, so that nobody else answers there meanwhile.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._speaks = threading.Event()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._doorman: threading.Thread | None = None
        self._door = _bound(0)
        self.port = int(self._door.getsockname()[1])
        self.start()

    @classmethod
    def before(cls, conninfo: str) -> Self:
        """A proxy before the server whose Unix socket `conninfo` names."""
        parts = conninfo_to_dict(conninfo)
        return cls(Path(str(parts["host"])) / f".s.PGSQL.{parts['port']}")

    def conninfo(self, conninfo: str) -> str:
        """`conninfo` with the way led through this proxy."""
        parts = conninfo_to_dict(conninfo) | {"host": "127.0.0.1", "port": self.port}
        parts.pop("requirepeer", None)
        return make_conninfo("", **parts)

    def start(self) -> None:
        """Accept connections and pass on everything, also what was said while the port was deaf."""
        self._speaks.set()
        self._listen()

    def deaf(self) -> None:
        """Accept connections and pass nothing on, in either direction; connections stay as they are."""
        self._speaks.clear()
        self._listen()

    def cut(self) -> None:
        """Break every connection; new ones are accepted."""
        with self._lock:
            for each in self._sockets:
                _shut(each)

    def stop(self) -> None:
        """Break every connection and refuse new ones."""
        if self._doorman is None:
            return
        _shut(self._door)
        self._doorman.join()
        self._doorman = None
        self._door.close()
        # Bound and not listening: connections are refused, and nobody else gets the port.
        self._door = _bound(self.port)
        self.cut()
        self._speaks.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def close(self) -> None:
        """Stop for good and give up the port."""
        self.stop()
        self._door.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _listen(self) -> None:
        if self._doorman is None:
            self._door.listen(128)
            self._doorman = threading.Thread(target=self._admit, name="proxy-door", daemon=True)
            self._doorman.start()

    def _admit(self) -> None:
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            with self._lock:
                self._sockets |= {client, server}
            thread = threading.Thread(target=self._serve, args=(client, server), name="proxy-client", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            self._speaks.wait()
            with contextlib.suppress(OSError):
                server.connect(str(self._target))
                back = threading.Thread(target=self._pump, args=(server, client), name="proxy-server", daemon=True)
                back.start()
                self._pump(client, server)
                back.join()
            with self._lock:
                self._sockets -= {client, server}

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                self._speaks.wait()
                sink.sendall(data)
        _shut(source)
        _shut(sink)


def _bound(port: int) -> socket.socket:
    door = socket.socket()
    # Or connections that are still open or were just closed would keep the port from being bound again.
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    door.bind(("127.0.0.1", port))
    return door


def _shut(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)

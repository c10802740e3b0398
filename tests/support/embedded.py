"""What tests of the embedded server look at, and processes of their own that use one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg

from hermes_memory_pgvector.server.cluster import EmbeddedServer

# The bin directory of the Postgres that the tests run; empty for the one that comes with the package.
BIN_DIR = os.environ.get("PGVECTOR_TEST_POSTGRES", "")

PROGRAM = """
import os, signal, sys
from pathlib import Path
from hermes_memory_pgvector.domain.errors import EmbeddedServerError
from hermes_memory_pgvector.server.cluster import EmbeddedServer

# A shell that runs the tests in the background has told its children to ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
server = EmbeddedServer(Path(sys.argv[1]), bin_dir=os.environ.get("PGVECTOR_TEST_POSTGRES", ""))
print("up", flush=True)
for line in sys.stdin:
    try:
        print(getattr(server, line.strip())(), flush=True)
    except EmbeddedServerError as error:
        print("failed:", repr(str(error)), flush=True)
"""


def is_root() -> bool:
    return os.geteuid() == 0


def ask(dsn: str, statement: str) -> object:
    """The first value of the first row, over a connection of its own."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
        return row[0] if row else None


def starts_in(server: EmbeddedServer) -> int:
    """How often the server was started, by its log."""
    return (server.root / "server.log").read_text().count("starting PostgreSQL")


def postmaster_of(server: EmbeddedServer) -> int:
    """The process id in the server's pid file."""
    return int((server.root / "data" / "postmaster.pid").read_text().split("\n")[0])


class Client:
    """A process with one EmbeddedServer, in a session of its own as if started from another terminal."""

    def __init__(self, root: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, os.fspath(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert self.answer() == "up"

    def say(self, method: str) -> None:
        """Has a method of the server called, without waiting for what it returns."""
        assert self._process.stdin is not None
        self._process.stdin.write(method + "\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        """What the next method returned, printed; an error as `failed: ...`."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def call(self, method: str) -> str:
        self.say(method)
        return self.answer()

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to everything of this client's terminal, and waits for its end."""
        os.killpg(self._process.pid, number)
        self._process.wait(150)

    def close(self) -> None:
        if self._process.poll() is None:
            self.send(signal.SIGKILL)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


MakeServer = Callable[..., EmbeddedServer]
StartClient = Callable[..., Client]

"""The servers of ours in a soak: what clients call while it is ended and started again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import psutil

from tests.support.ports import free_port

from .driver import EXIT_TIMEOUT_S
from .ledger import Ledger

_PROGRAM = (sys.executable, "-P", "-m", "hermes_memory_pgvector.cli")


class Service:
    """A server of one home over all its lives; each says on its standard output where it is."""

    def __init__(self, name: str, home: Path, ledger: Ledger, *arguments: str) -> None:
        self.name = name
        self.home = home
        self.life = 0
        self._ending = False
        self._ledger = ledger
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._out, self._err = (home.parent / f"{name}.{kind}" for kind in ("out", "err"))

    @property
    def runs(self) -> bool:
        """Whether there is a living process."""
        return self._process is not None and self._process.poll() is None

    @property
    def serves(self) -> bool:
        """Whether it owes clients an answer: it runs, and was not told to end."""
        return self.runs and not self._ending

    @property
    def pid(self) -> int:
        """Of the living process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Begin the next life."""
        with self._out.open("wb") as out, self._err.open("ab") as err:
            self._process = subprocess.Popen(
                [*_PROGRAM, *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                env=self.environment(),
            )
        self.life += 1
        self._ending = False

    def environment(self) -> dict[str, str]:
        """Of the process."""
        return {**os.environ, "HERMES_HOME": str(self.home), "PYTHONUNBUFFERED": "1"}

    def end(self, how: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """End this life by the name of a signal or by "quit", which is Ctrl-C; as that of an agent."""
        self._ending = True
        number = signal.SIGINT if how == "quit" else signal.Signals[how]
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            process.send_signal(number)
        self._wait(how, meanwhile)
        code = self._code()
        # Before it has a handler it ends by the signal itself. 130 stands for SIGINT, by which Python ends where an
        # interrupt has reached code that was made from text, as that of a dataclass is, though it was caught.
        if how != "SIGKILL" and code not in (0, 130, -signal.SIGINT, -number):
            with self._ledger.lock:
                self._ledger.accuse(f"{self.name} ended with {code} after {how}")

    def _wait(self, how: str, meanwhile: Callable[[], None]) -> None:
        began = time.monotonic()
        while self.runs and time.monotonic() - began < EXIT_TIMEOUT_S:
            meanwhile()
            time.sleep(0.02)
        with self._ledger.lock:
            if self.runs:
                self._ledger.accuse(f"{self.name} did not end within {EXIT_TIMEOUT_S} s of {how}")
            elif how != "SIGKILL":
                self._ledger.took_ms[f"server's end by {how}"].append(1000 * (time.monotonic() - began))
        self.kill()

    def _code(self) -> int:
        assert self._process is not None
        return int(self._process.wait())

    def kill(self) -> None:
        """Make sure that there is none; fine at any time."""
        if self._process is not None and self.runs:
            self._process.kill()
            self._process.wait()

    def said(self) -> str:
        """What this life printed."""
        return self._out.read_text(errors="replace")

    def complaints(self) -> list[str]:
        """The lines of its log in which an error reached its border."""
        lines = self._err.read_text(errors="replace").splitlines() if self._err.exists() else []
        return [line[:300] for line in lines if line.startswith(("Traceback", "ERROR", "CRITICAL"))]


class Web(Service):
    """The memory page."""

    def __init__(self, home: Path, ledger: Ledger) -> None:
        super().__init__("page", home, ledger, "web", "--no-open", "--port", "0", "--json")

    def address(self) -> str | None:
        """The address that this life printed, once it has."""
        try:
            return str(json.loads(self.said())["url"])
        except ValueError:
            return None


class McpOverHttp(Service):
    """An MCP server that listens."""

    def __init__(self, home: Path, ledger: Ledger) -> None:
        port = free_port()
        super().__init__("mcp-http", home, ledger, "mcp", "--http", f"127.0.0.1:{port}", "--rate", "100000")
        self.url = f"http://127.0.0.1:{port}/mcp"


class McpOverStdio(Service):
    """An MCP server that its client starts, and ends by leaving; `start` and `end` tell the client."""

    def __init__(self, home: Path, ledger: Ledger, theme: str) -> None:
        super().__init__("mcp-stdio", home, ledger, "mcp", "--theme", theme)
        self.wanted = False
        self._child: psutil.Process | None = None

    @property
    def command(self) -> list[str]:
        """What the client starts."""
        return [*_PROGRAM, *self._arguments]

    def log(self) -> TextIO:
        """A file for what it logs."""
        return self._err.open("a", encoding="utf-8")

    def note_child(self) -> None:
        """Find the process that the client has started."""
        own = psutil.process_iter(["ppid", "cmdline"])
        found = [each for each in own if each.info == {"ppid": os.getpid(), "cmdline": self.command}]
        self._child = found[-1] if found else None

    @property
    def runs(self) -> bool:
        """Whether it may be there: what the client has not started yet counts as running."""
        return self.wanted

    @property
    def pid(self) -> int:
        """Of the living process; that of nobody before the client has started it."""
        return self._child.pid if self._child is not None else 0

    def start(self) -> None:
        """Have the client start it."""
        self.life += 1
        self.wanted = True

    def end(self, how: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """End it by a signal, or have the client leave."""
        self.wanted = False
        child, self._child = self._child, None
        if child is None:
            return
        began = time.monotonic()
        with contextlib.suppress(psutil.NoSuchProcess):
            if how != "quit":
                child.send_signal(signal.Signals[how])
        while _lives(child) and time.monotonic() - began < EXIT_TIMEOUT_S:
            meanwhile()
            time.sleep(0.02)
        with self._ledger.lock:
            if _lives(child):
                self._ledger.accuse(f"{self.name} did not end within {EXIT_TIMEOUT_S} s of {how}")
            elif how != "SIGKILL":
                self._ledger.took_ms[f"server's end by {how}"].append(1000 * (time.monotonic() - began))

    def kill(self) -> None:
        """Make sure that there is none."""
        self.wanted = False
        if self._child is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._child.kill()


def _lives(process: psutil.Process) -> bool:
    """Whether it has not ended; whoever started it may not have noticed yet."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

"""Ends what a benchmark has started when the benchmark is gone, however it went.

As a program it reads `group PID`, `server PIDFILE` and `folder PATH`, a line each, until its input ends; then, unless
the last line was `done`, it kills those process groups and servers and removes those folders.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

GONE_S = 10.0


class Warden:
    """Watches over this process for the length of the block, also when it is killed."""

    def __enter__(self) -> Self:
        # Ctrl-C goes to every process of the terminal: this one is to survive it.
        command = [sys.executable, "-P", __file__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)
        # Whoever is asked to end leaves its blocks in good order.
        signal.signal(signal.SIGTERM, _leave)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._say("done")
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)

    def group(self, pid: int) -> None:
        """A process that leads a group of its own."""
        self._say(f"group {pid}")

    def server(self, root: Path) -> None:
        """An embedded server, by its directory, which goes too."""
        self._say(f"server {root / 'data' / 'postmaster.pid'}")
        self._say(f"folder {root.parent}")

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _end(lines: list[str]) -> None:
    ended = []
    for kind, _, what in (line.partition(" ") for line in lines):
        with contextlib.suppress(OSError, ValueError):
            if kind == "group":
                os.killpg(int(what), signal.SIGKILL)
            elif kind == "server":
                pid = int(Path(what).read_text(encoding="ascii").split("\n")[0])
                os.kill(pid, signal.SIGQUIT)
                ended.append(pid)
    until = time.monotonic() + GONE_S
    while any(Path(f"/proc/{pid}").exists() for pid in ended) and time.monotonic() < until:
        time.sleep(0.1)
    for line in lines:
        if line.startswith("folder "):
            shutil.rmtree(line.removeprefix("folder "), ignore_errors=True)


if __name__ == "__main__":
    said = sys.stdin.read().splitlines()
    if said[-1:] != ["done"]:
        _end(said)

"""The other end of driver.py: a product's process, and what it answers."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

DRIVER = Path(__file__).with_name("driver.py")


class WorkerError(Exception):
    """The product's process died, was silent for too long, or says that something was raised."""


class Worker:
    """A product in a process of its own. Leaving the block kills it."""

    def __init__(self, python: Path, provider: str, home: Path, script: Path = DRIVER) -> None:
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES_", "PYTHON"))}
        environ |= {"HOME": str(home), "HERMES_HOME": str(home)}
        self._process = subprocess.Popen(
            [str(python), "-P", str(script), provider],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=environ,
            cwd=home,
        )
        self._answers: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.imported_us = float(json.loads(self._next(60)).get("import_us", 0.0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.end(signal.SIGKILL)
        self.log.close()

    def ask(self, do: str, timeout_s: float = 120.0, **request: Any) -> dict[str, Any]:
        """The answer to a request. Raises: WorkerError."""
        self.begin(do, **request)
        return self.answer(timeout_s)

    def begin(self, do: str, **request: Any) -> None:
        """Send a request; `answer` waits for what it gives."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **request}).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self, timeout_s: float = 120.0) -> dict[str, Any]:
        """The answer to what `begin` sent. Raises: WorkerError."""
        answer = json.loads(self._next(timeout_s))
        if "error" in answer:
            raise WorkerError(answer["error"])
        return dict(answer)

    def end(self, how: signal.Signals | None = None, timeout_s: float = 60.0) -> None:
        """End it by a signal, or as a program that has come to its end; fine when it has ended."""
        if self._process.poll() is not None:
            return
        if how is not None:
            self._process.send_signal(how)
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)

    def logged(self) -> Mapping[str, int]:
        """How often each line of its standard error came, without numbers."""
        self.log.seek(0)
        found: dict[str, int] = {}
        for line in self.log.read().decode(errors="replace").splitlines():
            found[line] = found.get(line, 0) + 1
        return found

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(b"")

    def _next(self, timeout_s: float) -> bytes:
        try:
            line = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            raise WorkerError(f"no answer within {timeout_s} s") from None
        if not line:
            self.log.seek(0)
            raise WorkerError("the process ended: " + self.log.read().decode(errors="replace")[-2000:])
        return line

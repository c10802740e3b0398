"""A command on a terminal of its own, and a person at it who answers what is asked."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

_PATIENCE_S = 150.0


class Terminal:
    """Runs `command` in a pseudo-terminal until the block ends; `screen` is what it has written so far."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], cwd: str) -> None:
        self.screen = ""
        self._read_to = 0
        self._status: int | None = None
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.chdir(cwd)
            os.execvpe(command[0], list(command), dict(environment) | {"TERM": "dumb", "COLUMNS": "500"})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._fd)

    def answer(self, question: str, *lines: str) -> None:
        """Wait until `question` (a regular expression) stands on the screen behind what was answered, and type."""
        deadline = time.monotonic() + _PATIENCE_S
        while not (found := re.compile(question).search(self.screen, self._read_to)):
            assert self._more(deadline), f"the program ended or hangs before it asked {question!r}:\n{self.screen}"
        self._read_to = found.end()
        for line in lines:
            os.write(self._fd, line.encode() + b"\n")

    def press(self, key: bytes) -> None:
        """Type a key without a return: b"\\x03" is Ctrl-C."""
        os.write(self._fd, key)

    def exit_code(self) -> int:
        """Wait for the end; negative for a signal."""
        deadline = time.monotonic() + _PATIENCE_S
        while self._more(deadline):
            pass
        self._status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._status

    def _more(self, deadline: float) -> bool:
        """Read on; False at the end of the program, or of our patience."""
        ready, _, _ = select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            read = os.read(self._fd, 65536)
        except OSError:  # Linux's way to say that the other end is closed
            return False
        self.screen += read.decode(errors="replace").replace("\r\n", "\n")
        return bool(read)

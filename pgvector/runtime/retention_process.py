"""The setting `retention` in an agent: carried out by the operator's tool, in a process of its own."""

from __future__ import annotations

import json
import logging
import os
import queue
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO

from ..config.settings import Settings
from ..domain.commandline import command_of

logger = logging.getLogger(__name__)

_OPERATOR = "admin.prune.retention"
ANSWER = "old turns, answer: "  # how an answer of the process begins; other output there may come from anywhere
_LOOK_S = 0.25  # between two checks whether the process has answered
_BEGIN_AGAIN_S = 600.0  # after a process ended by itself: what it was working on is free again by then
_ENDED = "hermes-pgvector: the process that deletes old turns, as the setting `retention` says, has ended: "
_LAST_S = 2.0  # how long a process may take to end


class RetentionProcess:
    """Has a bounded part of the work done at each `step`, and ends the process when nothing is due.

    Used by the drain thread only. `locate` returns the conninfo.
    """

    def __init__(self, settings: Settings, locate: Callable[[], str]) -> None:
        self._settings = settings
        self._locate = locate
        self._process: subprocess.Popen[str] | None = None
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()  # lines, and "" for the end of the process
        self._is_asked = False
        self._last_words = ""
        self._warned: set[str] = set()
        self._deleted = [0, 0]  # turns: by processes that have ended, and by this one
        self.on = bool(settings.retention)

    @property
    def deleted(self) -> int:
        """Return how many turns were deleted."""
        return sum(self._deleted)

    def step(self) -> float:
        """Have a part of the due work done; return after how many seconds to call again. Does not block."""
        if self._process is None:
            self._begin()
        elif not self._is_asked:
            self._ask("")
        else:
            with suppress(queue.Empty):
                return self._heard(self._said.get_nowait())
        return _LOOK_S

    def _begin(self) -> None:
        settings = self._settings
        given = {
            "conninfo": self._locate(),
            "dims": settings.dims,
            "pooler": settings.pooler,
            "retention": settings.retention,
            "identity_key": settings.identity_key,
        }
        try:
            self._process = subprocess.Popen(
                command_of(_OPERATOR),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,  # Ctrl-C in the agent's terminal goes to the whole foreground group
            )
            self._said = queue.SimpleQueue()
            thread = threading.Thread(
                target=_listen, args=(self._process.stdout, self._said), name="hermes-pgvector-retention", daemon=True
            )
            thread.start()
        except (OSError, RuntimeError) as exc:  # an interpreter that is ending starts no thread
            self.close()
            self._tell(logging.WARNING, f"{_ENDED}{exc}")
            return
        self._ask(json.dumps(given))

    def _ask(self, line: str) -> None:
        self._is_asked = True
        process = self._process
        with suppress(OSError, ValueError):  # the process has ended, which the next step finds
            if process is not None and process.stdin is not None:
                print(line, file=process.stdin, flush=True)

    def _heard(self, line: str) -> float:
        if not line:
            self._end()
            self._tell(logging.WARNING, _ENDED + (self._last_words or "without a message"))
            return _BEGIN_AGAIN_S
        _, begins, said = line.partition(ANSWER)
        if not begins:
            self._last_words = line.strip()
            return 0.0
        answer = json.loads(said)
        self._is_asked, self.on, self._deleted[1] = False, answer["on"], answer["deleted"]
        for level, text in answer["said"]:
            self._tell(level, text)
        if not answer["busy"]:
            self._end()
        return float(answer["wait_s"])

    def _tell(self, level: int, text: str) -> None:
        if level < logging.WARNING or text not in self._warned:
            self._warned.add(text)
            logger.log(level, "%s", text)

    def close(self) -> None:
        """End the process and start no other one. May be called twice."""
        self.on = False
        self._end(0.0)

    def forget_after_fork(self) -> None:
        """Release a forked child's copy of the pipe: the process belongs to the parent and ends with it."""
        process = self._process
        if process is not None and process.stdin is not None:
            with suppress(OSError, ValueError), open(os.devnull, "wb") as nothing:  # it is closed already
                os.dup2(nothing.fileno(), process.stdin.fileno(), inheritable=False)

    def _end(self, within_s: float = _LAST_S) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        self._deleted = [self.deleted, 0]
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(within_s)
        except subprocess.TimeoutExpired:  # what it was about to delete stays
            process.kill()
            process.wait()


def _listen(lines: IO[str], said: queue.SimpleQueue[str]) -> None:
    with lines:
        for line in lines:
            said.put(line)
    said.put("")

"""Waiting as long as there is progress: on a busy machine a healthy server takes a multiple of its usual time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..domain.errors import EmbeddedServerError
from .locks import open_lock, try_exclusive

LOOKS = 8  # checks of the signs during a wait without progress
LONGEST = 20  # times the wait without progress: something may change for ever and get nowhere

# Short compared to the 100 ms of a start, long compared to the cost of an attempt.
POLL_S = 0.02


class ProgressTimeout:
    """A timeout that is over once `signs` has returned the same for `still_s` seconds, or after LONGEST times that."""

    def __init__(self, signs: Callable[[], object], still_s: float) -> None:
        self._signs = signs
        self._still_s = max(still_s, 0.1)
        self._began = self._moved = self._looked = time.monotonic()
        self._seen = signs()

    def over(self) -> bool:
        """Return True when waiting longer makes no sense. Cheap enough to be called in every iteration of a loop."""
        now = time.monotonic()
        if now - self._looked >= self._still_s / LOOKS:
            self._looked = now
            if (seen := self._signs()) != self._seen:
                self._seen, self._moved = seen, now
        return now - self._moved >= self._still_s or now - self._began >= LONGEST * self._still_s


def fixed_timeout(seconds: float) -> ProgressTimeout:
    """Return a timeout for work that shows no progress."""
    return ProgressTimeout(lambda: None, seconds)


@contextmanager
def exclusive(path: Path, timeout: ProgressTimeout) -> Iterator[None]:
    """Hold a lock file exclusively, against threads and processes alike.

    Raises: EmbeddedServerError when `timeout` is over first.
    """
    fd = open_lock(path)
    try:
        while not try_exclusive(fd):
            if timeout.over():
                raise EmbeddedServerError(
                    "another process has been starting or stopping the embedded Postgres for too long; where it hangs "
                    f"or was stopped, end it: `fuser {path}` names it"
                )
            time.sleep(POLL_S)
        yield
    finally:
        os.close(fd)

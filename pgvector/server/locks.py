"""Locks between processes, by flock(2): the kernel drops them with the process, also at kill -9."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..domain.errors import EmbeddedServerError
from .progress_wait import Patience

if sys.platform != "win32":
    import fcntl

# Short against the 100 ms of a start, long against what a try costs.
POLL_S = 0.02


def open_lock(path: Path) -> int:
    """A descriptor of a lock file, made if missing; children do not inherit it."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def try_exclusive(fd: int) -> bool:
    """Whether `fd` now holds its file alone."""
    return _try(fd, fcntl.LOCK_EX)


def _try(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def exclusive(path: Path, patience: Patience) -> Iterator[None]:
    """Holds a lock file alone, against threads and processes alike.

    Raises: EmbeddedServerError when `patience` is over first.
    """
    fd = open_lock(path)
    try:
        while not try_exclusive(fd):
            if patience.over():
                raise EmbeddedServerError(f"another process has been at work on the server for too long ({path})")
            time.sleep(POLL_S)
        yield
    finally:
        os.close(fd)


class Presence:
    """Tells other processes, by a shared lock, that this one uses the server. Not thread-safe.

    A forked child starts without presence, whatever its parent holds.
    """

    def __init__(self) -> None:
        self._fd = -1
        self._pid = os.getpid()
        # Which file the descriptor was opened for: daemons close descriptors, and numbers are used again.
        self._file = (0, 0)

    @property
    def held(self) -> bool:
        """Whether this very process is present."""
        return self._fd >= 0 and self._pid == os.getpid()

    def acquire(self, path: Path, patience: Patience) -> bool:
        """Takes the lock; False when it was held already.

        Raises: EmbeddedServerError when a process that stops the server does not finish before `patience` is over.
        """
        if self.held:
            if _identity(os.stat(path) if path.exists() else None) == self._file:
                return False
            # The directory was removed and made again: others look at another file now.
            self.drop()
        fd = open_lock(path)
        while not _try(fd, fcntl.LOCK_SH):
            if patience.over():
                os.close(fd)
                raise EmbeddedServerError(f"another process has been stopping the server for too long ({path})")
            time.sleep(POLL_S)
        self._fd, self._pid, self._file = fd, os.getpid(), _identity(os.fstat(fd))
        return True

    def alone(self) -> bool:
        """Whether nobody else is present; nobody can become present before `drop` then."""
        return self.held and try_exclusive(self._fd)

    def drop(self) -> None:
        """Gives the lock up; doing so twice is fine."""
        if self.held:
            # A forked child may have the descriptor too, and would keep the lock alive if it were only closed.
            with suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        self.forget()

    def forget(self) -> None:
        """Closes a forked child's copy of the descriptor, which leaves the parent's lock in place."""
        if self._fd >= 0:
            with suppress(OSError):
                if _identity(os.fstat(self._fd)) == self._file:
                    os.close(self._fd)
        self._fd = -1


def _identity(found: os.stat_result | None) -> tuple[int, int]:
    return (found.st_dev, found.st_ino) if found else (0, 0)

"""Locks between processes, by flock(2): the kernel releases them when the process ends, even by kill -9."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl


def process_exists(pid: int) -> bool:
    """Return whether this machine has a process with this id; in a container, only those of it are seen."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def open_lock(path: Path, *, make: bool = True) -> int:
    """Return a descriptor of a lock file; children do not inherit it. Raises: OSError."""
    return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if make else 0), 0o600)


def try_exclusive(fd: int) -> bool:
    """Try to lock the file of `fd` exclusively; return True on success."""
    return _try(fd, fcntl.LOCK_EX)


def is_free(path: Path) -> bool:
    """Return True when no process holds the lock file. Raises: OSError, also when there is none."""
    return _can_take(path, fcntl.LOCK_EX)


def is_owned(path: Path) -> bool:
    """Return whether a process holds the lock file for itself, not only to look who does. Raises: OSError."""
    return not _can_take(path, fcntl.LOCK_SH)


def _can_take(path: Path, kind: int) -> bool:
    fd = open_lock(path, make=False)
    try:
        return _try(fd, kind)
    finally:
        os.close(fd)


def _try(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Presence:
    """Tells other processes, by a shared lock, that this one uses the server. Not thread-safe.

    A forked child starts without presence, whatever its parent holds.
    """

    def __init__(self) -> None:
        self._fd = -1
        self._pid = os.getpid()
        # Which file the descriptor was opened for: daemons close descriptors, and their numbers are reused.
        self._file = (0, 0)

    @property
    def held(self) -> bool:
        """Return whether this process itself is present."""
        return self._fd >= 0 and self._pid == os.getpid()

    def take(self, path: Path, *, make: bool = True) -> bool:
        """Take or keep the lock; False while a process that stops the server holds it exclusively. Raises: OSError."""
        if self.held:
            if _identity(os.stat(path) if path.exists() else None) == self._file:
                return True
            # The directory was removed and created again: others use another lock file.
            self.drop()
        fd = open_lock(path, make=make)
        if not _try(fd, fcntl.LOCK_SH):
            os.close(fd)
            return False
        self._fd, self._pid, self._file = fd, os.getpid(), _identity(os.fstat(fd))
        return True

    def alone(self) -> bool:
        """Return True if nobody else is present; then nobody can become present before `drop`."""
        return self.held and try_exclusive(self._fd)

    def drop(self) -> None:
        """Give the lock up; doing so twice is fine."""
        if self.held:
            # A forked child may have the descriptor too, and would keep the lock alive if we only closed ours.
            with suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        self.forget()

    def forget(self) -> None:
        """Close a forked child's copy of the descriptor, which leaves the parent's lock in place."""
        if self._fd >= 0:
            with suppress(OSError):
                if _identity(os.fstat(self._fd)) == self._file:
                    os.close(self._fd)
        self._fd = -1


def _identity(found: os.stat_result | None) -> tuple[int, int]:
    return (found.st_dev, found.st_ino) if found else (0, 0)

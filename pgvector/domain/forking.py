"""Locks that a fork waits for, so that no child inherits one, or what it guards, in the hands of a thread it lacks.

It matters most where the guarded code has locks of its own that a child cannot make anew, as SQLite and Python's
import do.
"""

from __future__ import annotations

import os
import threading
import time
from weakref import WeakKeyDictionary

# A fork waits this long for all of them together; whoever holds one for longer is stuck, and the fork goes ahead.
_PATIENCE_S = 2.0


class _Locks:
    """Every such lock with its rank."""

    def __init__(self) -> None:
        self.guard = threading.Lock()
        self.ranks: WeakKeyDictionary[threading.Lock, int] = WeakKeyDictionary()


class _Taken(threading.local):
    """What the fork under way in a thread has taken."""

    def __init__(self) -> None:
        self.locks: list[threading.Lock] = []


_locks = _Locks()
_taken = _Taken()


def fork_lock(rank: int = 0) -> threading.Lock:
    """A lock that is free at every fork. Who holds one may take another of a higher `rank` only."""
    lock = threading.Lock()
    with _locks.guard:
        _locks.ranks[lock] = rank
    return lock


def _before() -> None:
    deadline = time.monotonic() + _PATIENCE_S
    for lock in (_locks.guard, *sorted(_locks.ranks, key=lambda lock: _locks.ranks[lock])):
        if lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            _taken.locks.append(lock)


def _after() -> None:
    while _taken.locks:
        _taken.locks.pop().release()


def _after_in_child() -> None:
    _after()
    _locks.guard = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)

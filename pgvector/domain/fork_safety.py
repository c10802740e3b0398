"""Locks that a fork waits for, so that no child inherits guarded state in use by a thread that it does not have.

It matters most where the guarded code has locks of its own that a child cannot reset, as SQLite and Python's import
do. A lock that is not released in time is free in the child all the same: our own locks can be reset.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection
from typing import Final
from weakref import WeakKeyDictionary

PATIENCE_S = 5.0  # a fork waits this long for all of them together: a thread that holds one for longer is stuck
_LEAST_S: Final = 0.1  # for each lock, even past the deadline

# Locks taken first may be held for long; those that hooks need are taken last, so that no hook waits for the others.
SLOW: Final = 0
BACKGROUND: Final = 1
HOOKS: Final = 2


class _Locks:
    """Every such lock with its rank."""

    def __init__(self) -> None:
        self.guard = threading.Lock()
        self.ranks: WeakKeyDictionary[threading.Lock, int] = WeakKeyDictionary()

    def alive(self, known: Collection[threading.Lock] = ()) -> list[threading.Lock]:
        """Return all locks but those `known`, in the order in which a fork takes them."""
        # The list of references is made in one step: other threads may create and drop locks meanwhile.
        found = [(self.ranks[lock], lock) for ref in self.ranks.keyrefs() if (lock := ref()) is not None]
        return [lock for _, lock in sorted(found, key=lambda item: item[0]) if lock not in known]


class _Taken(threading.local):
    """The locks taken by the fork in progress in a thread."""

    def __init__(self) -> None:
        self.locks: list[threading.Lock] = []


_locks = _Locks()
_taken = _Taken()


def fork_lock(rank: int = HOOKS) -> threading.Lock:
    """Return a new lock that is free at every fork. A thread that holds one may only take one of a higher `rank`."""
    lock = threading.Lock()
    with _locks.guard:
        _locks.ranks[lock] = rank
    return lock


at_import = fork_lock(SLOW)  # around an import at run time, whose end a child would await for ever


def _before() -> None:
    deadline = time.monotonic() + PATIENCE_S
    known = _locks.alive()
    _take(known, deadline)
    _take([_locks.guard], deadline)  # from here on no new ones are created
    _take(_locks.alive(set(known)), deadline)


def _take(locks: list[threading.Lock], deadline: float) -> None:
    for lock in locks:
        if lock.acquire(timeout=max(_LEAST_S, deadline - time.monotonic())):
            _taken.locks.append(lock)


def _after() -> None:
    while _taken.locks:
        _taken.locks.pop().release()


def _after_in_child() -> None:
    _taken.locks.clear()
    for lock in (_locks.guard, *_locks.alive()):
        lock._at_fork_reinit()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)

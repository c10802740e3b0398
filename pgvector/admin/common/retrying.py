"""Changes that need tables to themselves, beside agents that write: what was in the way is a reason to try again."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from psycopg.errors import DeadlockDetected

_DEADLOCKS = 10
_TRIES, _PAUSE_S = 30, 0.5
_Result = TypeVar("_Result")
_never = threading.Event()


def retry_deadlocks(change: Callable[[], _Result]) -> _Result:
    """Return the result of `change`, which must leave nothing behind when Postgres ends it for a deadlock.

    Raises DeadlockDetected of the last of ten attempts. Postgres waits a second (deadlock_timeout) before each.
    """
    for _ in range(_DEADLOCKS - 1):
        with contextlib.suppress(DeadlockDetected):
            return change()
    return change()


def retry_while_busy(change: Callable[[], _Result], busy: type[Exception]) -> _Result:
    """Return the result of `change`, which waits for its tables a short while only and raises `busy` then.

    Raises that of the last of thirty attempts, between which there are pauses.
    """
    for _ in range(_TRIES - 1):
        with contextlib.suppress(busy):
            return change()
        _never.wait(_PAUSE_S)
    return change()

"""Changes that lock every table beside agents that write: a deadlock between the two is a reason to try again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeVar

from psycopg.errors import DeadlockDetected

_ATTEMPTS = 10
_Result = TypeVar("_Result")


def retry_deadlocks(change: Callable[[], _Result]) -> _Result:
    """Return the result of `change`, which must leave nothing behind when Postgres ends it for a deadlock.

    Raises DeadlockDetected of the last of ten attempts. Postgres waits a second (deadlock_timeout) before each.
    """
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(DeadlockDetected):
            return change()
    return change()

"""Changes that need tables to themselves, beside agents that write: what was in the way is a reason to try again."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from psycopg import sql
from psycopg.errors import DeadlockDetected, InsufficientPrivilege

from ...store.connection import DeadlineConnection

_DEADLOCKS = 10
_TRIES, _PAUSE_S = 30, 0.5
_DEADLOCK_MS = 300  # well below the 800 ms for which migrations and a change of the model wait for a table
_BLOCKS = 200  # of a table in one transaction: about 2,000 rows
_Result = TypeVar("_Result")
_never = threading.Event()


def go_before_autovacuum(conn: DeadlineConnection) -> None:
    """Have autovacuum give way to this session, which waits for a table a short while only.

    Postgres ends it for who has waited as long as deadlock_timeout, and it may be at a large table for an hour. Only a
    superuser may set that; others have to try again. `conn` commits by itself.
    """
    with contextlib.suppress(InsufficientPrivilege):
        conn.execute("SELECT set_config('deadlock_timeout', %s, false)", (f"{_DEADLOCK_MS}ms",))


def retry_deadlocks(change: Callable[[], _Result]) -> _Result:
    """Return the result of `change`, which must leave nothing behind when Postgres ends it for a deadlock.

    Raises DeadlockDetected of the last of ten attempts. Postgres waits for deadlock_timeout before each.
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


def write_by_blocks(
    conn: DeadlineConnection, statement: sql.Composed, blocks: int, tell: Callable[[int, int], None]
) -> None:
    """Execute `statement` for the rows of a table's `blocks`, some in each transaction: they lie from `first` to `end`.

    `conn` commits by itself. `tell` gets how many blocks are done, of how many.
    """
    for first in range(0, blocks, _BLOCKS):
        end = first + _BLOCKS
        retry_deadlocks(partial(conn.execute, statement, {"first": first, "end": end}))
        tell(min(end, blocks), blocks)

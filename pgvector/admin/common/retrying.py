"""Changes that need tables to themselves while agents write: if something is in the way, they are tried again."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from psycopg import sql
from psycopg.errors import DeadlockDetected, InsufficientPrivilege
from psycopg.pq import TransactionStatus

from ...store.connection import DeadlineConnection

_DEADLOCKS = 10
_TRIES, _PAUSE_S = 30, 0.5
_DEADLOCK_MS = 300  # well below the 800 ms that migrations and a change of the model wait for a table
_BLOCKS = 200  # of a table in one transaction: about 2,000 rows
_Result = TypeVar("_Result")
_never = threading.Event()


def go_before_autovacuum(conn: DeadlineConnection) -> None:
    """Make autovacuum give way to this session, which waits for a table only briefly.

    Postgres cancels autovacuum for a session that has waited as long as deadlock_timeout; otherwise it may be at a
    large table for an hour. Only a superuser may set that; others have to retry. `conn` must be in autocommit mode.
    """
    with contextlib.suppress(InsufficientPrivilege):
        conn.execute("SELECT set_config('deadlock_timeout', %s, false)", (f"{_DEADLOCK_MS}ms",))


def retry_deadlocks(change: Callable[[], _Result]) -> _Result:
    """Return the result of `change`, which must leave nothing behind if Postgres ends it because of a deadlock.

    Raises DeadlockDetected from the last of ten attempts. Postgres waits for deadlock_timeout before each.
    """
    for _ in range(_DEADLOCKS - 1):
        with contextlib.suppress(DeadlockDetected):
            return change()
    return change()


def run_script(conn: DeadlineConnection, script: bytes) -> None:
    """Execute a script that begins and ends its own transaction, again if Postgres ends it because of a deadlock."""

    def run() -> None:
        try:
            conn.execute(script)
        finally:
            if conn.info.transaction_status != TransactionStatus.IDLE and not conn.closed:
                conn.execute("ROLLBACK")

    retry_deadlocks(run)


def retry_while_busy(change: Callable[[], _Result], busy: type[Exception]) -> _Result:
    """Return the result of `change`, which waits for its tables only briefly and then raises `busy`.

    Raises `busy` from the last of thirty attempts, between which there are pauses.
    """
    for _ in range(_TRIES - 1):
        with contextlib.suppress(busy):
            return change()
        _never.wait(_PAUSE_S)
    return change()


def write_by_blocks(
    conn: DeadlineConnection, statement: sql.Composed, blocks: int, tell: Callable[[int, int], None]
) -> None:
    """Execute `statement` for a table's `blocks`, in transactions that each cover the blocks from `first` to `end`.

    `conn` must be in autocommit mode. `tell` is called with the number of blocks done, and of all.
    """
    for first in range(0, blocks, _BLOCKS):
        end = first + _BLOCKS
        retry_deadlocks(partial(conn.execute, statement, {"first": first, "end": end}))
        tell(min(end, blocks), blocks)

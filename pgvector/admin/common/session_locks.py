"""Database locks that long work holds for its session, so that only one process does it at a time."""

from __future__ import annotations

import logging
import threading
import time

from psycopg.pq import TransactionStatus

from ...domain.errors import StoreUnavailable
from ...store.connection import DeadlineConnection

logger = logging.getLogger(__name__)

_POLL_S = 0.1
_TOLD_AFTER_S = 5.0
_never = threading.Event()
_HOLDER = (
    "SELECT a.pid, a.usename AS role, coalesce(host(a.client_addr), 'the server''s own host') AS host"
    "  FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)"
    " WHERE l.locktype = 'advisory' AND l.granted AND a.datname = current_database()"
    "   AND (l.classid::bigint << 32) | l.objid::bigint = %s LIMIT 1"
)


def take(conn: DeadlineConnection, lock: int, work: str, *, timeout_s: float | None = None) -> None:
    """Take the lock until the session ends or releases it; after a long wait, log once whom it waits for.

    It waits by polling: if the session waited in Postgres, an index build would wait for it, and it for the build.
    Raises StoreUnavailable after `timeout_s`.
    """
    began = time.monotonic()
    told = False
    while conn.execute("SELECT pg_try_advisory_lock(%s)", (lock,)).fetchone() != (True,):
        waited = time.monotonic() - began
        if timeout_s is not None and waited >= timeout_s:
            raise StoreUnavailable(f"another process is at {work}{by(conn, lock)}: run it again later")
        if not told and waited >= _TOLD_AFTER_S:
            told = True
            logger.warning("hermes-pgvector: waits, for another process is at %s", work + by(conn, lock))
        _never.wait(_POLL_S)


def release(conn: DeadlineConnection, lock: int) -> None:
    """Release the lock; a session that is at its end, or left in a failed transaction, releases it by ending."""
    if not conn.closed and conn.info.transaction_status == TransactionStatus.IDLE:
        conn.execute("SELECT pg_advisory_unlock(%s)", (lock,))


def by(conn: DeadlineConnection, lock: int) -> str:
    """Return who holds the lock, and how to end that; "" if nobody does. A key of two numbers has the first above."""
    row = conn.execute(_HOLDER, (lock,)).fetchone()
    if row is None:
        return ""
    return (
        f" (role {row.role} on {row.host}; if that hangs, an administrator ends it with"
        f" SELECT pg_terminate_backend({row.pid}))"
    )

"""What we rely on, set at the beginning of a connection: a role or a database may be set to anything else."""

from __future__ import annotations

from psycopg import IsolationLevel, sql
from psycopg.errors import QueryCanceled

from .connection import DeadlineConnection
from .sql import query

_ATTEMPTS = 20
# By itself, and short: a role's own limit on statements may be a millisecond, and counts until this has run.
_ENDLESS = sql.SQL("SELECT set_config('statement_timeout', '0', false) WHERE pg_backend_pid() = {}")


def settle(conn: DeadlineConnection) -> None:
    """Give a new connection dates, numbers, strings and time limits as we expect them, and the path to our tables.

    In transaction mode a pooler keeps only some of it until the next transaction. Raises psycopg.Error.
    """
    conn.isolation_level = IsolationLevel.READ_COMMITTED
    pid = conn.info.backend_pid
    for attempt in range(_ATTEMPTS):
        try:
            conn.execute(_ENDLESS.format(sql.Literal(pid)))
            conn.execute(query("settle_session"), {"pid": pid})
            row = conn.execute(query("session_path")).fetchone()
            break
        except QueryCanceled:
            if attempt == _ATTEMPTS - 1:
                raise
    conn.path = row.path if row is not None else ""
    if conn.path:
        conn.execute(query("set_path"), {"path": conn.path, "local": False, "pid": pid})


def follow_path(conn: DeadlineConnection) -> None:
    """In a transaction: see our tables, also where a pooler lends another session for each."""
    if conn.path:
        conn.execute(query("set_path"), {"path": conn.path, "local": True, "pid": None})

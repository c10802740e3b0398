"""A pooler between an operator's login and Postgres, such as PgBouncer, and whether it keeps sessions."""

from __future__ import annotations

import time

from ...domain.errors import ConfigurationError, HermesPgvectorError
from ...store.connection import DeadlineConnection
from ...store.pool import backend_pid, connect, is_pooled

_ROUNDS = 3
_PATIENCE_S = 3.0  # where a pooler has one connection only, and somebody else is using it


def shares_sessions(conn: DeadlineConnection, conninfo: str) -> bool:
    """Return whether `conn` gets another session of the server for each transaction; `conninfo` is where it leads."""
    if not is_pooled(conn):
        return False
    try:
        with connect(conninfo) as other:
            for _ in range(_ROUNDS):
                other.deadline = time.monotonic() + _PATIENCE_S
                mine = backend_pid(conn)
                with other.transaction():
                    if backend_pid(other) == mine or backend_pid(conn) != mine:
                        return True
    except HermesPgvectorError:  # a second session is not to be had: each client keeps its own
        return False
    return False


def require_session(conn: DeadlineConnection, conninfo: str) -> None:
    """Raise ConfigurationError where `conn` leads through a pooler in transaction mode, and locks would be lost."""
    if shares_sessions(conn, conninfo):
        raise ConfigurationError(
            "this login leads through a pooler in transaction mode (PgBouncer), which keeps no lock and no setting "
            "from one statement to the next; name the database server itself in --admin-dsn"
        )

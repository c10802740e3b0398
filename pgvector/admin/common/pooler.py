"""Detection of a pooler such as PgBouncer between an operator's login and Postgres that does not keep sessions."""

from __future__ import annotations

import time

from ...domain.errors import ConfigurationError, HermesPgvectorError
from ...store.connection import DeadlineConnection
from ...store.pool import backend_pid, connect, is_pooled

_ROUNDS = 3
_PATIENCE_S = 10.0  # for a pooler that has only one connection, which somebody else is using, or for a busy machine


def shares_sessions(conn: DeadlineConnection, conninfo: str) -> bool:
    """Return whether `conn` gets a different server session for each transaction; `conninfo` leads there too."""
    if not is_pooled(conn):
        return False
    try:
        with connect(conninfo) as other:
            for _ in range(_ROUNDS):
                other.deadline = time.monotonic() + _PATIENCE_S
                mine = backend_pid(conn)
                # One that takes turns among its connections lends the same again while the other is in a transaction.
                if backend_pid(conn) != mine:
                    return True
                with other.transaction():
                    if backend_pid(other) == mine or backend_pid(conn) != mine:
                        return True
    except HermesPgvectorError:  # no second session is available: each client keeps its own
        return False
    return False


def require_session(conn: DeadlineConnection, conninfo: str) -> None:
    """Raise ConfigurationError if `conn` leads through a pooler in transaction mode, where locks would be lost."""
    if shares_sessions(conn, conninfo):
        raise ConfigurationError(
            "this login leads through a pooler in transaction mode (PgBouncer), which keeps no lock and no setting "
            "from one statement to the next; name the database server itself in --admin-dsn"
        )

"""Connections to Postgres: the process-wide pool, single connections, and the session settings we rely on."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import psycopg_pool
from pgvector.psycopg import register_vector
from pgvector.psycopg.vector import register_vector_info
from psycopg import IsolationLevel, sql
from psycopg.errors import QueryCanceled
from psycopg.pq import TransactionStatus
from psycopg.rows import namedtuple_row
from psycopg.types import TypeInfo

from ..domain.errors import (
    HermesPgvectorError,
    StoreMisconfigured,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnsettled,
)
from .calendar_times import calendar_adapters
from .connection import DeadlineConnection, answering, check_conninfo, translated, writable
from .pipeline import Pipeline, note_begun, set_limits
from .sql import query

APPLICATION_NAME = "hermes-pgvector"
_CONNECT_TIMEOUT_S = 5

# psycopg prepares a statement once it was executed this many times. A pooler in transaction mode gives the next
# transaction another server session, in which the prepared statement does not exist.
_PREPARE_AFTER = 5

_ADAPTERS = calendar_adapters()

# After these errors a connection may rely on types, tables or plans that no longer exist, be of a role that was dropped
# (one made anew under its name is another), or lead to a server that was demoted. The same holds for the other
# connections of the pool.
_STALE = (StoreMisconfigured, StoreReadOnly, StoreUnsettled)

_SETTLE_ATTEMPTS = 20
# Sent alone and kept short: a role's own statement_timeout may be a millisecond, and applies until this has run.
# A pooler may connect to its server only now, and in a pipeline psycopg does not tell why it could not.
_ENDLESS = sql.SQL("SELECT set_config('statement_timeout', '0', false) WHERE pg_backend_pid() = {}")

# If no connection is to be had for this long although none is in use, the pool can no longer connect.
_CONNECT_PATIENCE_S = 1.0


def _is_of_others(record: logging.LogRecord) -> bool:
    """Return False for a log record about one of our connections: we report outages ourselves, once."""
    args = record.args if isinstance(record.args, tuple) else ()
    # A record about a pipeline, a transaction or a COPY has that object as an argument, not the connection.
    subjects = [getattr(arg, name, None) for arg in args for name in ("_conn", "connection")]
    ours = any(isinstance(subject, DeadlineConnection) for subject in [*args, *subjects])
    return not (ours or APPLICATION_NAME in record.getMessage())


for _name in ("psycopg", "psycopg.pool", "psycopg.transaction"):
    logging.getLogger(_name).addFilter(_is_of_others)


def settle(conn: DeadlineConnection) -> TypeInfo | None:
    """Set on a new connection the date, number and string formats, time limits and search path that we expect.

    A pooler in transaction mode keeps only some of these settings until the next transaction. Return the type vector
    if the role's own path shows it and our tables. Raises psycopg.Error.
    """
    conn.isolation_level = IsolationLevel.READ_COMMITTED
    pid = conn.info.backend_pid
    for attempt in range(_SETTLE_ATTEMPTS):
        try:
            conn.execute(_ENDLESS.format(sql.Literal(pid)))
            with conn.pipeline():
                session = conn.execute(query("settle_session"), {"pid": pid})
                vectors = conn.execute(query("session_types"))
            settled, vector = session.fetchone(), vectors.fetchone()
            break
        except QueryCanceled:
            if attempt == _SETTLE_ATTEMPTS - 1:
                raise
    conn.spread = bool(settled and settled.spread)
    if vector is not None and vector.leads_to_ours:
        return TypeInfo("vector", vector.oid, vector.array_oid)
    row = conn.execute(query("session_path")).fetchone()
    conn.path = row.path if row is not None else ""
    if conn.path:
        conn.execute(query("set_path"), {"path": conn.path, "local": False, "pid": pid})
    return None


def follow_path(conn: DeadlineConnection) -> None:
    """Set the search path to our tables for one transaction: a pooler may lend each one another session."""
    if conn.path:
        conn.execute(query("set_path"), {"path": conn.path, "local": True, "pid": None})


def is_pooled(conn: DeadlineConnection) -> bool:
    """Return whether a pooler stands before Postgres: it reports an invented process id to its clients."""
    return backend_pid(conn) != conn.info.backend_pid


def backend_pid(conn: DeadlineConnection) -> int:
    """Return the process id of the server session that runs this statement."""
    with translated():
        row = conn.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])


def connect(
    conninfo: str, *, timeout_s: float = _CONNECT_TIMEOUT_S, prepares: bool = False, as_is: bool = False
) -> DeadlineConnection:
    """Return a single connection outside the pool, in autocommit mode. Raises StoreUnavailable.

    If `conninfo` names several hosts, connect to the one that accepts writes, as agents do, and to another only if none
    does; with `as_is`, to the first it leads to. Set `prepares` only if it is known that no pooler stands in between.
    """
    check_conninfo(conninfo)
    if as_is:
        return _opened(conninfo, settle, timeout_s, prepares=prepares)
    try:
        return _opened(writable(conninfo), settle, timeout_s, prepares=prepares)
    except StoreReadOnly:
        return _opened(answering(conninfo), settle, timeout_s, prepares=prepares)


def _opened(
    conninfo: str, configure: Callable[[DeadlineConnection], object], timeout_s: float, *, prepares: bool
) -> DeadlineConnection:
    """Open and configure a connection, each within `timeout_s`, and return it. Raises StoreUnavailable."""
    with translated():
        conn = DeadlineConnection.connect(
            conninfo, row_factory=namedtuple_row, **_connection_settings(timeout_s, prepares=prepares)
        )
        try:
            conn.deadline = time.monotonic() + timeout_s
            configure(conn)
            conn.deadline = None
        except BaseException:
            conn.close()
            raise
        return conn


def _configure(conn: DeadlineConnection) -> None:
    if vector := settle(conn):
        register_vector_info(conn, vector)
    else:
        with conn.transaction():
            follow_path(conn)
            register_vector(conn)
    if conn.prepare_threshold is not None:  # no pooler in between
        conn.execute(query("keep_settings"))
        conn.keeps_settings = True


def _connection_settings(timeout_s: float, *, prepares: bool) -> dict[str, Any]:
    # libpq's connect_timeout counts whole seconds. Keepalives detect a host that vanished while nothing was sent.
    return {
        "autocommit": True,
        "context": _ADAPTERS,
        "prepare_threshold": _PREPARE_AFTER if prepares else None,
        "connect_timeout": max(1, round(timeout_s)),
        "application_name": APPLICATION_NAME,
        "client_encoding": "UTF8",
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
    }


def pool_for(conn: DeadlineConnection, conninfo: str, *, max_size: int, pooler: str) -> Pool:
    """Return an unopened pool of further connections like `conn`; `pooler` is the setting of that name."""
    lends = pooler == "transaction" or (pooler == "auto" and is_pooled(conn))
    return Pool(conninfo, max_size=max_size, prepares=not lends)


class _Unpooled:
    """A replacement for psycopg_pool's pool without threads: it opens a connection for each use."""

    def __init__(self, conninfo: str, *, prepares: bool) -> None:
        self._conninfo = conninfo
        self._prepares = prepares

    def getconn(self, timeout: float) -> DeadlineConnection:
        """Return a new connection. Raises StoreUnavailable."""
        return _opened(self._conninfo, _configure, min(timeout, _CONNECT_TIMEOUT_S), prepares=self._prepares)

    def putconn(self, conn: DeadlineConnection) -> None:
        """Close the connection."""
        conn.close()

    def get_stats(self) -> dict[str, int]:
        """Return no counters."""
        return {}

    def close(self, timeout: float) -> None:
        """Do nothing: no connection is kept."""


class Pool:
    """At most `max_size` connections, opened when first needed and shared by every provider of the process.

    Without `prepares` no session state outlives a transaction, as a pooler in transaction mode demands.
    `lost` is set when a connection broke or none could be opened, `stale` when what the connections know of the server
    may no longer hold. In both cases the owner of the pool opens a new one.
    """

    def __init__(self, conninfo: str, *, max_size: int, prepares: bool = True) -> None:
        self.lost = False
        self.stale = False
        self._conninfo = conninfo
        self._prepares = prepares
        self._in_use: set[DeadlineConnection] = set()
        self._pool: psycopg_pool.ConnectionPool[DeadlineConnection] | _Unpooled = psycopg_pool.ConnectionPool(
            conninfo,
            connection_class=DeadlineConnection,
            kwargs={"row_factory": namedtuple_row, **_connection_settings(_CONNECT_TIMEOUT_S, prepares=prepares)},
            min_size=1,
            max_size=max_size,
            open=False,
            name=APPLICATION_NAME,
            configure=_configure,
            num_workers=1,
            reconnect_timeout=15.0,  # by then the writer has opened a new pool
        )

    def open(self) -> None:
        """Start connecting in the background; if no thread can be started, connect at each use instead."""
        assert isinstance(self._pool, psycopg_pool.ConnectionPool)
        try:
            self._pool.open()
        except RuntimeError:  # an interpreter at shutdown starts no threads, but accepted writes are still applied
            self._pool = _Unpooled(self._conninfo, prepares=self._prepares)
            self.stale = True  # the system may be out of threads only for a moment

    @contextmanager
    def connection(self, timeout_s: float) -> Iterator[DeadlineConnection]:
        """Yield a transaction on a pooled connection that ends within `timeout_s`, including the wait for one.

        Raises StoreUnavailable or DeadlineExceeded. Commits when the block ends, rolls back if it raises.
        """
        with self._lent(timeout_s) as conn, ExitStack() as stack:
            with conn.pipeline():
                stack.enter_context(psycopg.Transaction(conn))
                begun = set_limits(conn)
            note_begun(conn, begun.fetchone())
            yield conn

    @contextmanager
    def reading(self, timeout_s: float, pipe: Pipeline) -> Iterator[DeadlineConnection]:
        """Lend `pipe` a connection and send its waiting statements, within `timeout_s`; raises as `connection` does."""
        with self._lent(timeout_s) as conn:
            pipe.begin(conn)
            yield conn

    @contextmanager
    def _lent(self, timeout_s: float) -> Iterator[DeadlineConnection]:
        """Yield a connection whose waits end within `timeout_s`; translate psycopg's errors raised in the block."""
        deadline = time.monotonic() + timeout_s
        try:
            conn = self._pool.getconn(timeout=max(0.01, timeout_s))
        except psycopg_pool.PoolTimeout as exc:
            self.lost |= timeout_s >= _CONNECT_PATIENCE_S and not self._in_use
            raise StoreUnavailable(
                f"no connection to Postgres within {timeout_s:.1f} s: it is out of reach, or all connections are busy"
            ) from exc
        except psycopg_pool.PoolClosed as exc:
            raise StoreUnavailable("the connection pool is closed") from exc
        except HermesPgvectorError:
            self.lost = True
            raise
        self._in_use.add(conn)
        try:
            conn.deadline = deadline
            with translated():
                yield conn
        except _STALE:
            self.stale = True
            raise
        finally:
            conn.deadline = None
            if conn.pgconn.transaction_status != TransactionStatus.IDLE:
                conn.pgconn.finish()  # even the rollback failed
            self.lost |= conn.closed
            if self.stale:
                conn.pgconn.finish()
            self._in_use.discard(conn)
            self._pool.putconn(conn)

    def stats(self) -> dict[str, int]:
        """Return psycopg_pool's own counters."""
        return dict(self._pool.get_stats())

    def close(self) -> None:
        """Close every connection; one in use is closed when it is returned."""
        self._pool.close(timeout=0.5)

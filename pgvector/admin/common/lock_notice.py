"""Says whom a command waits for: else one that waits for a lock of another session looks as if it had hung."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus

from ...domain.errors import HermesPgvectorError
from ...store.backend import Backend
from ...store.connection import DeadlineConnection, translated
from ...store.pipeline import Pipeline
from ...store.pool import connect
from .console import remark, watched_by

_SILENT_S = 3.0  # from then on a wait is explained
_LOOK_S = 0.5
_SELDOM_S = 30.0  # between looks at a statement that takes long by itself
_LOOK_DEADLINE_S = 5.0
# Only the role and the program of another session are visible to every role. Behind a pooler nothing is found: it
# invents the number of our session.
_HOLDERS = """
SELECT other.pid, other.usename AS role, other.application_name AS program
  FROM pg_stat_activity AS ours
 CROSS JOIN unnest(pg_blocking_pids(ours.pid)) AS holder(pid)
  JOIN pg_stat_activity AS other ON other.pid = holder.pid
 WHERE ours.pid = %s AND ours.usename = current_user AND ours.datname = current_database()
"""


@contextmanager
def lock_waits_told(conn: DeadlineConnection) -> Iterator[None]:
    """Say on stderr, once of each, which sessions hold locks that `conn` has waited for in the block for a while."""
    try:
        conninfo = make_conninfo(**conn.info.get_parameters(), password=conn.info.password)
    except UnicodeError:  # psycopg reads the name of the user's home as UTF-8, which it need not be
        yield
        return
    with watched_by(partial(_watch, conn, conninfo), "lock-notice", joins=False):  # a look may take seconds
        yield


class TellingBackend(Backend):
    """The store of a command: what waits for a lock over one of its connections is explained on stderr."""

    @contextmanager
    def connection(self, timeout_s: float) -> Iterator[DeadlineConnection]:
        """Yield a connection as an agent's store does, and tell of waits in the block."""
        with super().connection(timeout_s) as conn, lock_waits_told(conn):
            yield conn

    @contextmanager
    def reading(self, timeout_s: float, pipe: Pipeline) -> Iterator[DeadlineConnection]:
        """Lend a connection as an agent's store does, and tell of waits in the block."""
        with super().reading(timeout_s, pipe) as conn, lock_waits_told(conn):
            yield conn


def _watch(conn: DeadlineConnection, conninfo: str, over: threading.Event) -> None:
    pid = conn.info.backend_pid
    working_since, pause_s = time.monotonic(), _SILENT_S
    told: set[str] = set()
    while not over.wait(_LOOK_S):
        if conn.pgconn.transaction_status != TransactionStatus.ACTIVE:
            working_since, pause_s = time.monotonic(), _SILENT_S
        elif time.monotonic() - working_since >= pause_s:
            holder = _holder(conninfo, pid)
            if holder not in ("", *told) and not over.is_set():
                remark(holder)
                told.add(holder)
            pause_s += min(pause_s, _SELDOM_S)


def _holder(conninfo: str, pid: int) -> str:
    """Return a line about the session that holds what the session `pid` waits for; "" if there is none, or unknown."""
    try:
        with connect(conninfo, timeout_s=_LOOK_DEADLINE_S) as look, translated():
            look.deadline = time.monotonic() + _LOOK_DEADLINE_S
            row = look.execute(_HOLDERS, (pid,)).fetchone()
    except (HermesPgvectorError, psycopg.Error, OSError):
        return ""
    if row is None:
        return ""
    program = f" with {row.program}" if row.program else ""
    return (
        f"waiting for a lock that session {row.pid} of the database holds (role {row.role}{program}); Ctrl-C ends this "
        f"command; an admin can end that session: SELECT pg_terminate_backend({row.pid})"
    )

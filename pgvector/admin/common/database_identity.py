"""What tells one database from every other one."""

from __future__ import annotations

from ...store.connection import DeadlineConnection, translated
from ...store.sql import query


def identity(conn: DeadlineConnection) -> tuple[object, ...]:
    """Return what tells this database from every other one that runs, whichever way leads there."""
    with translated():
        return tuple(conn.execute(query("database_identity")).fetchone() or ())

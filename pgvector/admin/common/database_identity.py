"""The identity of a database."""

from __future__ import annotations

from ...store.connection import DeadlineConnection, translated
from ...store.sql import query


def identity(conn: DeadlineConnection) -> tuple[object, ...]:
    """Return values that distinguish this database from every other running one, by whatever route it is reached."""
    with translated():
        return tuple(conn.execute(query("database_identity", package=__package__)).fetchone() or ())

"""Which statement a database takes, and the single row of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg import sql

from ...store.connection import DeadlineConnection


def one(
    conn: DeadlineConnection,
    statement: str | bytes | sql.Composed,
    values: Mapping[str, Any] | None = None,
    *,
    anew: bool = False,
) -> Any:
    """Return the row of a statement that has exactly one, such as a count; `anew`: planned anew for these values."""
    row = conn.execute(statement, values, prepare=False if anew else None).fetchone()
    assert row is not None, "such a statement has a row"
    return row


def where_spread(conn: DeadlineConnection, name: str) -> str:
    """Return the name of the statement that takes the place of `name` if the tables are spread over machines."""
    return f"{name}_spread" if conn.spread else name

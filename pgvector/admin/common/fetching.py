"""Reading from Postgres: the single row of a statement, and sequences in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from psycopg import sql

from ...store.connection import DeadlineConnection

_T = TypeVar("_T")


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


def pieces(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    """Yield the items in order, at most `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]

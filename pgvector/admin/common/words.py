"""The search words of rows stored before migration 008, which are recomputed while agents work."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from psycopg import sql

from ...store.connection import DeadlineConnection, translated
from ...store.sql import query
from .fetching import one
from .hnsw import Tell
from .retrying import retry_deadlocks

_TABLES = ("memory_entries", "conversations")
_PIECE = 2000  # rows of one transaction
_query = partial(query, package=__package__)


def complete(conn: DeadlineConnection, tell: Tell) -> list[str]:
    """Recompute the words of the rows that need it; return what was done, by its name, the first time only.

    An interrupted run is continued by the next one: a row that has its words is not written again.
    """
    if are_read(conn):
        return []
    with translated():
        for table in _TABLES:
            _read(conn, table, partial(tell, f"words of {table}"))
        conn.execute(_query("note_words_read"))
    return ["words of stored rows"]


def are_read(conn: DeadlineConnection) -> bool:
    """Return whether every stored row has its words; also if migration 008 is not applied yet."""
    with translated():
        return one(conn, _query("words_are_read")).read is not False


def _read(conn: DeadlineConnection, table: str, tell: Callable[[int, int], None]) -> None:
    """Recompute the words of a table's rows, a piece in each transaction; `tell` gets the last id done, and of all."""
    after = -(1 << 63)  # below every id
    while (end := one(conn, _of(table, "end_of_rows"), {"after": after})).piece is not None:
        retry_deadlocks(partial(conn.execute, _of(table, "read_words"), {"after": after, "piece": end.piece}))
        after = end.piece
        tell(after, end.whole)


def _of(table: str, statement: str) -> sql.Composed:
    return sql.SQL(_query(statement).decode()).format(table=sql.Identifier(table), piece=sql.Literal(_PIECE))

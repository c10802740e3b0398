"""The words by which rows are found, for those that were stored before migration 008: read anew while agents go on."""

from __future__ import annotations

from functools import partial

from psycopg import sql

from ...store.connection import DeadlineConnection, translated
from ...store.sql import query
from .hnsw import Tell
from .retrying import retry_deadlocks

_TABLES = ("memory_entries", "conversations")
_BLOCKS = 200  # of a table in one transaction: about 2,000 rows
_query = partial(query, package=__package__)


def complete(conn: DeadlineConnection, tell: Tell) -> list[str]:
    """Read the words of the rows that need it; return what was done, by its name, the first time only.

    Begun anew it goes on where it was: a row that has its words is not written again.
    """
    if are_read(conn):
        return []
    with translated():
        for table in _TABLES:
            _read(conn, table, tell)
        conn.execute(_query("note_words_read"))
    return ["words of stored rows"]


def are_read(conn: DeadlineConnection) -> bool:
    """Return whether every stored row has its words, or no migration says so yet."""
    with translated():
        row = conn.execute(_query("words_are_read")).fetchone()
    return row is None or row.read is not False


def _read(conn: DeadlineConnection, table: str, tell: Tell) -> None:
    row = conn.execute(_of(table, "blocks_of")).fetchone()
    assert row is not None
    statement = _of(table, "read_words")
    for first in range(0, row.blocks, _BLOCKS):
        place = {"first": first, "end": first + _BLOCKS}
        retry_deadlocks(lambda place=place: conn.execute(statement, place))  # type: ignore[misc]
        tell(f"words of {table}", min(first + _BLOCKS, row.blocks), row.blocks)


def _of(table: str, statement: str) -> sql.Composed:
    return sql.SQL(_query(statement).decode()).format(table=sql.Identifier(table), table_name=sql.Literal(table))

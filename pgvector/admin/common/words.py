"""The words by which rows are found, for those that were stored before migration 008: read anew while agents go on."""

from __future__ import annotations

from functools import partial

from psycopg import sql

from ...store.connection import DeadlineConnection, translated
from ...store.sql import query
from .fetching import one
from .hnsw import Tell
from .retrying import write_by_blocks

_TABLES = ("memory_entries", "conversations")
_query = partial(query, package=__package__)


def complete(conn: DeadlineConnection, tell: Tell) -> list[str]:
    """Read the words of the rows that need it; return what was done, by its name, the first time only.

    Begun anew it goes on where it was: a row that has its words is not written again.
    """
    if are_read(conn):
        return []
    with translated():
        for table in _TABLES:
            blocks = one(conn, _of(table, "blocks_of")).blocks
            write_by_blocks(conn, _of(table, "read_words"), blocks, partial(tell, f"words of {table}"))
        conn.execute(_query("note_words_read"))
    return ["words of stored rows"]


def are_read(conn: DeadlineConnection) -> bool:
    """Return whether every stored row has its words, or no migration says so yet."""
    with translated():
        return one(conn, _query("words_are_read")).read is not False


def _of(table: str, statement: str) -> sql.Composed:
    return sql.SQL(_query(statement).decode()).format(table=sql.Identifier(table), table_name=sql.Literal(table))

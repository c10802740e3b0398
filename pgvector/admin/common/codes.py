"""The codes by which near vectors are found, computed while agents work for rows stored by a version without codes."""

from __future__ import annotations

from functools import partial

from psycopg import sql

from ...store.connection import DeadlineConnection, translated
from ...store.sql import query
from . import hnsw
from .fetching import one
from .retrying import write_by_blocks

# The columns that identify a row within its theme; they are in the indexes.
_KEYS = {
    "memory_entries": ("id",),
    "conversations": ("id",),
    "memory_chunks": ("row_id", "part"),
    "conversation_chunks": ("row_id", "part"),
}
_query = partial(query, package=__package__)


def complete(conn: DeadlineConnection, tell: hnsw.Tell) -> list[str]:
    """Compute missing codes and build their indexes; return what was done, by its name.

    Only one process does it at a time, and an interrupted run is continued by the next one. If rows lacked codes, the
    HNSW indexes are dropped: each row is written once more, and updating them would take most of the time.
    """
    done: list[str] = []
    with translated(), hnsw.one_at_a_time(conn):
        hnsw.drop_former(conn)
        for table in _KEYS:
            done += _index(conn, table, f"{table}_theme_code_idx", "index_codes")
        lacking = [table for table in _KEYS if _state(conn, table)[0]]
        for name in hnsw.present(conn) if lacking else ():
            hnsw.drop_index(conn, name)
        for table in lacking:
            _fill(conn, table, tell)
            done.append(f"codes of {table}")
        for table in _KEYS:
            done += _replace_signatures(conn, table)
        if lacking:
            conn.execute(sql.SQL("VACUUM (ANALYZE) {}").format(sql.SQL(", ").join(map(sql.Identifier, lacking))))
    return done


def lacking_rows(conn: DeadlineConnection) -> list[str]:
    """Return the tables with rows that have a vector but no code."""
    with translated():
        return [table for table in _KEYS if _state(conn, table)[0]]


def _state(conn: DeadlineConnection, table: str) -> tuple[bool, int]:
    """Return whether rows lack their code, and how many blocks the table has."""
    row = one(conn, _of(table, "codes_are_missing"))
    return row.missing, row.blocks


def _fill(conn: DeadlineConnection, table: str, tell: hnsw.Tell) -> None:
    """Compute the codes of a table; repeat it if a row has moved meanwhile to a block that was already done."""
    while (state := _state(conn, table))[0]:
        write_by_blocks(conn, _of(table, "fill_codes"), state[1], partial(tell, f"codes of {table}"))


def _replace_signatures(conn: DeadlineConnection, table: str) -> list[str]:
    """Restrict the index of signatures to the rows that have no code."""
    old = f"{table}_theme_sig_idx"
    if conn.execute(_query("signatures_are_apart"), {"index": f'"{old}"'}).fetchone() == (True,):
        return []
    _index(conn, table, f"{table}_theme_bare_idx", "index_signatures")
    conn.execute(_of(table, "replace_signatures", index=f"{table}_theme_bare_idx"))
    return [old]


def _index(conn: DeadlineConnection, table: str, index: str, statement: str) -> list[str]:
    return [index] if hnsw.build_with(conn, index, _of(table, statement, index=index)) else []


def _of(table: str, statement: str, *, index: str = "none") -> sql.Composed:
    return sql.SQL(_query(statement).decode()).format(
        table=sql.Identifier(table),
        table_name=sql.Literal(table),
        key=sql.SQL(", ").join(map(sql.Identifier, _KEYS[table])),
        index=sql.Identifier(index),
        old_index=sql.Identifier(f"{table}_theme_sig_idx"),
    )

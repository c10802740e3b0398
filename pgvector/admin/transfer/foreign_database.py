"""Reads of other programs' databases, each in one read-only transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from ...domain.errors import ConfigurationError, StoreMisconfigured, StoreUnavailable
from ...store.connection import DeadlineConnection, translated
from ...store.pool import connect
from ...store.sql import query

_PAGE = 500  # rows a round trip
_OURS = "digest"  # of the columns of memory_entries, the one that only our migrations make


class ForeignDatabase:
    """A schema of a database that is open for reading."""

    def __init__(self, conn: DeadlineConnection, schema: str, expected: str) -> None:
        self._conn = conn
        self._schema = schema
        self._expected = expected

    def columns(self, table: str) -> set[str]:
        """Return the columns of a table; none where there is no such table, or no right to see it."""
        found = self._conn.execute(query("foreign_columns"), {"schema": self._schema, "table": table})
        return {row.column_name for row in found}

    def demand(self, table: str, *columns: str) -> None:
        """Raise ConfigurationError where the table lacks one of these columns."""
        there = self.columns(table)
        missing = ", ".join(sorted(set(columns) - there))
        if not there:
            raise ConfigurationError(
                f'schema "{self._schema}" there is not one with {self._expected}: no table {table} '
                "(or no right to see it); name another one with --schema"
            )
        if missing:
            raise ConfigurationError(f"the table {table} there is not of {self._expected}: it lacks {missing}")

    def is_ours(self) -> bool:
        """Return whether these are tables of this very program."""
        return _OURS in self.columns("memory_entries")

    def count(self, table: str) -> int:
        """About how many rows a table has; 0 where nobody has counted yet."""
        row = self._conn.execute(query("foreign_count"), {"schema": self._schema, "table": table}).fetchone()
        return int(row.count) if row is not None else 0

    def predecessor_memories(self) -> Iterator[Any]:
        """Yield the memories of the other hermes-memory-pgvector."""
        return self._rows(query("predecessor_memories"))

    def predecessor_turns(self) -> Iterator[Any]:
        """Return its turns by theme and session; its first releases kept no parents of sessions."""
        parents = "parent_session_id" in self.columns("conversations")
        return self._rows(query("predecessor_turns" if parents else "predecessor_turns_without_parents"))

    def hindsight_documents(self, bank: str | None) -> Iterator[Any]:
        """Yield what Hindsight was given to retain, in one bank or all."""
        return self._rows(query("hindsight_documents"), {"bank": bank})

    def hindsight_facts(self, bank: str | None) -> Iterator[Any]:
        """Yield what it made of that."""
        return self._rows(query("hindsight_facts"), {"bank": bank})

    def mem0_points(self, table: str) -> Iterator[Any]:
        """Yield the rows of the table in which Mem0 keeps a collection."""
        return self._rows(sql.SQL(query("mem0_points").decode()).format(table=sql.Identifier(table)))

    def _rows(self, statement: bytes | sql.Composed, values: dict[str, Any] | None = None) -> Iterator[Any]:
        with self._conn.cursor(name="hermes_pgvector") as cursor:
            cursor.itersize = _PAGE
            yield from cursor.execute(statement, values)


@contextmanager
def foreign(dsn: str, schema: str, expected: str) -> Iterator[ForeignDatabase]:
    """Yield a database as it is at one moment; `expected` says what it should hold, as "the tables of Hindsight".

    Raises StoreUnavailable.
    """
    try:
        opened = connect(dsn)
    except StoreUnavailable as exc:
        raise type(exc)(f"the source cannot be read: {str(exc).replace('`dsn`', '`--dsn`')}") from exc
    try:
        with opened as conn, translated():
            conn.set_read_only(True)
            conn.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
            with conn.transaction():
                conn.execute(query("foreign_schema"), {"schema": schema})
                yield ForeignDatabase(conn, schema, expected)
    except StoreMisconfigured as exc:  # what would help with our own tables does not help there
        said = str(exc).partition(";")[0]
        raise ConfigurationError(
            f"the source cannot be read: {said}; name a role in --dsn that may, or another --schema"
        ) from exc

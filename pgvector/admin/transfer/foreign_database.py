"""Reads other programs' databases, each in one read-only transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import psycopg
from psycopg import sql

from ...domain.errors import ConfigurationError, StoreMisconfigured, StoreUnavailable
from ...domain.redaction import mask_dsn
from ...store.connection import DeadlineConnection, translated
from ...store.pool import connect
from ...store.sql import query
from .sources.source import ImportDestination

_query = partial(query, package=__package__)
_PAGE = 500  # rows a round trip
_OURS = "digest"  # a column of memory_entries that only our migrations create


class ForeignDatabase:
    """A schema of another program's database, open for reading."""

    def __init__(self, conn: DeadlineConnection, schema: str, expected: str) -> None:
        self._conn = conn
        self._schema = schema
        self._expected = expected

    def columns(self, table: str) -> set[str]:
        """Return the columns of a table; empty if there is no such table, or no right to see it."""
        found = self._conn.execute(_query("foreign_columns"), {"schema": self._schema, "table": table})
        return {row.column_name for row in found}

    def demand(self, table: str, *columns: str) -> None:
        """Raise ConfigurationError if the table lacks one of these columns."""
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
        """Return whether the tables are our own."""
        return _OURS in self.columns("memory_entries")

    def count(self, table: str) -> int:
        """Return the estimated number of rows of a table; 0 if there is no estimate yet."""
        row = self._conn.execute(_query("foreign_count"), {"schema": self._schema, "table": table}).fetchone()
        return int(row.count) if row is not None else 0

    def rows(self, name: str, *, table: str = "", **values: Any) -> Iterator[Any]:
        """Yield the rows of a named statement; `table` is the table it reads, if that can have any name."""
        statement: bytes | sql.Composed = _query(name)
        if table:
            statement = sql.SQL(_query(name).decode()).format(table=sql.Identifier(table))
        with self._conn.cursor(name="hermes_pgvector") as cursor:
            cursor.itersize = _PAGE
            yield from cursor.execute(statement, values or None)


@contextmanager
def foreign(dsn: str, schema: str, expected: str) -> Iterator[ForeignDatabase]:
    """Yield a snapshot of a database; `expected` says what it should hold, such as "the tables of Hindsight".

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
                conn.execute(_query("foreign_schema"), {"schema": schema})
                yield ForeignDatabase(conn, schema, expected)
    except StoreMisconfigured as exc:  # its advice is about our own tables and does not help here
        said = str(exc).partition(";")[0]
        raise ConfigurationError(
            f"the source cannot be read: {said}; name a role in --dsn that may, or another --schema"
        ) from exc


@dataclass(frozen=True)
class SourceTables:
    """Tables of another program in one schema; rows that name no profile belong to `profile`.

    `DEMANDED`: the columns that the tables must have.
    """

    EXPECTED: ClassVar[str]
    DEMANDED: ClassVar[Mapping[str, Sequence[str]]]

    dsn: str
    schema: str
    profile: str
    destination: ImportDestination

    @property
    def where(self) -> str:
        """Return the database and the schema."""
        return f"{mask_dsn(self.dsn)} (schema {self.schema})"

    @contextmanager
    def opened(self) -> Iterator[ForeignDatabase]:
        """Yield the database after checking its columns. Raises ConfigurationError and StoreUnavailable."""
        with foreign(self.dsn, self.schema, self.EXPECTED) as database:
            for table, columns in self.DEMANDED.items():
                database.demand(table, *columns)
            yield database

    def total(self) -> int:
        """Return the estimated number of rows."""
        with self.opened() as database:
            return sum(map(database.count, self.DEMANDED))

"""Reads another program's SQLite file without changing it or blocking that program."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from ....domain.errors import ConfigurationError
from .source import ProfileFile

_BUSY_S = 5.0
_PAGE = 2000  # rows a read: no read transaction stays open while the rows are stored
_NUMBER = "rowid"  # every table has it, though SQLite does not list it among the columns


class SqliteFile:
    """A SQLite file that is open for reading."""

    def __init__(self, conn: sqlite3.Connection, path: Path, expected: str) -> None:
        self._conn = conn
        self._path = path
        self._expected = expected

    def demand(self, table: str, *columns: str) -> None:
        """Raise ConfigurationError if the table lacks one of these columns."""
        missing = set(columns) - self.columns(table)
        if missing:
            raise ConfigurationError(
                f"{self._path} is not {self._expected}: its table {table} lacks {', '.join(sorted(missing))}"
                if self.columns(table)
                else f"{self._path} is not {self._expected}: it has no table {table}"
            )

    def columns(self, table: str) -> set[str]:
        """Return the columns of a table; empty if there is none, or for a view, which would run SQL from the file."""
        kept = "type = 'table' AND name = ? COLLATE NOCASE AND sql NOT LIKE 'CREATE VIRTUAL%'"
        known = f"SELECT name FROM pragma_table_info(?) WHERE EXISTS (SELECT 1 FROM sqlite_master WHERE {kept})"
        return {str(row["name"]) for row in self._ask(known, (table, table))}

    def count(self, table: str) -> int:
        """Return how many rows a table has."""
        (row,) = self._ask(f'SELECT count(*) AS count FROM "{table}"')
        return int(row["count"])

    def rows(
        self, table: str, columns: Sequence[str], *, where: str = "", values: Sequence[object] = (), order: str = ""
    ) -> list[dict[str, Any]]:
        """Return rows with these columns; a column that this version of the file lacks is None."""
        there = self.columns(table) | {_NUMBER}
        wanted = ", ".join(f'"{name}" AS "{name}"' if name in there else f'NULL AS "{name}"' for name in columns)
        statement = f'SELECT {wanted} FROM "{table}"'
        statement += f" WHERE {where}" if where else ""
        statement += f" ORDER BY {order}" if order else ""
        return [dict(row) for row in self._ask(statement, values)]

    def paged(self, table: str, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield all rows in the order of their rowids, page by page."""
        last = -(2**63)
        while page := self.rows(
            table, [_NUMBER, *columns], where=f"{_NUMBER} > ?", values=(last,), order=f"{_NUMBER} LIMIT {_PAGE}"
        ):
            yield from page
            last = page[-1][_NUMBER]

    def _ask(self, statement: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        try:
            with _told_as_damage():
                return self._conn.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as exc:
            raise ConfigurationError(f"{self._path} cannot be read as {self._expected}: {exc}") from exc


@contextmanager
def _told_as_damage() -> Iterator[None]:
    """Make a DatabaseError of an error of SQLite that names what is damaged in the file, if that is no UTF-8."""
    try:
        yield
    except UnicodeDecodeError as exc:
        raise sqlite3.DatabaseError("its tables have damaged names or definitions") from exc


@contextmanager
def read_only(path: Path, expected: str) -> Iterator[SqliteFile]:
    """Yield the file at `path`; `expected` says what it should be, such as "the session database of hermes-agent".

    The file is never written to. If it is locked, or SQLite may not create its helper files beside it, a copy is read.
    Raises ConfigurationError if it is missing, damaged or something else.
    """
    if path.is_dir():
        raise ConfigurationError(f"{path} is a folder; name the file in it: {expected}")
    if not path.is_file():
        raise ConfigurationError(f"there is no {path}; expected {expected}")
    with tempfile.TemporaryDirectory(prefix="hermes-pgvector-") as folder:
        try:
            conn = _opened(path, read_only=True)
        except sqlite3.OperationalError as exc:
            conn = _copied(path, Path(folder), expected, exc)
        except sqlite3.DatabaseError as exc:
            raise ConfigurationError(f"{path} is not {expected}, or it is damaged: {exc}") from exc
        with closing(conn):
            yield SqliteFile(conn, path, expected)


def _opened(path: Path, *, read_only: bool) -> sqlite3.Connection:
    conn = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode={'ro' if read_only else 'rw'}", uri=True, timeout=_BUSY_S, isolation_level=None
    )
    conn.row_factory = sqlite3.Row
    conn.execute("PRAGMA trusted_schema = OFF")
    # Text that is not UTF-8 must not stop the import of the rest.
    conn.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        with _told_as_damage():
            conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        conn.close()
        raise
    return conn


def _copied(path: Path, folder: Path, expected: str, why: sqlite3.OperationalError) -> sqlite3.Connection:
    try:
        copy = folder / path.name
        shutil.copyfile(path, copy)
        with suppress(FileNotFoundError):  # the file has no write-ahead log
            shutil.copyfile(f"{path}-wal", f"{copy}-wal")
        return _opened(copy, read_only=False)
    except OSError as exc:
        raise ConfigurationError(f"{path} cannot be read: {exc.strerror or exc}") from exc
    except sqlite3.DatabaseError as exc:
        raise ConfigurationError(f"{path} cannot be read as {expected}: {why}; of a copy: {exc}") from exc


class ProfileTables(ProfileFile):
    """A SQLite file of one profile. `DEMANDED`: the columns that its tables must have; the last one is counted."""

    DEMANDED: ClassVar[Mapping[str, Sequence[str]]]

    @contextmanager
    def opened(self) -> Iterator[SqliteFile]:
        """Yield the file after checking its columns. Raises ConfigurationError."""
        with read_only(self.path, self.EXPECTED) as file:
            for table, columns in self.DEMANDED.items():
                file.demand(table, *columns)
            yield file

    def total(self) -> int:
        """Return the number of rows to read."""
        with self.opened() as file:
            return file.count(list(self.DEMANDED)[-1])

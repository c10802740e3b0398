"""Several statements in one round trip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any

from psycopg import Cursor

from ..domain.errors import OperationRejected
from .connection import DeadlineConnection
from .sql import query


class Rows:
    """What a statement finds; the first look at it sends the statement, and every other one that waits."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self.cursor: Cursor[Any] | None = None  # once it was sent

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows not read yet."""
        return iter(self._sent())

    def all(self) -> list[Any]:
        """Return the rows not read yet."""
        return self._sent().fetchall()

    def one(self) -> Any:
        """Return the next row, None after the last one."""
        return self._sent().fetchone()

    def _sent(self) -> Cursor[Any]:
        if self.cursor is None:
            self._pipeline.send()
        assert self.cursor is not None
        return self.cursor


class Pipeline:
    """The statements of one transaction, which wait until an answer is wanted and then travel together.

    A pipeline made without a connection keeps what it is asked for whoever opens the transaction, see Pool.connection.
    """

    def __init__(self, conn: DeadlineConnection | None = None) -> None:
        self._conn = conn
        self._waiting: list[tuple[str, Mapping[str, Any], Rows]] = []

    def ask(self, name: str, row: Mapping[str, Any] | None = None) -> Rows:
        """Have the statement `name` sent with the next round trip."""
        rows = Rows(self)
        self._waiting.append((name, row or {}, rows))
        return rows

    def ask_ahead(self, name: str) -> Rows:
        """Have the statement `name` sent before all that waits: what it tells holds for what these find."""
        rows = Rows(self)
        self._waiting.insert(0, (name, {}, rows))
        return rows

    def begin(self, conn: DeadlineConnection) -> None:
        """Send what waits on `conn`, inside a pipeline of it; to be called once, in a new transaction.

        What the role may see is not known yet, so these statements have to serve every role.
        """
        self._conn = conn
        self._execute(conn, own_themes=False)

    def send(self) -> None:
        """Send what waits."""
        assert self._conn is not None, "a pipeline is read after its transaction was opened"
        with self._conn.pipeline() if len(self._waiting) > 1 else nullcontext():
            self._execute(self._conn, own_themes=self._conn.own_themes)

    def _execute(self, conn: DeadlineConnection, *, own_themes: bool) -> None:
        waiting, self._waiting = self._waiting, []
        for name, row, rows in waiting:
            if conn.spread and row.get("any_theme"):
                raise OperationRejected(
                    "the themes are spread over machines, where only one at a time can be asked: name it"
                )
            rows.cursor = conn.execute(query(name, own_themes=own_themes, one_theme=conn.spread), row)

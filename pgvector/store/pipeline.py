"""Several statements in one round trip, and the settings that each transaction relies on."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Literal

from psycopg import Cursor, RawCursor

from .connection import DeadlineConnection
from .fan_out import Asked, ask_each_theme
from .round_trip import Statement, make_round_trip
from .sql import numbered, query

PlanMode = Literal["auto", "force_custom_plan", "force_generic_plan"]

_LOCK_SHARE = 0.9  # of the time: an error tells then whether the statement waited for others or took long itself
_MARGIN_S = 0.1  # the server gives up this much before we do, so that its connection survives
# If this process or its network vanishes in a transaction, or the process is stopped, the server ends the transaction
# and releases its locks. Otherwise the retried writes, and those of others, would wait for them. A shorter time would
# punish a process that was stopped for a moment. Whole transactions have a limit too, a little beyond our own deadline.
_IDLE_MS = 5000
_OURS_FIRST_MS = 500
_LIMITS = {True: "set_timeouts_only", False: "set_timeouts"}  # by whether the session keeps the other settings


class Rows:
    """The rows that a statement finds; the first read sends the statement, and every other one that waits."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._found: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows not read yet."""
        return self._sent()

    def all(self) -> list[Any]:
        """Return the rows not read yet."""
        return list(self._sent())

    def one(self) -> Any:
        """Return the next row, None after the last one."""
        return next(self._sent(), None)

    def are(self, found: Iterable[Any]) -> None:
        """Set the rows that were found, once the statement was sent."""
        self._found = iter(found)

    def _sent(self) -> Iterator[Any]:
        if self._found is None:
            self._pipeline.send()
        assert self._found is not None
        return self._found


class Pipeline:
    """Statements that wait until a result is read, and are then sent together.

    With `conn` they are part of the transaction that is open on it. Without it they wait until `begin`, and each round
    trip is a transaction of its own, which needs no further round trips to begin and end it.

    Where the tables are spread over machines, the rows of a statement about all themes come one theme after the other.
    """

    def __init__(self, conn: DeadlineConnection | None = None) -> None:
        self._conn = conn
        self._alone = conn is None
        self.statement_s = math.inf  # limit for each statement sent from now on, outside an open transaction
        self._waiting: list[tuple[str, Mapping[str, Any], Rows]] = []

    @property
    def spread(self) -> bool:
        """Return whether the tables are spread over machines by theme; to be asked once the pipeline has begun."""
        return self._conn is not None and self._conn.spread

    def ask(self, name: str, row: Mapping[str, Any] | None = None) -> Rows:
        """Queue the statement `name` for the next round trip, and return its rows."""
        rows = Rows(self)
        self._waiting.append((name, row or {}, rows))
        return rows

    def ask_ahead(self, name: str) -> Rows:
        """Queue the statement `name` before all that wait: what it reports holds for the rows that they find."""
        rows = Rows(self)
        self._waiting.insert(0, (name, {}, rows))
        return rows

    def begin(self, conn: DeadlineConnection) -> None:
        """Send the waiting statements on `conn`, and later ones as well, within its deadline.

        What the role may see is not known yet, so the statements that wait have to work for every role.
        """
        self._conn = conn
        self._send(conn, own_themes=False)

    def send(self) -> None:
        """Send the waiting statements. Those about all themes may take several round trips, see fan_out."""
        assert self._conn is not None, "a pipeline is read once it has a connection"
        self._send(self._conn, own_themes=self._conn.own_themes)

    def _send(self, conn: DeadlineConnection, *, own_themes: bool) -> None:
        waiting, self._waiting = self._waiting, []
        asked = [(name, row) for name, row, _ in waiting]
        of_all = conn.spread and any(row.get("any_theme") for _, row in asked)

        def answers(asked: Sequence[Asked]) -> Sequence[Iterable[Any]]:
            named = [_numbered_row(name, row, own_themes=own_themes, one_theme=conn.spread) for name, row in asked]
            # If all together took longer than the deadline, many themes would look like a server that is down.
            return self._execute(conn, named, shares=len(named) if of_all else 1)

        found = ask_each_theme(asked, answers) if of_all else answers(asked)
        for (_, _, rows), each in zip(waiting, found, strict=True):
            rows.are(each)

    def _execute(
        self, conn: DeadlineConnection, statements: Sequence[Statement], *, shares: int
    ) -> Sequence[Iterable[Any]]:
        """Return the rows of the statements, each of which may take one of so many `shares` of the time that is left.

        They are part of the open transaction, if there is one.
        """
        if not self._alone:
            return _execute_within(conn, statements)
        # Plans are made once per connection: making them for each question takes longer than searching a small theme.
        # In a database that is distributed over machines, each theme needs plans of its own.
        plans: PlanMode = "force_custom_plan" if conn.spread else "force_generic_plan"
        limits = _limits(conn, plans=plans, statement_s=self.statement_s, shares=shares)
        begun = _numbered_row(_LIMITS[conn.keeps_settings], limits)
        row, *found = make_round_trip(conn, [begun, *statements])
        note_begun(conn, row[0])
        return found


def _execute_within(conn: DeadlineConnection, statements: Sequence[Statement]) -> Sequence[Iterable[Any]]:
    """Return the rows of the statements, executed in the open transaction."""
    cursors = []
    with conn.pipeline() if len(statements) > 1 else nullcontext():
        for text, values in statements:
            cursors.append(RawCursor(conn, row_factory=conn.row_factory))
            cursors[-1].execute(text, values)
    return cursors


def _numbered_row(name: str, row: Mapping[str, Any], *, own_themes: bool = False, one_theme: bool = False) -> Statement:
    statement = numbered(name, own_themes=own_themes, one_theme=one_theme)
    return statement.text, [row[each] for each in statement.names]


def set_limits(conn: DeadlineConnection) -> Cursor[Any]:
    """Limit a new transaction by the deadline of `conn`, and override the settings of the role."""
    return conn.execute(query(_LIMITS[conn.keeps_settings]), _limits(conn, plans="auto"))


def _limits(
    conn: DeadlineConnection, *, plans: PlanMode, statement_s: float = math.inf, shares: int = 1
) -> dict[str, str]:
    """Return the parameters of the statement that sets limits.

    Each statement may take `statement_s` at most, and one of so many `shares` of the time that is left.
    """
    assert conn.deadline is not None
    left_s = conn.deadline - time.monotonic() - _MARGIN_S
    left_ms = max(1, int(left_s * 1000))
    return {
        "statement_ms": str(max(1, int(min(left_s / shares, statement_s) * 1000))),
        "lock_ms": str(max(1, int(left_ms * _LOCK_SHARE))),
        "idle_ms": str(_IDLE_MS),
        "transaction_ms": str(left_ms + _OURS_FIRST_MS),
        "plans": plans,
        "path": conn.path,
    }


def note_begun(conn: DeadlineConnection, row: Any) -> None:
    """Note which server answers, and what this role may see: row-level security can be switched at any time.

    `row` is the result of the statement that sets limits.
    """
    conn.incarnation = row.incarnation if row else ""
    active = bool(row and row.row_security)
    if active == conn.row_security:
        return
    conn.row_security, conn.own_themes = active, False
    if active:
        with conn.pipeline():
            set_limits(conn)
            found = conn.execute(query("has_own_themes"))
        row = found.fetchone()
        conn.own_themes = bool(row and row.own_themes)

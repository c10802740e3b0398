"""Several statements sent through libpq in one round trip, as a transaction of their own.

A psycopg cursor for each statement takes longer than Postgres takes for most of them.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import count, islice
from secrets import token_hex
from typing import Any

from psycopg import OperationalError
from psycopg.abc import PQGen, Transformer
from psycopg.adapt import PyFormat
from psycopg.adapt import Transformer as NewTransformer
from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

from .connection import DeadlineConnection

# A statement counts once for each combination of parameter types. Beyond this number, statements are sent unprepared.
_MAX_PREPARED = 256
_FAILED = (ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED)

Statement = tuple[bytes, Sequence[Any]]  # with $1, $2, ... for the parameters
_Types = tuple[int, ...]
_Names = dict[tuple[bytes, _Types], bytes]
_Maker = Callable[[Sequence[Any]], Any]


@dataclass(slots=True)
class _Prepared:
    """The statements prepared in a connection's session, and the transformer that adapts their values."""

    transformer: Transformer
    names: _Names = field(default_factory=dict)
    makers: dict[bytes, _Maker] = field(default_factory=dict)  # what builds the rows of a statement
    # A pooler in transaction mode that is not configured may lend a session in which others prepared statements.
    _stem: str = field(default_factory=lambda: f"_hermes_{token_hex(6)}_")
    _numbers: count[int] = field(default_factory=count)

    def next_name(self) -> bytes:
        """Return a name that was never used in any session."""
        return f"{self._stem}{next(self._numbers)}".encode()


@dataclass(slots=True)
class _Sent:
    """A statement as libpq takes it; `prepares` if its name is new to the session."""

    text: bytes
    name: bytes
    prepares: bool
    values: Sequence[Any]
    types: _Types
    formats: Sequence[int]

    def to(self, pgconn: PGconn) -> None:
        if not self.name:
            pgconn.send_query_params(self.text, self.values, self.types, self.formats)
            return
        if self.prepares:
            pgconn.send_prepare(self.name, self.text, self.types)
        pgconn.send_query_prepared(self.name, self.values, self.formats)


def make_round_trip(conn: DeadlineConnection, statements: Sequence[Statement]) -> list[list[Any]]:
    """Execute the statements in one round trip, as one transaction, and return the rows of each.

    They are prepared if the connection prepares statements. Raises psycopg.Error, and what `conn.wait` raises.
    """
    try:
        return _made(conn, statements)
    except InvalidSqlStatementName:
        if conn.prepare_threshold is None:
            raise
        # After a rollback psycopg has Postgres drop all prepared statements, ours included.
        _prepared(conn).names.clear()
        return _made(conn, statements)


def _made(conn: DeadlineConnection, statements: Sequence[Statement]) -> list[list[Any]]:
    prepared = _prepared(conn)
    new: _Names = {}
    sent = [_as_sent(prepared, new, statement, prepares=conn.prepare_threshold is not None) for statement in statements]
    results = conn.wait(_exchange(conn.pgconn, sent))
    # Even if a statement failed: otherwise each failing round trip would leave more prepared statements behind.
    done = sum(result.status == ExecStatus.COMMAND_OK for result in results)
    prepared.names.update(islice(new.items(), done))
    failed = next((result for result in results if result.status in _FAILED), None)
    if failed is not None:
        raise _error_of(failed, conn.pgconn)
    found = [result for result in results if result.status == ExecStatus.TUPLES_OK]
    return [_rows(prepared, each.text, result) for each, result in zip(sent, found, strict=True)]


def _prepared(conn: DeadlineConnection) -> _Prepared:
    if conn.prepared is None:
        conn.prepared = _Prepared(NewTransformer.from_context(conn))
    known: _Prepared = conn.prepared
    return known


def _as_sent(prepared: _Prepared, new: _Names, statement: Statement, *, prepares: bool) -> _Sent:
    """Return a statement as it is sent; a name that this round trip introduces is added to `new`."""
    text, parameters = statement
    transformer = prepared.transformer
    values = transformer.dump_sequence(list(map(_as_sent_value, parameters)), [PyFormat.AUTO] * len(parameters))
    types, formats = transformer.types or (), transformer.formats or ()
    key = (text, types)
    name = (prepared.names.get(key) or new.get(key, b"")) if prepares else b""
    is_new = prepares and not name and len(prepared.names) + len(new) < _MAX_PREPARED
    if is_new:
        name = new[key] = prepared.next_name()
    return _Sent(text, name, is_new, values, types, formats)


def _as_sent_value(value: Any) -> Any:
    """Return a list as the text of an array, which takes psycopg several times as long; other values unchanged.

    The statement casts it, so lists of small and of large numbers do not need separate prepared statements.
    """
    if type(value) is not list:
        return value
    items: list[str] = []
    for item in value:
        kind = type(item)
        if kind is str:
            items.append('"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"')
        elif kind is int or kind is float:
            items.append(repr(item))
        elif item is None:
            items.append("NULL")
        else:
            return value
    return f"{{{','.join(items)}}}"


def _exchange(pgconn: PGconn, sent: Sequence[_Sent]) -> PQGen[list[PGresult]]:
    """Send all statements and return their results; yields what to wait for, as psycopg's own generators do."""
    pgconn.enter_pipeline_mode()
    for each in sent:
        each.to(pgconn)
    pgconn.pipeline_sync()
    results: list[PGresult] = []
    flushing = pgconn.flush()
    ended = False
    while not ended:
        while not (ready := (yield Wait.RW if flushing else Wait.R)):
            continue
        if ready & Ready.R:
            pgconn.consume_input()
            ended = _took(pgconn, results)
        if flushing and not ended:
            flushing = pgconn.flush()
    pgconn.exit_pipeline_mode()
    return results


def _took(pgconn: PGconn, results: list[PGresult]) -> bool:
    """Add the results that have arrived to `results`; return whether they are complete."""
    ended = False
    while not pgconn.is_busy():
        result = pgconn.get_result()
        if result is None:
            if pgconn.status == ConnStatus.BAD:
                raise OperationalError(pgconn.get_error_message())
            if ended:  # a None ends each statement's results; a second one means that no more has arrived
                break
        elif result.status == ExecStatus.PIPELINE_SYNC:
            return True
        else:
            results.append(result)
        ended = result is None
    return False


def _error_of(result: PGresult, pgconn: PGconn) -> Exception:
    if pgconn.status == ConnStatus.BAD and not result.error_field(DiagnosticField.SQLSTATE):
        return OperationalError(pgconn.get_error_message())
    return error_from_result(result)


def _rows(prepared: _Prepared, text: bytes, result: PGresult) -> list[Any]:
    transformer = prepared.transformer
    transformer.set_pgresult(result)
    make = prepared.makers.get(text)
    if make is None:
        names = tuple((result.fname(column) or b"").decode() for column in range(result.nfields))
        make = prepared.makers[text] = _maker(names)
    return transformer.load_rows(0, result.ntuples, make)


@lru_cache(maxsize=512)
def _maker(names: tuple[str, ...]) -> _Maker:
    """Return a function that makes rows whose columns are attributes."""
    row: Any = namedtuple("Row", names, rename=True)  # type: ignore[misc]
    return partial(tuple.__new__, row)  # as `_make`, without a Python call for each row

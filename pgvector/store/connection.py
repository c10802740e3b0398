"""Connections with a deadline, connection strings, and the translation of psycopg's errors into ours."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from threading import Event
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ..domain.errors import (
    DeadlineExceeded,
    HermesPgvectorError,
    OperationRejected,
    SchemaNotApplied,
    StatementCancelled,
    StatementLost,
    StoreConflict,
    StoreMisconfigured,
    StoreReadOnly,
    StoreUnavailable,
    StoreUnsettled,
)
from ..domain.patterns import late_pattern
from ..domain.redaction import mask_dsn
from ..domain.text import harmless

_T = TypeVar("_T")
# Not caused by the statement. The last two: the server ended our session while this process was stopped or swapped out.
_PASSING = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    pg.IdleInTransactionSessionTimeout,
    pg.TransactionTimeout,
)
# How the SQLSTATEs begin that blame the write: a value is invalid, violates a constraint, was rejected by a trigger or
# a view, or exceeds a limit. Every other error of Postgres is about the current state of the server.
_OF_THE_WRITE = ("22", "23", "44", "54", "P0")
_SEQUENCE_BEHIND = (
    "the sequence of its ids is behind, as after a restore of data alone: hermes-pgvector doctor --fix --admin-dsn DSN"
)
_OF_OTHER_ROWS = (pg.UniqueViolation, pg.ForeignKeyViolation)
_NUMBERED = ("memory_entries_pkey", "conversations_pkey", "memory_history_pkey", "hermes_maintenance_pkey")
_TOO_LARGE = "memory alloc request size"  # an internal error without a code of its own
# Postgres reports an exceeded disk quota, file size limit and the like as an internal error that names the file.
_NAMES_A_FILE = late_pattern(r'"(?:base|global|pg_[a-z]+)/[^"]*"')
_GRANT = "hermes-pgvector tenants grant ROLE THEME"
WITHOUT_POLICIES = "row-level security was turned on for the tables without a policy, so this role sees no row of them"
_DROPPED_ROLE = "invalid role OID"
_RECONNECT = (
    "the role was dropped, and may have been made anew, since the session of the server began: this is tried again on "
    "a new connection; a pooler keeps its sessions until it gets RECONNECT"
)
_THEMES_OF = "hermes_themes_of"  # the function that the policies call
_POOLED = "`dsn` names a pooler in transaction mode: set plugins.pgvector.pooler: transaction"
WRITABLE = "let `dsn` lead to the primary server, or reset `default_transaction_read_only` of its role or database"
# libpq's messages about a read-only server when a writable one was required.
_TAKES_NO_WRITES = ("session is read-only", "server is in hot standby mode")
_SERVERS_VARIABLE = "PGTARGETSESSIONATTRS"  # libpq's own
_ANY_SERVER = f"leave target_session_attrs out of `dsn`, and {_SERVERS_VARIABLE} out of the environment"
_TICK_S = 0.02  # how often a waiting call checks its deadline
_CANCEL_S = 1.0  # how long sending a cancel request may take
_CANCELLED_S = 5.0  # how long the server may take to end a cancelled statement

# Set by a caller that may cancel its call while it waits for Postgres, for the threads that work on that call.
stop_sign: ContextVar[Event | None] = ContextVar("stop_sign", default=None)


class DeadlineConnection(psycopg.Connection[Any]):
    """A connection whose every wait ends at `deadline` (monotonic seconds), even if the server does not respond.

    Past the deadline the connection is closed, because what the server still does for it cannot be known.
    """

    deadline: float | None = None
    row_security = False  # whether row-level security applies to this role
    own_themes = False  # whether its policies limit this role to some themes
    keeps_settings = False  # whether the session, not each transaction, sets what statements rely on
    spread = False  # whether the tables are distributed over machines by theme
    incarnation = ""  # of server and tables, as the last transaction read it; behind a pooler it may change each time
    path = ""  # the search path to our tables, if the role's own does not lead to them
    prepared: Any = None  # the statements that round trips prepared in its session, see round_trip.py

    def wait(self, gen: PQGen[_T], *args: Any, **kwargs: Any) -> _T:
        """Wait for `gen` as psycopg does, up to the deadline. Raises DeadlineExceeded."""
        if self.deadline is None and stop_sign.get() is None:
            return super().wait(gen, *args, **kwargs)
        deadline = math.inf if self.deadline is None else self.deadline
        try:
            return super().wait(_until(gen, deadline, self.stop), interval=_TICK_S)
        except DeadlineExceeded:
            self.pgconn.finish()
            # The end of a pipeline asks the server for the rest, which Python would tell of when it collects this.
            with suppress(psycopg.Error):
                gen.close()
            raise

    def stop(self) -> None:
        """Cancel the statement that the server runs: it answers with an error, and the connection stays usable."""
        with suppress(psycopg.Error):
            self.cancel_safe(timeout=_CANCEL_S)


def _until(gen: PQGen[_T], deadline: float, stop: Callable[[], None]) -> Generator[Any, Any, _T]:
    """Pass `gen` through, and raise if it still waits at `deadline`; call `stop`, once, if the call is cancelled."""
    sign = stop_sign.get()
    try:
        want = next(gen)
        while True:
            ready = yield want
            if not ready and sign is not None and sign.is_set():
                sign = None
                stop()
                deadline = min(deadline, time.monotonic() + _CANCELLED_S)
            if not ready and time.monotonic() >= deadline:
                raise DeadlineExceeded("Postgres did not answer in time")
            want = gen.send(ready)
    except StopIteration as stop:
        value: _T = stop.value
        return value


def role_of(conn: DeadlineConnection) -> str:
    """Return the role whose rights a session has: its login, or the role that `options` of the DSN sets instead."""
    with translated():
        row = conn.execute("SELECT current_user").fetchone()
    return "" if row is None else str(row[0])


def pipelined(conn: DeadlineConnection) -> AbstractContextManager[object]:
    """Pipeline the statements of a block that locks rows or themes, if the server can limit whole transactions.

    In the middle of a pipeline the server waits for its client without counting that as idle. Before PostgreSQL 17,
    which introduced a limit on transactions, a process stopped there would keep its locks until it is resumed.
    """
    return conn.pipeline() if conn.info.server_version >= 170000 else nullcontext()


@contextmanager
def translated() -> Iterator[None]:
    """Translate psycopg's errors raised in the block into ours; passwords are masked."""
    try:
        yield
    except psycopg.Error as exc:
        raise next(ours(exc) for kinds, ours in _TRANSLATIONS if isinstance(exc, kinds)) from exc


def _missing(exc: psycopg.Error) -> HermesPgvectorError:
    if isinstance(exc, pg.UndefinedFunction) and _THEMES_OF in str(exc):
        return StoreUnsettled(f"{WITHOUT_POLICIES}: hermes-pgvector doctor")
    if isinstance(exc, pg.UndefinedObject) and _DROPPED_ROLE in str(exc):
        return StoreMisconfigured(f"{_first_line(exc)}; {_RECONNECT}")
    return SchemaNotApplied(_first_line(exc) + "; " + (SchemaNotApplied.__doc__ or ""))


def _forbidden(exc: psycopg.Error) -> HermesPgvectorError:
    if exc.diag.source_function == "ExecWithCheckOptions":  # the row's theme is not granted to this role
        return OperationRejected(
            f"{_first_line(exc)}; grant the theme: {_GRANT}; what agents wrote before then follows with: "
            "hermes-pgvector spool retry --all --yes"
        )
    return StoreMisconfigured(explain(exc))


def _in_conflict(exc: psycopg.Error) -> HermesPgvectorError:
    return StoreConflict(f"{_first_line(exc)}: another transaction was in the way; this is tried again")


def _not_unique(exc: psycopg.Error) -> HermesPgvectorError:
    if (exc.diag.constraint_name or "") in _NUMBERED:
        return StoreMisconfigured(f"{_first_line(exc)}; {_SEQUENCE_BEHIND}")
    return _answered(exc)


def _unsupported(exc: psycopg.Error) -> HermesPgvectorError:
    if exc.diag.source_file in ("copy.c", "copyfrom.c"):  # it was turned on just before this write
        return StoreUnavailable("row-level security was turned on meanwhile; the write is tried again")
    if exc.diag.source_file == "plancache.c":  # the type of a column has just changed
        return StoreUnsettled("the model of the database was changed meanwhile; this is tried again")
    return OperationRejected(_first_line(exc))


def _out_of_reach(exc: psycopg.Error) -> HermesPgvectorError:
    if any(sign in str(exc) for sign in _TAKES_NO_WRITES):
        return StoreReadOnly(f"{_first_line(exc)}; {WRITABLE}")
    refused = any(sign in str(exc).lower() for sign, _ in _REFUSALS)
    return (StoreMisconfigured if refused else StoreUnavailable)(explain(exc))


def _internal(exc: psycopg.Error) -> HermesPgvectorError:
    # Without a code it is psycopg's own: a pooler reported that its server ended, and also answered the statement.
    if not exc.sqlstate or _NAMES_A_FILE.search(str(exc)):
        return StoreUnavailable(explain(exc))
    return _answered(exc)


def _answered(exc: psycopg.Error) -> HermesPgvectorError:
    """Return OperationRejected if a statement failed because of its values, otherwise StoreUnsettled."""
    # An error without a code comes from psycopg, which cannot send the value.
    of_the_write = not exc.sqlstate or exc.sqlstate.startswith(_OF_THE_WRITE) or _TOO_LARGE in str(exc)
    if of_the_write and not isinstance(exc, _OF_OTHER_ROWS):
        return OperationRejected(_first_line(exc))
    return StoreUnsettled(f"{_first_line(exc)}; this is tried again on a new connection")


_Translation = Callable[[psycopg.Error], HermesPgvectorError]
# The first matching entry applies, so subclasses stand before their base classes.
_TRANSLATIONS: tuple[tuple[type[psycopg.Error] | tuple[type[psycopg.Error], ...], _Translation], ...] = (
    ((pg.UndefinedTable, pg.UndefinedFunction, pg.UndefinedColumn, pg.UndefinedObject), _missing),
    (pg.InsufficientPrivilege, _forbidden),
    (
        (pg.InvalidSqlStatementName, pg.DuplicatePreparedStatement),
        lambda exc: StatementLost(f"{_first_line(exc)}; {_POOLED}"),
    ),
    ((pg.DeadlockDetected, pg.SerializationFailure), _in_conflict),
    (
        pg.QueryCanceled,
        lambda _: StatementCancelled("Postgres cancelled the statement: it took longer than the deadline allows"),
    ),
    (
        pg.LockNotAvailable,
        lambda _: DeadlineExceeded("Postgres cancelled the statement: a lock was held longer than the deadline allows"),
    ),
    (pg.UniqueViolation, _not_unique),
    # An OperationalError, but about this row: a retry does not help.
    (pg.ProgramLimitExceeded, lambda exc: OperationRejected(_first_line(exc))),
    (pg.FeatureNotSupported, _unsupported),
    (pg.ReadOnlySqlTransaction, lambda exc: StoreReadOnly(f"{_first_line(exc)}; {WRITABLE}")),
    (_PASSING, _out_of_reach),
    (psycopg.InternalError, _internal),
    (psycopg.Error, _answered),
)


# Where another @ or a slash stands before the last @ of a URI, libpq takes the rest of the password for the host, the
# port or the database, and tells it in its errors.
_CUT_PASSWORD = late_pattern(r"\s*\w+://[^?]*?[/@][^?]*@")


def check_conninfo(conninfo: str) -> None:
    """Raise StoreMisconfigured if libpq cannot parse `conninfo`; a password in its message is masked."""
    if _CUT_PASSWORD.match(conninfo):
        raise StoreMisconfigured(
            "`dsn` cannot be read: in the user, password and database of a URI write @ as %40, / as %2F and ? as %3F"
        )
    try:
        conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as exc:
        said = mask_dsn(str(exc).strip(), conninfo)
        raise StoreMisconfigured(
            f"`dsn` cannot be read ({said}); write postgresql://USER:PASSWORD@HOST/DATABASE or host=... dbname=..."
        ) from None


def place_of(conninfo: str) -> str:
    """Return where `conninfo` leads, as HOST:PORT/DATABASE without credentials; empty if libpq cannot parse it."""
    try:
        known = {key: str(value) for key, value in conninfo_to_dict(conninfo).items() if value}
    except psycopg.ProgrammingError:
        return ""
    host = known.get("host") or known.get("hostaddr") or known.get("service", "")
    port = known.get("port", "5432")
    name = known.get("dbname") or known.get("user", "")
    return f"{host.lower()}:{port}/{name}"


def writable(conninfo: str) -> str:
    """Return `conninfo` with a demand for a host that accepts writes, unless it or the environment sets one itself."""
    check_conninfo(conninfo)
    return conninfo if _asked_of_servers(conninfo) else make_conninfo(conninfo, target_session_attrs="read-write")


def answering(conninfo: str) -> str:
    """Return `conninfo` for any host that answers, even if it demands one that accepts writes."""
    asks = _asked_of_servers(conninfo) in ("read-write", "primary")
    return make_conninfo(conninfo, target_session_attrs="any") if asks else conninfo


def _asked_of_servers(conninfo: str) -> str:
    given = conninfo_to_dict(conninfo).get("target_session_attrs") or os.environ.get(_SERVERS_VARIABLE)
    return str(given or "")


_SAID_CHARS = 1000  # of an error; a trigger of somebody's may quote a whole row in one


def _first_line(exc: BaseException) -> str:
    line = str(exc).strip().partition("\n")[0]
    # More than is told is looked at: a password that the cut goes through would not be known as one.
    said = harmless(mask_dsn(line[: 2 * _SAID_CHARS]))
    return (said if len(said) <= _SAID_CHARS else f"{said[:_SAID_CHARS]}...") or type(exc).__name__


_TRUST = "`sslrootcert` in `dsn` has to name the file of the authority that signed it, or `system` for a public one"
_CLIENT_CERTIFICATE = "`sslcert` and `sslkey` in `dsn` have to name this role's certificate and its key"
_CERTIFICATES = "check the certificates that `dsn` and the server name"
_LET_IN = "allow this host and role in the server's pg_hba.conf"
_SERVICE = "correct `service` in `dsn`, or the file that PGSERVICEFILE names for the agent (else ~/.pg_service.conf)"
_TLS = "add to `dsn`: sslmode=verify-full sslrootcert=FILE"

# Errors that last until a person acts, each with its remedy; every other error may pass by itself.
_REFUSALS = (
    ("password authentication failed", "check the user and password in `dsn`"),
    ("sasl authentication failed", "check the user and password in `dsn`"),
    ("certificate authentication failed", _CLIENT_CERTIFICATE),
    ("certificate verify failed", f"the server's certificate is not trusted: {_TRUST}"),
    (
        "does not match host name",
        "`host` in `dsn` has to be a name in the server's certificate (`hostaddr` may give its address)",
    ),
    ("root certificate file", f"to trust the server's certificate: {_TRUST}"),
    ("has group or world access", "let only its owner read it: chmod 600"),
    ("private key file", _CLIENT_CERTIFICATE),
    ("certificate required", f"the server wants a certificate: {_CLIENT_CERTIFICATE}"),
    ("valid client certificate", f"the server wants a certificate: {_CLIENT_CERTIFICATE}"),
    ("unknown ca", f"the server does not trust our certificate: {_CLIENT_CERTIFICATE}"),
    ("ssl was required", "turn `ssl` on at the server; sslmode in `dsn` requires TLS"),
    ("ssl required", f"the server wants TLS: {_TLS}"),
    ('host "[local]"', _LET_IN),  # a socket is never encrypted
    ("no encryption", f"the server may want TLS, and pg_hba.conf says so: {_TLS}"),
    ("statement pooling mode", "agents need transactions: set PgBouncer's pool_mode to transaction or session"),
    ("unsupported startup parameter", "leave it out of `dsn`, or name it in PgBouncer's ignore_startup_parameters"),
    ("channel binding", "a pooler cannot do it: leave channel_binding out of `dsn`"),
    ("connection is bad: invalid", "correct that value in `dsn`"),
    ("definition of service", _SERVICE),
    ("service file", _SERVICE),
    ("not in hot standby mode", f"agents need a server that takes writes: {_ANY_SERVER}"),
    ("method requirement", "the server asks for another: correct require_auth in `dsn`, or PGREQUIREAUTH"),
    ("authentication failed", "check the user and password in `dsn`; a pooler has its own list of them"),
    ("no password supplied", "put the password into `dsn`, a passfile or PGPASSWORD"),
    ("permission denied for database", "as an admin: GRANT CONNECT ON DATABASE ... TO ROLE"),
    ("not permitted to log in", "as an admin: ALTER ROLE ... LOGIN"),
    ("not currently accepting connections", "as an admin: ALTER DATABASE ... ALLOW_CONNECTIONS true"),
    ("does not exist", "create it, or correct `dsn`"),
    ("pg_hba.conf", _LET_IN),
    ("certificate", _CERTIFICATES),
)
_LIBRARY = "install that library on the server again, for its version of Postgres (pgvector: postgresql-NN-pgvector)"
_REMEDIES = (
    *_REFUSALS,
    ("could not access file", _LIBRARY),
    ("could not load library", _LIBRARY),
    ("too many clients", "raise max_connections, lower `pool_max_size`, or put PgBouncer in between"),
    ("remaining connection slots", "raise max_connections, lower `pool_max_size`, or put PgBouncer in between"),
    (
        "too many connections for",
        "raise its CONNECTION LIMIT, lower `pool_max_size`, or put PgBouncer in between",
    ),
    ("server login has been failing", "PgBouncer cannot log in at the server: look into its log"),
    ("query_wait_timeout", "PgBouncer had no connection to lend: raise its default_pool_size"),
    ("no more connections allowed", "raise PgBouncer's max_client_conn"),
    ("temporary failure in name resolution", "check this machine's network, and whether it knows the host in `dsn`"),
    ("could not translate host name", "correct the host in `dsn`"),
    ("name or service not known", "correct the host in `dsn`"),
    ("failed to resolve host", "correct the host in `dsn`"),
    ("connection refused", "start Postgres there, or correct host and port in `dsn`"),
    ("no such file or directory", "start Postgres there, or correct the socket directory in `dsn`"),
    ("out of shared memory", "raise max_locks_per_transaction of the server"),
    ("no space left", "make room on the disk of Postgres"),
    ("file too large", "make room on the disk of Postgres"),
    ("quota exceeded", "make room on the disk of Postgres"),
    ("must be owner of", "the admin's DSN must name a superuser, or the owner of the tables"),
    ("failed: permission denied", "let this user open the directory of that socket, or correct `host` in `dsn`"),
    (
        "permission denied",
        "give the role its rights: hermes-pgvector migrate --admin-dsn DSN --runtime-role ROLE; where row-level "
        f"security is on, by its themes instead: {_GRANT}",
    ),
)


def explain(exc: BaseException) -> str:
    """Return one line with what Postgres or the network reported, and what to do about it."""
    said = _first_line(exc)
    low = str(exc).lower()
    for sign, remedy in _REMEDIES:
        if sign in low:
            return f"{said}; {remedy}"
    return f"{said}; check that Postgres is up and `dsn` is right: hermes-pgvector doctor"

"""Migrations: the SQL files that create the tables, applied by an administrator."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

import psycopg
from psycopg import errors as pg
from psycopg import sql

from ...domain.errors import ConfigurationError
from ...store.connection import DeadlineConnection, translated
from ...store.pool import connect
from ...store.schema import MIGRATIONS_FOLDER, applied_versions, check_dims, shipped_migrations
from ...store.sql import query
from . import codes, hnsw, row_security, session_locks, words
from .pooler import require_session
from .retrying import go_before_autovacuum, retry_deadlocks, retry_while_busy, run_script
from .role_rights import let_use
from .schema_checks import CREATE_DATABASE, functions_astray

DROP_SCRIPT = MIGRATIONS_FOLDER / "optional" / "drop_everything.sql"
MIGRATION_LOCK = 7310579462  # each migration file takes this lock as well
_KEYS_VERSION = 5  # the migration that puts the keys of `build_keys` in place
_SEAL = re.compile(r"'[0-9a-f]{64}'")
_COMPLETING_LOCK = 731057952  # only one process at a time fills in missing data beside agents
_DEFAULT_ROLE = "hermes"  # the role that gets its rights if none is named and it exists
_LOCK_S = 120.0  # for each wait for a lock
_VECTORS_WENT = (
    "the vectors went with the extension: agents embed the memories again, and turns are found by words and codes; "
    "to embed them, too: hermes-pgvector backfill --cold"
)
# Checksums of earlier texts of a migration that create the same tables, by version.
_EARLIER_TEXTS = {
    1: {
        "a5b1b25b150c6e6a7bc62fd5bd27b199d11ad489b0ac32c7f67ac65127c0d19a",
        "42e09cfedd0d4588a100251a212dbcbb29a0739dc8c77e461ccaa08f145b07f4",
        "7e3bbda9d22393f4f42ab688a91b1d6cfc304efea413fa0d022712e9714d8656",
        "7a635e6a9fdbbe1a44979d50b7ffb17fda830060fb399fa572046cd0ddf6dadb",
    },
    2: {"b776ddc360483fd98a4feb67a602e09600f6b94cdf92a1601345b89fa0d9a43c"},
    3: {"01e42ef2b5486ec922c74fb6cb394bb42c68baf89aea2c1ee54543b98e2bd5f6"},
    4: {
        "1af6229c1f870d1378ead95bb4ae4acbab26e7ed55c727a0ecc8a8cbf2e90921",
        "0a859fec71ee1e1962ef60d8506333f17eaf755ccfbae386057d6345dbe48679",
    },
    5: {"bff33baa077196f5ee8516325dc52fc300e1e42c807ef9b80fc983625cbc85a8"},
    6: {
        "c34ed4305b3a3b1da0c03a35f9d4af8f8c8c4c2666d1ce86ba19ac2f3541da98",
        "e580d14699e5ee52531c5d6b95b259a871438b86709381d3eff92a28a374969f",
    },
    8: {"23646492cdf29221b648093f2fc994081632b8d9ee94d15faecf922f4846b36a"},
}


@dataclass(frozen=True)
class Migration:
    """One file of migrations/: its number, name (as `001_schema`), text and checksum."""

    version: int
    name: str
    sql: str
    checksum: str


@dataclass(frozen=True)
class MigrationReport:
    """The result of `migrate`: migrations applied by it, those applied before, the server's notices, indexes built."""

    applied: tuple[str, ...]
    already: tuple[str, ...]
    notices: tuple[str, ...]
    built: tuple[str, ...] = ()


def migrations() -> list[Migration]:
    """Return every migration of this version, in order."""
    found = []
    for version, name in shipped_migrations().items():
        sql = (MIGRATIONS_FOLDER / f"{name}.sql").read_text(encoding="utf-8")
        found.append(Migration(version, name, sql, checksum(sql)))
    return found


def checksum(sql: str) -> str:
    """Return the sha256 of a migration; the 64-digit checksum in its own last statement is counted as zeros."""
    return hashlib.sha256(_SEAL.sub("'" + "0" * 64 + "'", sql).encode()).hexdigest()


def migrate(
    admin_conninfo: str,
    *,
    dims: int,
    runtime_role: str = "",
    timeout_s: float = _LOCK_S,
    tell: hnsw.Tell = lambda index, done, total: None,
    completes: bool = True,
) -> MigrationReport:
    """Apply missing migrations, as the administrator of `admin_conninfo`. Safe in many processes at once.

    If `completes`, what a filled database lacks (codes and words of its rows, and indexes) is made at the end, while
    agents work and without a time limit; `tell` is called with the progress. `timeout_s` applies to each wait for a
    lock.

    Raises StoreUnavailable, UpgradeNeeded, DimensionMismatch or ConfigurationError (no such role, one that is new to
    tables that are spread, wrong server or encoding).
    """
    with connect(admin_conninfo) as conn:
        require_session(conn, admin_conninfo)
        _require_utf8(conn)
        _require_no_new_role(conn, runtime_role)
        notices: list[str] = []
        conn.add_notice_handler(lambda diag: notices.append(diag.message_primary or ""))
        _set_up_session(conn, dims, runtime_role, timeout_s)
        # The lock that each file takes, held over all of them: a process that waited finds, and reports, the work as
        # done.
        with translated():
            session_locks.take(conn, MIGRATION_LOCK, "the migrations of this database", timeout_s=timeout_s)
        build_keys(conn)
        again = bool(runtime_role)
        if _give_back_vectors(conn, dims):
            again = True
            notices.append(_VECTORS_WENT)
        applied, already = _apply_missing(conn, again=again)
        _lead_functions(conn)
        if applied or again:
            row_security.renew(conn)
        if runtime_role:
            let_use(conn, runtime_role)
        elif notice := _let_default_role(conn):
            notices.append(notice)
        check_dims(conn, dims)
        with translated():
            # A concurrent build would wait for the sessions that wait for this lock.
            conn.execute("SELECT pg_advisory_unlock(%s)", (MIGRATION_LOCK,))
            built = _completed(conn, admin_conninfo, tell) if completes else []
    return MigrationReport(tuple(applied), tuple(already), tuple(notices), tuple(built))


def complete(admin_conninfo: str, *, dims: int) -> None:
    """Make what the rows of a migrated database lack, as `migrate` does at its end, unless another process is at it.

    Raises HermesPgvectorError.
    """
    with connect(admin_conninfo) as conn:
        _set_up_session(conn, dims, "", _LOCK_S)
        with translated():
            (mine,) = conn.execute("SELECT pg_try_advisory_lock(%s)", (_COMPLETING_LOCK,)).fetchone() or (False,)
            if mine:
                _completed(conn, admin_conninfo, lambda index, done, total: None)


def _completed(conn: DeadlineConnection, admin_conninfo: str, tell: hnsw.Tell) -> list[str]:
    """Make what the rows and indexes lack, and return what was made."""
    is_changing = hnsw.is_changing(conn)
    built = [] if is_changing else codes.complete(conn, tell)
    built += words.complete(conn, tell)
    return built + ([] if is_changing else hnsw.build(conn, admin_conninfo, tell))


def _require_utf8(conn: DeadlineConnection) -> None:
    """Raise ConfigurationError if the database's encoding cannot hold the text of a migration."""
    if (encoding := conn.info.parameter_status("server_encoding")) != "UTF8":
        raise ConfigurationError(
            f"hermes-memory-pgvector needs a database with encoding UTF8, this one has {encoding}; make one: "
            + CREATE_DATABASE
        )


def _require_no_new_role(conn: DeadlineConnection, runtime_role: str) -> None:
    """Raise ConfigurationError if a role is to get rights on tables that are spread, where no file can run again."""
    if runtime_role and conn.spread:
        other = sql.Identifier(runtime_role).as_string(conn)
        raise ConfigurationError(
            "the tables are spread by theme, where a role cannot get rights of its own; let it be a member of the role "
            f"that has them (here usually hermes): GRANT hermes TO {other}"
        )


def _set_up_session(conn: DeadlineConnection, dims: int, runtime_role: str, timeout_s: float) -> None:
    for name, value in (
        ("hermes_pgvector.dims", str(dims)),
        ("hermes_pgvector.runtime_role", runtime_role),
        # Indexes of large tables may have to be built; a time limit would stop every attempt at the same point.
        ("statement_timeout", "0"),
        ("lock_timeout", str(int(timeout_s * 1000))),
        ("client_min_messages", "warning"),
    ):
        conn.execute("SELECT set_config(%s, %s, false)", (name, value))
    go_before_autovacuum(conn)


def _let_default_role(conn: DeadlineConnection) -> str:
    """Let the role that agents usually have use what it needs; return what somebody should know of it."""
    if not conn.execute("SELECT FROM pg_roles WHERE rolname = %s", (_DEFAULT_ROLE,)).rowcount:
        return "no runtime role was named and there is no role `hermes`: nobody but the owner has rights yet"
    try:
        let_use(conn, _DEFAULT_ROLE)
    except ConfigurationError as exc:  # agents may log in as another one
        return str(exc)
    return ""


def _lead_functions(conn: DeadlineConnection) -> None:
    """Lead functions of ours to the schema of the tables, which may have had another name when they were created."""
    for row in functions_astray(conn):
        with translated():
            conn.execute(sql.SQL("ALTER FUNCTION {} SET search_path = {}").format(sql.SQL(row.name), sql.SQL(row.path)))


def _give_back_vectors(conn: DeadlineConnection, dims: int) -> bool:
    """Add the columns that `DROP EXTENSION vector CASCADE` took, empty; return whether they were missing."""
    with translated():
        lost = conn.execute(query("lost_vector_columns", package=__package__)).fetchone()
    if lost is None or 1 not in applied_versions(conn):
        return False
    conn.execute("SELECT set_config('hermes_pgvector.lost_dims', %s, false)", (str(lost.dims or dims),))
    _run(conn, Migration(1, "001_schema", query("add_vector_columns", package=__package__).decode(), ""))
    return True


def _apply_missing(conn: DeadlineConnection, *, again: bool) -> tuple[list[str], list[str]]:
    """Apply the missing migrations; return the names of those applied by this call and of those applied before.

    With `again`, all files run once more, which is safe because they are idempotent: a role gets its rights, and what
    was dropped comes back.
    """
    applied: list[str] = []
    already: list[str] = []
    done = applied_versions(conn)
    for migration in migrations():
        if again or migration.version not in done:
            _run(conn, migration)
        (already if migration.version in done else applied).append(migration.name)
    return applied, already


def _run(conn: DeadlineConnection, migration: Migration) -> None:
    try:
        # A migration that would block everybody waits for its tables only briefly.
        retry_while_busy(lambda: run_script(conn, migration.sql.encode()), pg.LockNotAvailable)
    except pg.RaiseException as exc:
        hint = exc.diag.message_hint
        raise ConfigurationError(f"{exc.diag.message_primary}" + (f"; {hint}" if hint else "")) from exc
    except pg.FeatureNotSupported as exc:  # CREATE EXTENSION of an extension that the server does not have
        raise ConfigurationError(
            f"{exc.diag.message_primary}; install pgvector on the database server (Debian: postgresql-NN-pgvector)"
        ) from exc
    except pg.InsufficientPrivilege as exc:
        raise ConfigurationError(
            f"{exc.diag.message_primary}; the admin's DSN must name a superuser, or the owner of the database once a "
            "superuser has run: CREATE EXTENSION vector"
        ) from exc
    except pg.InvalidSchemaName as exc:
        raise ConfigurationError(
            "this admin's search_path leads to no schema, so there is no place for the tables; name one in the admin's "
            "DSN: options='-c search_path=public'"
        ) from exc
    except pg.LockNotAvailable as exc:
        raise ConfigurationError(
            f"migration {migration.version:03d} was not applied: other transactions, or autovacuum, use its tables "
            "without a pause; end the long ones (pg_stat_activity names them), then run it again"
        ) from exc
    except pg.ReadOnlySqlTransaction as exc:
        raise ConfigurationError(
            f"migration {migration.version:03d} was not applied: {exc.diag.message_primary}; "
            f"{row_security.ADMIN_WRITABLE}"
        ) from exc
    except psycopg.Error as exc:
        raise ConfigurationError(
            f"migration {migration.version:03d} failed: {exc.diag.message_primary or exc}; "
            f"{exc.diag.message_hint or 'see: hermes-pgvector doctor'}"
        ) from exc


def changed_migrations(conn: DeadlineConnection) -> list[str]:
    """Return the applied migrations whose text has changed since in a way that makes other tables."""
    with translated():
        recorded = dict(conn.execute("SELECT version, checksum FROM hermes_migrations").fetchall())
    return [
        m.name
        for m in migrations()
        if recorded.get(m.version, m.checksum) not in {m.checksum} | _EARLIER_TEXTS.get(m.version, set())
    ]


def build_keys(conn: DeadlineConnection) -> None:
    """Build the keys that tables of an earlier version lack, however long it takes. Raises UpgradeNeeded.

    The caller must keep other migrations away without letting them wait in Postgres: a concurrent build waits for them.
    """
    applied = applied_versions(conn)
    if not applied or _KEYS_VERSION in applied:
        return
    with translated():
        before = conn.execute("SELECT current_setting('lock_timeout')").fetchone()
        # A build stopped by a time limit would leave an invalid index behind.
        conn.execute("SET lock_timeout = 0")
        retry_deadlocks(lambda: _build(conn))
        conn.execute("SELECT set_config('lock_timeout', %s, false)", before)


def _build(conn: DeadlineConnection) -> None:
    for row in conn.execute(query("keys_without_theme", package=__package__)).fetchall():
        index = sql.Identifier(f"{row.name}_theme_key")
        if row.invalid:
            conn.execute(sql.SQL("DROP INDEX CONCURRENTLY {}").format(index))
        conn.execute(
            sql.SQL("CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS {} ON {} (id, agent_identity)").format(
                index, sql.Identifier(row.name)
            )
        )

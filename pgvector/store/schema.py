"""Migrations: run by an administrator, only verified by the running agent."""

from __future__ import annotations

import hashlib
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import errors as pg

from ..domain.errors import ConfigurationError, DimensionMismatch, SchemaNotApplied, UpgradeNeeded
from . import hnsw, row_security
from .connection import DeadlineConnection, translated
from .pool import connect
from .pooler import require_session


def migrate_command(role: str) -> str:
    """What an admin runs, so that agents may log in as `role`."""
    return f'hermes-pgvector migrate --admin-dsn "dbname=... user=postgres host=..." --runtime-role {shlex.quote(role)}'


MIGRATE_COMMAND = migrate_command("hermes")
_SEAL = re.compile(r"'[0-9a-f]{64}'")
MIGRATION_LOCK = 7310579462  # each migration takes it as well
_FILE = re.compile(r"(\d{3})_(\w+)\.sql")
# Earlier texts of a migration that make the same tables, by version.
_EARLIER_TEXTS = {1: frozenset({"7e3bbda9d22393f4f42ab688a91b1d6cfc304efea413fa0d022712e9714d8656"})}
_STATE = """
SELECT to_regclass('hermes_migrations') IS NOT NULL AS recorded,
       coalesce(has_table_privilege(to_regclass('hermes_migrations'), 'SELECT'), false) AS readable,
       to_regclass('memory_entries') IS NOT NULL AND to_regclass('conversations') IS NOT NULL AS whole"""
_FOREIGN = """
SELECT EXISTS (SELECT FROM pg_class AS c
                WHERE c.oid IN (to_regclass('memory_entries'), to_regclass('conversations'))
                  AND NOT EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'tsv'))"""


@dataclass(frozen=True)
class Migration:
    """One file of migrations/: its number, name, text and checksum (sha256 with the recorded checksum blanked)."""

    version: int
    name: str
    sql: str
    checksum: str


@dataclass(frozen=True)
class MigrationReport:
    """What `migrate` did: the names applied now, the names found applied, what the server remarked, indexes built."""

    applied: tuple[str, ...]
    already: tuple[str, ...]
    notices: tuple[str, ...]
    built: tuple[str, ...] = ()


def migrations() -> list[Migration]:
    """Every migration this version ships, in order."""
    # By path: the host registers our root as an empty package for its commands, which importlib.resources cannot read.
    folder = Path(__file__).resolve().parents[1] / "migrations"
    found = []
    for entry in folder.iterdir():
        if match := _FILE.fullmatch(entry.name):
            sql = entry.read_text(encoding="utf-8")
            found.append(Migration(int(match[1]), match[2], sql, checksum(sql)))
    return sorted(found, key=lambda migration: migration.version)


def checksum(sql: str) -> str:
    """The sha256 of a migration, its own 64-digit record in the last statement counted as zeros."""
    return hashlib.sha256(_SEAL.sub("'" + "0" * 64 + "'", sql).encode()).hexdigest()


def migrate(
    admin_conninfo: str,
    *,
    dims: int,
    runtime_role: str = "",
    timeout_s: float = 120.0,
    tell: hnsw.Tell = lambda index, done, total: None,
) -> MigrationReport:
    """Apply what is missing, as the administrator of `admin_conninfo`. Safe in many processes at once.

    HNSW indexes that a filled database lacks are built at the end, beside agents and without a time limit; `tell` hears
    how far that is. `timeout_s` is for each wait for a lock.

    Raises StoreUnavailable, UpgradeNeeded, ConfigurationError (no such role, wrong server) or DimensionMismatch.
    """
    applied: list[str] = []
    already: list[str] = []
    notices: list[str] = []
    with connect(admin_conninfo) as conn:
        require_session(conn, admin_conninfo)
        conn.add_notice_handler(lambda diag: notices.append(diag.message_primary or ""))
        for name, value in (
            ("hermes_pgvector.dims", str(dims)),
            ("hermes_pgvector.runtime_role", runtime_role),
            # Any index of a large table may have to be built; a time limit would be met at each attempt anew.
            ("statement_timeout", "0"),
            ("lock_timeout", str(int(timeout_s * 1000))),
            ("client_min_messages", "warning"),
        ):
            conn.execute("SELECT set_config(%s, %s, false)", (name, value))
        # The lock each file takes for itself, over all of them: who waits finds the work done, and reports it so.
        with translated():
            conn.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))
        done = applied_versions(conn)
        for migration in migrations():
            label = f"{migration.version:03d}_{migration.name}"
            # A named role gets its rights even where the tables stand already: the files are idempotent.
            if migration.version in done and not runtime_role:
                already.append(label)
                continue
            _run(conn, migration)
            (already if migration.version in done else applied).append(label)
        if applied or runtime_role:
            row_security.renew(conn)
        _check_dims(conn, dims)
        if not runtime_role and not _role_exists(conn, "hermes"):
            notices.append(
                "no runtime role was named and there is no role `hermes`: nobody but the owner has rights yet"
            )
        with translated():
            # A build waits for whoever waits for this lock.
            conn.execute("SELECT pg_advisory_unlock(%s)", (MIGRATION_LOCK,))
            built = [] if hnsw.is_changing(conn) else hnsw.build(conn, admin_conninfo, tell)
    return MigrationReport(tuple(applied), tuple(already), tuple(notices), tuple(built))


def _run(conn: DeadlineConnection, migration: Migration) -> None:
    try:
        conn.execute(migration.sql.encode())
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
    except psycopg.Error as exc:
        raise ConfigurationError(
            f"migration {migration.version:03d} failed: {exc.diag.message_primary or exc}"
        ) from exc
    finally:
        if conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE and not conn.closed:
            conn.execute("ROLLBACK")


def ensure_schema(conn: DeadlineConnection, *, dims: int) -> None:
    """Verify, changing no table, that every migration is applied and vectors have `dims` floats.

    A role that became the owner of the main tables gets the rights it lacks on the others. Raises SchemaNotApplied or
    UpgradeNeeded with the command that fixes it, or DimensionMismatch.
    """
    _require_open(conn)
    applied = applied_versions(conn)
    missing = [m for m in migrations() if m.version not in applied]
    if missing:
        names = ", ".join(f"{m.version:03d}_{m.name}" for m in missing)
        raise SchemaNotApplied(f"the memory schema is not applied (missing: {names}); run: {MIGRATE_COMMAND}")
    _check_dims(conn, dims)


def has_foreign_tables(conn: DeadlineConnection) -> bool:
    """Whether another program's tables stand in the place of ours."""
    with translated():
        return conn.execute(_FOREIGN).fetchone() == (True,)


def applied_versions(conn: DeadlineConnection) -> set[int]:
    """The migrations that are applied; none where somebody has dropped a main table. Raises UpgradeNeeded."""
    if has_foreign_tables(conn):
        raise UpgradeNeeded(
            "the tables memory_entries and conversations here are another program's, as of the other "
            f"hermes-memory-pgvector; to upgrade them with all rows, run: {MIGRATE_COMMAND}"
        )
    with translated():
        state = conn.execute(_STATE).fetchone()
        assert state is not None
        if not (state.recorded and state.whole):
            return set()
        if not state.readable:
            _admit_owner(conn)
        return {row[0] for row in conn.execute("SELECT version FROM hermes_migrations")}


def _require_open(conn: DeadlineConnection) -> None:
    """Raises UpgradeNeeded while an upgrade has not brought every memory."""
    with translated():
        if conn.execute("SELECT to_regclass('hermes_upgrade')").fetchone() == (None,):
            return
        if conn.execute("SELECT opened_at IS NULL FROM hermes_upgrade").fetchone() == (True,):
            raise UpgradeNeeded(
                "the memory tables are being upgraded from another program's; agents begin by themselves when the "
                f"memories are there. Where nobody is at it any more, go on with it: {MIGRATE_COMMAND}"
            )


def _admit_owner(conn: DeadlineConnection) -> None:
    """Where this role owns the main tables, by ALTER TABLE ... OWNER TO, let it use the others."""
    found = conn.execute(
        "SELECT to_regprocedure('hermes_admit_owners()') IS NOT NULL AND NOT pg_is_in_recovery() AND EXISTS (SELECT "
        "FROM pg_class WHERE oid = to_regclass('memory_entries') AND pg_has_role(current_user, relowner, 'USAGE'))"
    ).fetchone()
    if found == (True,):
        conn.execute("SELECT hermes_admit_owners()")


def changed_migrations(conn: DeadlineConnection) -> list[str]:
    """The names of applied migrations whose text was another when they were applied, and made other tables."""
    with translated():
        recorded = dict(conn.execute("SELECT version, checksum FROM hermes_migrations").fetchall())
    return [
        f"{m.version:03d}_{m.name}"
        for m in migrations()
        if recorded.get(m.version, m.checksum) not in {m.checksum} | _EARLIER_TEXTS.get(m.version, frozenset())
    ]


def _check_dims(conn: DeadlineConnection, dims: int) -> None:
    have = embedding_dims(conn)
    if have != dims:
        raise DimensionMismatch(
            f"the database holds vectors of {have} dimensions, the setting `dims` says {dims}; "
            f"set plugins.pgvector.dims to {have} and use a model of that size, or give the database vectors "
            "of another model: hermes-pgvector reembed"
        )


def embedding_dims(conn: DeadlineConnection) -> int:
    """How many floats the embedding columns hold."""
    with translated():
        row = conn.execute(
            "SELECT atttypmod FROM pg_attribute WHERE attrelid = 'memory_entries'::regclass AND attname = 'embedding'"
        ).fetchone()
    return int(row[0]) if row else 0


def invalid_indexes(conn: DeadlineConnection) -> list[str]:
    """The names of our indexes that Postgres marked invalid, as an interrupted concurrent build leaves them."""
    with translated():
        return [
            row[0]
            for row in conn.execute(
                "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
                "WHERE i.indrelid IN (to_regclass('memory_entries'), to_regclass('conversations'), "
                "to_regclass('memory_chunks'), to_regclass('conversation_chunks')) AND NOT i.indisvalid "
                # One that is being built is not valid either.
                "AND NOT EXISTS (SELECT FROM pg_stat_progress_create_index AS p WHERE p.index_relid = i.indexrelid)"
            )
        ]


def excess_rights(conn: DeadlineConnection) -> list[str]:
    """What the current role may do beyond reading and writing rows; empty is right for the runtime role."""
    with translated():
        row = conn.execute(
            "SELECT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user), "
            "has_schema_privilege(current_schema(), 'CREATE'), "
            "EXISTS (SELECT FROM pg_tables WHERE tablename IN ('memory_entries', 'conversations') "
            "AND schemaname = current_schema() AND pg_has_role(current_user, tableowner, 'USAGE'))"
        ).fetchone()
    assert row is not None
    names = ("is a superuser", "may create objects in the schema", "owns the tables")
    return [name for name, has in zip(names, row, strict=True) if has]


def missing_rights(conn: DeadlineConnection) -> list[str]:
    """The rights on our tables that the current role lacks."""
    wanted = [
        (table, right)
        for table in (
            "memory_entries",
            "conversations",
            "memory_chunks",
            "conversation_chunks",
            "hermes_operations",
            "hermes_tombstones",
            "hermes_mirror",
            "hermes_retention",
        )
        for right in ("SELECT", "INSERT", "UPDATE", "DELETE")
    ]
    wanted += [("hermes_migrations", "SELECT"), ("hermes_embedding", "SELECT"), ("hermes_embedding", "UPDATE")]
    wanted += [("memory_history", "SELECT"), ("memory_history", "DELETE")]
    with translated():
        lacking = [
            f"{right} on {table}"
            for table, right in wanted
            if conn.execute("SELECT has_table_privilege(%s, %s)", (table, right)).fetchone() == (False,)
        ]
        # Of these only some columns may be written.
        partly = [("memory_history", "INSERT"), ("memory_history", "UPDATE")]
        if not row_security.has_own_themes(conn):  # the maintenance log is an administrator's
            partly += [("hermes_maintenance", "SELECT"), ("hermes_maintenance", "INSERT")]
        lacking += [
            f"{right} on {table}"
            for table, right in partly
            if conn.execute("SELECT has_any_column_privilege(%s, %s)", (table, right)).fetchone() == (False,)
        ]
        lacking += [
            f"USAGE on {sequence}"
            for sequence in ("memory_entries_id_seq", "conversations_id_seq")
            if conn.execute("SELECT has_sequence_privilege(%s, 'USAGE')", (sequence,)).fetchone() == (False,)
        ]
    return lacking


def versions(conn: DeadlineConnection) -> tuple[str, str]:
    """The versions of Postgres and of pgvector."""
    with translated():
        row = conn.execute(
            "SELECT current_setting('server_version'), (SELECT extversion FROM pg_extension WHERE extname = 'vector')"
        ).fetchone()
    assert row is not None
    return str(row[0]), str(row[1] or "")


def has_trigrams(conn: DeadlineConnection) -> bool:
    """Whether the database has pg_trgm, so that a misspelt word finds what was meant."""
    with translated():
        return conn.execute("SELECT to_regprocedure('similarity(text,text)') IS NOT NULL").fetchone() == (True,)


def _role_exists(conn: DeadlineConnection, role: str) -> bool:
    with translated():
        return conn.execute("SELECT FROM pg_roles WHERE rolname = %s", (role,)).fetchone() is not None

"""What a database is good for, before anything relies on it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ...domain.errors import HermesPgvectorError, SchemaNotApplied, StoreMisconfigured
from ...domain.types import EmbeddingSpace
from ...store import schema
from ...store.connection import DeadlineConnection, translated
from ...store.pool import connect
from ..common import new_vectors, schema_checks

OLDEST_POSTGRES = 15
OLDEST_PGVECTOR = (0, 8)
_DEADLINE_S = 15.0


@dataclass(frozen=True, slots=True)
class Appraisal:
    """One database, seen by one login.

    `pgvector` is the extension's version in the database, else the one the server could install, else empty. `space`
    is whose vectors the tables hold, None where the tables are still to be made; `empty`: they hold no vector yet.
    """

    role: str
    postgres: str
    pgvector: str
    installed: bool
    migrated: bool
    may_migrate: bool
    missing_rights: tuple[str, ...] = ()
    excess_rights: tuple[str, ...] = ()
    space: EmbeddingSpace | None = None
    empty: bool = True


def appraise(conninfo: str) -> Appraisal:
    """Connect and look, changing nothing.

    Raises StoreUnavailable, or StoreMisconfigured where no version of our tables could live.
    """
    with connect(conninfo) as conn:
        conn.deadline = time.monotonic() + _DEADLINE_S
        postgres, installed = schema_checks.versions(conn)
        with translated():
            row = conn.execute(
                "SELECT current_user AS role, current_setting('server_version_num')::integer / 10000 AS major, "
                "current_setting('server_encoding') AS encoding, "
                "pg_is_in_recovery() AS replica, "
                "(SELECT default_version FROM pg_available_extensions WHERE name = 'vector') AS available, "
                "(SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS is_super, "
                "has_schema_privilege(current_schema(), 'CREATE') AS may_create"
            ).fetchone()
        assert row is not None
        _require_usable(row.major, postgres, row.encoding, installed or row.available or "")
        missing: tuple[str, ...] = ()
        excess: tuple[str, ...] = ()
        space = None
        empty = True
        if migrated := _is_migrated(conn):
            missing = tuple(schema_checks.missing_rights(conn))
            excess = tuple(schema_checks.excess_rights(conn))
            if not missing:
                space = new_vectors.current(conn)
                empty = new_vectors.is_without_vectors(conn)
        return Appraisal(
            role=row.role,
            postgres=postgres,
            pgvector=installed or row.available or "",
            installed=bool(installed),
            migrated=migrated,
            may_migrate=bool(row.is_super or (row.may_create and installed)) and not row.replica,
            missing_rights=missing,
            excess_rights=excess,
            space=space,
            empty=empty,
        )


def _require_usable(major: int, postgres: str, encoding: str, vector: str) -> None:
    if major < OLDEST_POSTGRES:
        raise StoreMisconfigured(f"this is Postgres {postgres}; {OLDEST_POSTGRES} or newer is needed")
    if encoding != "UTF8":
        raise StoreMisconfigured(
            f"the database has the encoding {encoding}; make one with UTF8: "
            "CREATE DATABASE hermes_memory ENCODING 'UTF8' TEMPLATE template0"
        )
    if not vector:
        raise StoreMisconfigured(
            f"the server (Postgres {postgres}) has no pgvector; install it there (Debian: postgresql-{major}-pgvector)"
        )
    if tuple(int(part) for part in vector.split(".")[:2] if part.isdigit()) < OLDEST_PGVECTOR:
        raise StoreMisconfigured(
            f"pgvector is {vector}; 0.8 or newer is needed: install it on the server, "
            "then: ALTER EXTENSION vector UPDATE"
        )


def _is_migrated(conn: DeadlineConnection) -> bool:
    try:
        schema.ensure_schema(conn, dims=0)
    except SchemaNotApplied:
        return False
    except HermesPgvectorError:
        # The length is looked at elsewhere; a role without any right still sees that the tables are there.
        pass
    return True

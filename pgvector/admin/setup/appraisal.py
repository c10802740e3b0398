"""Checks of a database before setup uses it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Literal

from ...domain.errors import (
    HermesPgvectorError,
    SchemaNotApplied,
    StoreMisconfigured,
    StrangeTables,
    TablesOutOfSight,
    UpgradeNeeded,
)
from ...domain.types import EmbeddingSpace
from ...store import schema
from ...store.connection import DeadlineConnection, translated
from ...store.pool import connect
from ...store.sql import query
from ...store.vectors import recorded_space
from ..common import new_vectors, schema_checks
from ..common.fetching import one
from ..common.schema_checks import CREATE_DATABASE, OLDEST_PGVECTOR, OLDEST_POSTGRES

_DEADLINE_S = 15.0
Tables = Literal["none", "earlier", "whole"]  # `earlier`: of a version of ours with fewer migrations


@dataclass(frozen=True, slots=True)
class Appraisal:
    """The state of one database, as seen by one login.

    `pgvector` is the extension's version in the database, else the one the server could install, else empty. `space`
    is that of the stored vectors, None if there are no tables or this login may not read them; `empty`: they hold no
    vector yet.
    """

    role: str
    database: str
    postgres: str
    pgvector: str
    installed: bool
    tables: Tables
    may_migrate: bool
    missing_rights: tuple[str, ...] = ()
    excess_rights: tuple[str, ...] = ()
    space: EmbeddingSpace | None = None
    empty: bool = True

    @property
    def migrated(self) -> bool:
        """Return whether every migration is applied."""
        return self.tables == "whole"


def appraise(conninfo: str) -> Appraisal:
    """Connect and check the database without changing anything.

    Raises StoreUnavailable, or StoreMisconfigured if the database cannot hold our tables, or has others in their place.
    """
    with connect(conninfo) as conn:
        conn.deadline = time.monotonic() + _DEADLINE_S
        postgres, installed = schema_checks.versions(conn)
        with translated():
            row = one(conn, query("appraise", package=__package__))
        pgvector = installed or row.available
        _require_usable(row.major, postgres, row.encoding, pgvector)
        found = Appraisal(
            row.role, conn.info.dbname, postgres, pgvector, bool(installed), _tables(conn), bool(row.may_migrate)
        )
        if found.migrated:  # of what an earlier version lacks nobody has rights
            missing, excess = tuple(schema_checks.missing_rights(conn)), tuple(schema_checks.excess_rights(conn))
            found = replace(found, missing_rights=missing, excess_rights=excess)
        if found.tables == "none" or not row.readable:
            return found
        return replace(found, space=recorded_space(conn), empty=new_vectors.is_without_vectors(conn))


def _require_usable(major: int, postgres: str, encoding: str, vector: str) -> None:
    if major < OLDEST_POSTGRES:
        raise StoreMisconfigured(f"this is Postgres {postgres}; {OLDEST_POSTGRES} or newer is needed")
    if encoding != "UTF8":
        raise StoreMisconfigured(f"the database has the encoding {encoding}; make one with UTF8: {CREATE_DATABASE}")
    if not vector:
        raise StoreMisconfigured(
            f"the server (Postgres {postgres}) has no pgvector; install it there (Debian: postgresql-{major}-pgvector)"
        )
    if tuple(int(part) for part in vector.split(".")[:2] if part.isdigit()) < OLDEST_PGVECTOR:
        raise StoreMisconfigured(
            f"pgvector is {vector}; 0.8 or newer is needed: install it on the server, "
            "then: ALTER EXTENSION vector UPDATE"
        )


def _tables(conn: DeadlineConnection) -> Tables:
    try:
        schema.ensure_schema(conn, dims=0)
    except (StrangeTables, TablesOutOfSight, UpgradeNeeded):
        raise
    except SchemaNotApplied:
        return "earlier" if schema.applied_versions(conn) else "none"
    except HermesPgvectorError:
        # The vector length is checked elsewhere; a role without any right still sees that the tables exist.
        pass
    return "whole"

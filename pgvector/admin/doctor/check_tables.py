"""The tables as such: their keys, indexes, triggers and sequences, and whether they survive a crash of the server."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby

from ...config.settings import Settings
from ...store import schema
from ...store.connection import DeadlineConnection, role_of
from ...store.sql import query
from ..common import hnsw, schema_checks
from . import server_health
from .check import Check, fail

_query = partial(query, package=__package__)
_AS_AFTER = "as after a restore that did not get to its end"
# By table, what leaves out the rows that have no signature on purpose.
_RECALLED = {"conversations": "", "memory_entries": " AND coalesce(state, 'active') = 'active'"}


def migrating(conn: DeadlineConnection, settings: Settings) -> str:
    """Return the command that migrates this database, so that agents may log in as this connection's role."""
    return schema.migrate_command(role_of(conn)) if settings.dsn else "hermes-pgvector migrate"


def check_tables(conn: DeadlineConnection, settings: Settings, invalid: list[str]) -> Iterator[Check]:
    """Yield what is wrong with the tables; `invalid` names the indexes that are incomplete. Nothing if all is well."""
    for name in invalid:
        yield fail("index", f"{name} is invalid", f"{server_health.mending(name)} {name}", f"index:{name}")
    yield from _unnumbered(conn)
    migrate = migrating(conn, settings)
    yield from _indexes(conn, migrate)
    yield from _keys(conn)
    yield from _triggers(conn, migrate)
    yield from _functions(conn, migrate)
    yield from _sequences(conn)
    yield from _collation(conn)
    if passing := [row.name for row in conn.execute(_query("unlogged_tables"))]:
        yield fail(
            "unlogged",
            f"a crash of the server empties {', '.join(passing)}, and a replica has nothing of it",
            "as an admin: " + "; ".join(f"ALTER TABLE {name} SET LOGGED" for name in passing),
        )


def _unnumbered(conn: DeadlineConnection) -> Iterator[Check]:
    if found := conn.execute(_query("unnumbered_tables")).fetchall():
        yield fail(
            "sequences",
            f"rows get no id, {_AS_AFTER}: {', '.join(row.name for row in found)}; writes wait, and migrate fails",
            "as an admin, and then what the lines below say: "
            + "; ".join(
                f"ALTER TABLE {row.name} ALTER id ADD GENERATED {row.made} AS IDENTITY; "
                f"SELECT setval(pg_get_serial_sequence('{row.name}', 'id'), max(id)) FROM {row.name}"
                for row in found
            ),
        )


def _indexes(conn: DeadlineConnection, migrate: str) -> Iterator[Check]:
    if hnsw.is_changing(conn):  # indexes of the old vectors go with them
        return
    if missing := [row.name for row in conn.execute(_query("missing_indexes"))]:
        yield fail(
            "index",
            f"missing, {_AS_AFTER}: {', '.join(missing)}; recall is slow, and where a key is missing, writes wait",
            migrate,
            "migrate",
        )


def _keys(conn: DeadlineConnection) -> Iterator[Check]:
    if missing := conn.execute(_query("missing_keys")).fetchall():
        tables = ", ".join(row.name for row in missing)
        yield fail(
            "index",
            f"no primary key, {_AS_AFTER}: {tables}; what is sent twice may be stored twice",
            "as an admin: " + "; ".join(f"ALTER TABLE {row.name} ADD PRIMARY KEY ({row.columns})" for row in missing),
        )


def _triggers(conn: DeadlineConnection, migrate: str) -> Iterator[Check]:
    if (role := server_health.replication_role(conn)) != "origin":
        yield fail(
            "triggers",
            f"this role has session_replication_role = {role}: no trigger runs, and rows lack what those fill in",
            "as an admin: ALTER ROLE ... RESET session_replication_role (or ALTER DATABASE, wherever it is set)",
        )
    if disabled := [row.owner for row in conn.execute(_query("disabled_triggers"))]:
        yield fail(
            "triggers",
            f"disabled, {_AS_AFTER}: those of {', '.join(disabled)}; rows lack what they fill in",
            "as an admin: " + "; ".join(_with_triggers(disabled)),
        )
    if missing := conn.execute(_query("missing_triggers")).fetchall():
        tables = [
            f"{table}: {', '.join(row.name for row in rows)}" for table, rows in groupby(missing, lambda row: row.owner)
        ]
        yield fail(
            "triggers",
            f"missing, {_AS_AFTER}: {'; '.join(tables)}; rows lack what those fill in",
            migrate,
            "migrate",
        )


def _with_triggers(tables: list[str]) -> Iterator[str]:
    """Yield the statements that turn triggers on, and fill in what rows lack that were stored without them."""
    for table in tables:
        yield f"ALTER TABLE {table} ENABLE TRIGGER USER"
    for table in sorted(_RECALLED.keys() & tables):
        yield (
            f"UPDATE {table} SET embedding = embedding WHERE embedding IS NOT NULL AND sig IS NULL{_RECALLED[table]}"
        )


def _functions(conn: DeadlineConnection, migrate: str) -> Iterator[Check]:
    if astray := schema_checks.functions_astray(conn):
        names = ", ".join(row.name for row in astray)
        yield fail(
            "triggers",
            f"the tables are in the schema {astray[0].home}, and {names} look elsewhere: writes that need them wait",
            migrate,
            "migrate",
        )


def _collation(conn: DeadlineConnection) -> Iterator[Check]:
    if (row := conn.execute(_query("other_collation")).fetchone()) is not None:
        yield fail(
            "locale",
            f"the indexes were made with version {row.recorded} of the database's collation, and this server sorts by "
            f"{row.actual or 'another'}: they may miss rows, and keys let the same in twice",
            f"as an admin, while no agent runs: REINDEX DATABASE {row.name}; "
            f"ALTER DATABASE {row.name} REFRESH COLLATION VERSION",
        )


def _sequences(conn: DeadlineConnection) -> Iterator[Check]:
    if behind := server_health.sequences_behind(conn):
        yield fail(
            "sequences",
            f"the sequence of ids is behind the rows of {', '.join(behind)}: new rows are refused, or get "
            "a number that a row of another theme has",
            "hermes-pgvector doctor --fix --admin-dsn DSN",
            "sequences",
        )

"""Checks before an agent uses the tables: they exist, have this version, and hold vectors of its length."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from psycopg import sql

from ..domain.errors import (
    DimensionMismatch,
    SchemaNotApplied,
    StoreMisconfigured,
    StrangeTables,
    TablesOutOfSight,
    UpgradeNeeded,
)
from ..domain.patterns import late_pattern
from .connection import WITHOUT_POLICIES, DeadlineConnection, role_of, translated

# By path: the host registers our root as an empty package for its commands, which importlib.resources cannot read.
MIGRATIONS_FOLDER = Path(__file__).resolve().parents[1] / "migrations"
_FILE = late_pattern(r"(\d{3})_\w+\.sql")
_STATE = """
SELECT to_regclass('hermes_migrations') IS NOT NULL AS recorded,
       coalesce(has_table_privilege(to_regclass('hermes_migrations'), 'SELECT'), false) AS readable,
       to_regclass('memory_entries') IS NOT NULL AND to_regclass('conversations') IS NOT NULL AS whole"""
_FOREIGN = """
SELECT c.relname, array_agg(a.attname::text) FILTER (WHERE NOT a.attisdropped)
  FROM (VALUES ('memory_entries', 'tsv'), ('conversations', 'tsv'), ('memory_history', 'agent_identity'),
               ('memory_chunks', 'agent_identity'), ('conversation_chunks', 'agent_identity')) AS ours (name, mark)
  JOIN pg_class AS c ON c.relname = name AND c.relnamespace = quote_ident(current_schema())::regnamespace
  LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
 GROUP BY c.relname, mark HAVING NOT coalesce(bool_or(a.attname = mark), false)"""
_ELSEWHERE = """
SELECT n.nspname AS schema, c.relowner::regrole::text AS owner, current_database() AS database,
       current_user AS role, session_user AS login
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.relname = 'hermes_migrations' AND c.relkind = 'r' AND to_regclass('hermes_migrations') IS NULL ORDER BY 1"""
_SHUT = """
SELECT string_agg(format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY', c.oid::regclass), '; ' ORDER BY relname) AS remedy
  FROM pg_class AS c
 WHERE c.relkind = 'r' AND c.relrowsecurity AND row_security_active(c.oid)
   AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('hermes_migrations'))
   AND c.relname ~ '^(hermes_.*|memory_entries|memory_history|conversations|(memory|conversation)_chunks)$'
   AND NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = c.oid)"""
_UPGRADE = "SELECT to_regclass('hermes_upgrade') IS NOT NULL"
_VECTORS = """
SELECT n.nspname AS name FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
 WHERE e.extname = 'vector' AND NOT has_schema_privilege(coalesce(%s, current_user), n.oid, 'USAGE')"""
# The columns that the tables of the other hermes-memory-pgvector have at least; it has no tables of our other names.
_OTHERS_COLUMNS = {
    "memory_entries": {"id", "agent_identity", "target", "content", "created_at", "updated_at", "metadata"},
    "conversations": {"id", "session_id", "agent_identity", "role", "content", "ts", "metadata"},
}


def migrate_command(role: str) -> str:
    """Return the command that an admin runs, so that agents may log in as `role`."""
    return f'hermes-pgvector migrate --admin-dsn "dbname=... user=postgres host=..." --runtime-role {shlex.quote(role)}'


MIGRATE_COMMAND = migrate_command("hermes")


def shipped_migrations() -> dict[int, str]:
    """Return the number and name, as `001_schema`, of every migration of this version, in order."""
    found = ((match[1], entry.stem) for entry in MIGRATIONS_FOLDER.iterdir() if (match := _FILE.fullmatch(entry.name)))
    return {int(number): name for number, name in sorted(found)}


def missing_migrations(applied: Collection[int]) -> list[str]:
    """Return the names of this version's migrations that are not among the `applied` ones, in order."""
    return [name for version, name in shipped_migrations().items() if version not in applied]


def if_elsewhere(conn: DeadlineConnection) -> str:
    """Return what is wrong with a database that has nothing of ours if it is not the one that was meant."""
    return f"if another database than {conn.info.dbname!r} has the memory, correct `dsn`"


def ensure_schema(conn: DeadlineConnection, *, dims: int) -> None:
    """Verify, changing no table, that every migration is applied and vectors have `dims` floats.

    A role that became the owner of the main tables gets the rights it lacks on the others. Raises SchemaNotApplied or
    UpgradeNeeded with the command that fixes it, StrangeTables, TablesOutOfSight, StoreMisconfigured if this role may
    not use vectors, or DimensionMismatch.
    """
    # None depends on another, nor needs our tables: they take one round trip.
    with translated(), conn.pipeline():
        elsewhere, shut, upgrade, foreign, state = (
            conn.execute(each) for each in (_ELSEWHERE, _SHUT, _UPGRADE, _FOREIGN, _STATE)
        )
        vectors = conn.execute(_VECTORS, (None,))
    _require_in_sight(conn, elsewhere.fetchall())
    _require_rows_in_sight(shut.fetchone())
    if upgrade.fetchone() == (True,):
        _require_open(conn)
    applied = _versions(conn, foreign.fetchall(), state.fetchone())
    if missing := missing_migrations(applied):
        other = "" if applied else f"; {if_elsewhere(conn)}"
        raise SchemaNotApplied(
            f"the memory schema is not applied (missing: {', '.join(missing)}){other}; run: {MIGRATE_COMMAND}"
        )
    if (schema := vectors.fetchone()) is not None:
        role = role_of(conn)
        raise StoreMisconfigured(
            f"the role {role} may not use the schema {schema.name}, which the extension vector is in; as an admin: "
            + vectors_grant(schema.name, role).as_string()
        )
    check_dims(conn, dims)


def _require_in_sight(conn: DeadlineConnection, found: Sequence[Any]) -> None:
    """Raise TablesOutOfSight if there are tables of ours, but only in schemas that this role does not look in."""
    if not found:
        return
    role = found[0].role
    # A role's settings apply to who logs in as it, whatever role `options` of the DSN names.
    names = (sql.Identifier(name) for name in (role, found[0].login, found[0].schema, found[0].database))
    statement = sql.SQL(
        "GRANT USAGE ON SCHEMA {2} TO {0}; ALTER ROLE {1} IN DATABASE {3} SET search_path = {2}, public"
    )
    places = ", ".join(f"{each.schema} (of {each.owner})" for each in found)
    raise TablesOutOfSight(
        f"the memory schema is not applied where the role {role} looks; tables of it are in the schema "
        f"{places}: if they are yours, as an admin: {statement.format(*names).as_string(conn)}; if not: "
        + migrate_command(role)
    )


def _require_rows_in_sight(row: Any) -> None:
    """Raise TablesOutOfSight if row-level security hides every row of a table, because nobody has made a policy."""
    if row is not None and row.remedy:
        raise TablesOutOfSight(
            f"{WITHOUT_POLICIES}; as an admin: {row.remedy}; then, if each role is to have some themes only: "
            "hermes-pgvector tenants enable"
        )


def vectors_out_of_reach(conn: DeadlineConnection, role: str) -> str | None:
    """Return the schema of the vector extension if `role` may not use it, otherwise None."""
    with translated():
        row = conn.execute(_VECTORS, (role,)).fetchone()
    return None if row is None else str(row.name)


def vectors_grant(schema: str, role: str) -> sql.Composed:
    """Return the statement by which an admin lets `role` use the schema of the extension."""
    return sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(schema), sql.Identifier(role))


def has_foreign_tables(conn: DeadlineConnection) -> bool:
    """Return True if tables of the other hermes-memory-pgvector have the names of ours. Raises StrangeTables."""
    with translated():
        return _are_foreign(conn.execute(_FOREIGN).fetchall())


def _are_foreign(found: Sequence[Any]) -> bool:
    for table, columns in found:
        check_upgradable(table, columns or ())
    return bool(found)


def check_upgradable(table: str, columns: Collection[str]) -> None:
    """Raise StrangeTables unless another program's table has the columns that `migrate` can take over."""
    if lacking := _OTHERS_COLUMNS.get(table, {"agent_identity"}).difference(columns):
        raise StrangeTables(
            f"the table {table} here is neither ours nor of the other hermes-memory-pgvector: it has "
            f"no column {', '.join(sorted(lacking))}; use another database, or rename that table"
        )


def applied_versions(conn: DeadlineConnection) -> set[int]:
    """Return the migrations that are applied; none if a main table was dropped.

    Raises UpgradeNeeded or StrangeTables if another program's tables have the names of ours.
    """
    with translated():
        return _versions(conn, conn.execute(_FOREIGN).fetchall(), conn.execute(_STATE).fetchone())


def _versions(conn: DeadlineConnection, foreign: Sequence[Any], state: Any) -> set[int]:
    if _are_foreign(foreign):
        raise UpgradeNeeded(
            "the tables memory_entries and conversations here are another program's, as of the other "
            f"hermes-memory-pgvector; to upgrade them with all rows, run: {MIGRATE_COMMAND}"
        )
    if not (state.recorded and state.whole):
        return set()
    with translated():
        if not state.readable:
            _admit_owner(conn)
        return {row[0] for row in conn.execute("SELECT version FROM hermes_migrations")}


def _require_open(conn: DeadlineConnection) -> None:
    """Raise UpgradeNeeded while an upgrade that has begun has not copied every memory."""
    with translated():
        if conn.execute("SELECT opened_at IS NULL FROM hermes_upgrade").fetchone() == (True,):
            raise UpgradeNeeded(
                "the memory tables are being upgraded from another program's; agents start to use them "
                "when the memories are copied. If nobody is running the upgrade any more, continue it: "
                f"{MIGRATE_COMMAND}"
            )


def _admit_owner(conn: DeadlineConnection) -> None:
    """Grant this role the other tables if it became the owner of the main ones, by ALTER TABLE ... OWNER TO."""
    found = conn.execute(
        "SELECT to_regprocedure('hermes_admit_owners()') IS NOT NULL AND NOT pg_is_in_recovery() AND EXISTS (SELECT "
        "FROM pg_class WHERE oid = to_regclass('memory_entries') AND pg_has_role(current_user, relowner, 'USAGE'))"
    ).fetchone()
    if found == (True,):
        conn.execute("SELECT hermes_admit_owners()")


def check_dims(conn: DeadlineConnection, dims: int) -> None:
    """Raise DimensionMismatch unless the embedding columns hold `dims` floats; SchemaNotApplied if there are none."""
    have = embedding_dims(conn)
    if not have:
        raise SchemaNotApplied(
            "the columns of the vectors are missing, as after DROP EXTENSION vector CASCADE; nothing else was lost; "
            f"run: {MIGRATE_COMMAND}"
        )
    if have != dims:
        raise DimensionMismatch(
            f"the database holds vectors of {have} dimensions, the setting `dims` says {dims}; "
            f"set plugins.pgvector.dims to {have} and use a model of that size, or give the database vectors "
            "of another model: hermes-pgvector reembed"
        )


def embedding_dims(conn: DeadlineConnection) -> int:
    """Return how many floats the embedding columns hold."""
    with translated():
        row = conn.execute(
            "SELECT atttypmod FROM pg_attribute WHERE attrelid = 'memory_entries'::regclass AND attname = 'embedding'"
        ).fetchone()
    return int(row[0]) if row else 0

"""Whether a text is anywhere in a database."""

from __future__ import annotations

import psycopg
from psycopg import sql


def places_of(admin_dsn: str, text: str) -> list[str]:
    """The tables, and the statistics the planner keeps of them, in which `text` stands in any column of any row."""
    found = []
    with psycopg.connect(admin_dsn, autocommit=True) as conn:
        conn.execute("ANALYZE")
        tables = conn.execute(
            "SELECT n.nspname, c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
            " WHERE c.relkind IN ('r', 'p', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
            " AND n.nspname NOT LIKE 'pg_toast%%' UNION SELECT 'pg_catalog', 'pg_stats'"
        ).fetchall()
        assert len(tables) > 8
        for schema, name in tables:
            statement = sql.SQL("SELECT count(*) FROM {}.{} AS t WHERE t::text ILIKE '%%' || %s || '%%'").format(
                sql.Identifier(schema), sql.Identifier(name)
            )
            row = conn.execute(statement, (text,)).fetchone()
            if row and row[0]:
                found.append(name)
    return sorted(found)

"""Indexes for keys that hold the theme, built while agents write, before a migration makes keys of them."""

from __future__ import annotations

from psycopg import sql

from ...store.connection import DeadlineConnection, translated
from ...store.schema import applied_versions
from ...store.sql import query
from .deadlocks import retry_deadlocks

VERSION = 5  # the migration that puts them into place


def build_keys(conn: DeadlineConnection) -> None:
    """Build what the tables of an earlier version lack, however long it takes. Raises UpgradeNeeded.

    The caller keeps other migrations away, and none of them waits in Postgres for that: a build waits for who does.
    """
    applied = applied_versions(conn)
    if not applied or VERSION in applied:
        return
    with translated():
        before = conn.execute("SELECT current_setting('lock_timeout')").fetchone()
        # A build that a time limit stopped would be there, but invalid.
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

"""What an operator asks of the tables beyond what an agent does: rights, indexes, versions."""

from __future__ import annotations

from ...store.connection import DeadlineConnection, translated
from .row_security import has_own_themes


def invalid_indexes(conn: DeadlineConnection) -> list[str]:
    """Return the names of our indexes that Postgres marked invalid, as an interrupted concurrent build leaves them."""
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
    """Return what the current role may do beyond reading and writing rows; empty is right for the runtime role."""
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
    """Return the rights on our tables that the current role lacks."""
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
        if not has_own_themes(conn):  # the maintenance log is an administrator's
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
    """Return the versions of Postgres and of pgvector."""
    with translated():
        row = conn.execute(
            "SELECT current_setting('server_version'), (SELECT extversion FROM pg_extension WHERE extname = 'vector')"
        ).fetchone()
    assert row is not None
    return str(row[0]), str(row[1] or "")


def has_trigrams(conn: DeadlineConnection) -> bool:
    """Return True when the database has pg_trgm, so that a misspelt word finds what was meant."""
    with translated():
        return conn.execute("SELECT to_regprocedure('similarity(text,text)') IS NOT NULL").fetchone() == (True,)

"""Themes enforced by Postgres: row-level security, and which role has which themes.

Every function but `has_own_themes` needs a connection of an administrator.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import psycopg

from ...domain.errors import ConfigurationError
from ...store.connection import DeadlineConnection, translated
from ...store.sql import query
from .fetching import one
from .retrying import retry_deadlocks
from .vector_rights import let_use_vectors

EVERY_THEME = "*"
_FILE = Path(__file__).resolve().parents[2] / "migrations" / "optional" / "row_security.sql"


def is_enabled(conn: DeadlineConnection) -> bool:
    """Return whether row-level security is on."""
    with translated():
        on = "SELECT FROM pg_class WHERE oid = to_regclass('conversations') AND relrowsecurity"
        return bool(conn.execute(on).rowcount)


def has_own_themes(conn: DeadlineConnection) -> bool:
    """Return whether row-level security lets the current role see some themes only."""
    with translated():
        active = one(conn, "SELECT row_security_active(to_regclass('conversations'))")
        return bool(active[0] and one(conn, query("has_own_themes"))[0])


def enable(conn: DeadlineConnection) -> None:
    """Turn row-level security on, or bring it up to date; roles that may write already keep every theme at first.

    Raises ConfigurationError.
    """

    def run() -> None:
        try:
            conn.execute(_FILE.read_bytes())
        finally:
            if conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE and not conn.closed:
                conn.execute("ROLLBACK")

    try:
        retry_deadlocks(run)
    except psycopg.Error as exc:
        raise _explained(exc) from exc


def renew(conn: DeadlineConnection) -> None:
    """Bring the tables of a new version under row-level security where that is on."""
    if is_enabled(conn):
        enable(conn)


def disable(conn: DeadlineConnection) -> None:
    """Turn row-level security off; roles with some themes lose their rights. Which role has which is remembered."""
    _call(conn, "SELECT hermes_disable_row_security()")
    with translated():
        conn.execute("ANALYZE memory_entries, conversations")  # of what it hid from statistics


def grant(conn: DeadlineConnection, role: str, themes: Sequence[str]) -> None:
    """Give an existing role themes and the rights to use them.

    Raises ConfigurationError: there is no such role, or no policy would hold it back.
    """
    _call(conn, "SELECT hermes_grant_themes(%s, %s)", role, list(themes))
    let_use_vectors(conn, role)


def revoke(conn: DeadlineConnection, role: str, themes: Sequence[str]) -> int:
    """Take themes from a role, without any named all; returns how many it had of them. Raises ConfigurationError."""
    return _call(conn, "SELECT hermes_revoke_themes(%s, %s)", role, list(themes) or None) or 0


def granted(conn: DeadlineConnection) -> dict[str, list[str]]:
    """Return the themes of each role; empty where row-level security was never on."""
    with translated():
        if conn.execute("SELECT to_regclass('hermes_tenants')").fetchone() == (None,):
            return {}
        return {row.role: row.themes for row in conn.execute(query("themes_of_roles", package=__package__))}


def confined_to(conn: DeadlineConnection, theme: str, *, without: str = "") -> list[str]:
    """Return the roles that have a theme, but for those that have every theme or `without`.

    None where the current role may not know.
    """
    with translated():
        may = "SELECT coalesce(has_table_privilege(to_regclass('hermes_tenants'), 'SELECT'), false)"
        if not one(conn, may)[0]:
            return []
    others = {EVERY_THEME, without}
    return [role for role, themes in granted(conn).items() if theme in themes and others.isdisjoint(themes)]


def _call(conn: DeadlineConnection, statement: str, *values: object) -> int | None:
    """Raises ConfigurationError with what the server says."""
    try:
        row = retry_deadlocks(lambda: conn.execute(statement.encode(), values).fetchone())
    except psycopg.errors.UndefinedFunction as exc:
        raise ConfigurationError("row-level security is off; first: hermes-pgvector tenants enable") from exc
    except psycopg.Error as exc:
        raise _explained(exc) from exc
    return row[0] if row and isinstance(row[0], int) else None


def _explained(exc: psycopg.Error) -> ConfigurationError:
    hint = exc.diag.message_hint
    if not hint and isinstance(exc, psycopg.errors.InsufficientPrivilege):
        hint = "the admin's DSN must name a superuser, or the owner of the tables"
    return ConfigurationError((exc.diag.message_primary or str(exc)) + (f"; {hint}" if hint else ""))

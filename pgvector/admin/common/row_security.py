"""Themes enforced by Postgres: row-level security, and which role has which themes.

A connection that a function takes is an administrator's, but for `has_own_themes`, `refuse_confined` and `own_themes`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import psycopg

from ...domain.errors import ConfigurationError
from ...store.connection import WRITABLE, DeadlineConnection, translated
from ...store.schema import MIGRATIONS_FOLDER
from ...store.sql import query
from .fetching import one
from .retrying import retry_deadlocks, run_script
from .role_rights import let_call, let_use

EVERY_THEME = "*"
ADMIN_WRITABLE = WRITABLE.replace("`dsn`", "the admin's DSN")  # for one who named a server by an option
_FILE = MIGRATIONS_FOLDER / "optional" / "row_security.sql"


def is_enabled(conn: DeadlineConnection) -> bool:
    """Return whether row-level security is on."""
    with translated():
        on = "SELECT FROM pg_class WHERE oid = to_regclass('conversations') AND relrowsecurity"
        return bool(conn.execute(on).rowcount)


def require_enabled(conn: DeadlineConnection) -> None:
    """Raise ConfigurationError if row-level security is off: to grant or revoke a theme would turn it on for all."""
    if not is_enabled(conn):
        raise ConfigurationError("row-level security is off; first: hermes-pgvector tenants enable")


def has_own_themes(conn: DeadlineConnection) -> bool:
    """Return whether row-level security confines the current role to some themes."""
    with translated():
        active = one(conn, "SELECT row_security_active(to_regclass('conversations'))")
        return bool(active[0] and one(conn, query("has_own_themes"))[0])


def refuse_confined(conn: DeadlineConnection, why: str) -> None:
    """Raise ConfigurationError, which says `why`, for a role that row-level security confines to some themes."""
    if has_own_themes(conn):
        raise ConfigurationError(
            f"row-level security limits this role to some themes, and {why}; "
            "connect as an admin: add --admin-dsn DSN, or set HERMES_PGVECTOR_ADMIN_DSN"
        )


def own_themes(conn: DeadlineConnection) -> list[str] | None:
    """Return the themes that row-level security allows this role, ["*"] for every theme; None if it is off."""
    with translated():
        if not one(conn, query("is_confined")).confined:
            return None
        return [row.theme for row in conn.execute(query("themes_of_role"))]


def lacks(themes: Collection[str] | None, theme: str) -> bool:
    """Return whether row-level security keeps a role with these `own_themes` from a theme."""
    return themes is not None and {EVERY_THEME, theme}.isdisjoint(themes)


def missing_theme(themes: Collection[str] | None, theme: str) -> str:
    """Return what it means that a role with these `own_themes` lacks a home's own theme; "" if it has it."""
    if not lacks(themes, theme):
        return ""
    if not themes:
        return "this role has no theme: it finds nothing, and its writes are refused"
    return (
        f"this role lacks the theme {theme!r}: sessions that name no other find nothing, and their writes are refused"
    )


def enable(conn: DeadlineConnection) -> None:
    """Turn row-level security on, or update it; roles that can write already keep access to every theme at first.

    Raises ConfigurationError.
    """
    try:
        run_script(conn, _FILE.read_bytes())
    except psycopg.Error as exc:
        raise _explained(exc) from exc
    for role in granted(conn):
        let_call(conn, role)


def renew(conn: DeadlineConnection) -> None:
    """Bring tables of a new version under row-level security if it is on."""
    if is_enabled(conn):
        enable(conn)


def disable(conn: DeadlineConnection) -> None:
    """Turn row-level security off; roles with only some themes lose their rights. The assignments are kept."""
    _call(conn, "SELECT hermes_disable_row_security()")
    with translated():
        conn.execute("ANALYZE memory_entries, conversations")  # of rows that it hid from statistics


def grant(conn: DeadlineConnection, role: str, themes: Sequence[str]) -> None:
    """Give an existing role themes and the rights to use them.

    Raises ConfigurationError if there is no such role, no policy would confine it, or row-level security is off.
    """
    require_enabled(conn)
    _call(conn, "SELECT hermes_grant_themes(%s, %s)", role, list(themes))
    let_use(conn, role)


def revoke(conn: DeadlineConnection, role: str, themes: Sequence[str]) -> int:
    """Take themes, or all of them if none is named, from a role; return how many it had. Raises ConfigurationError."""
    require_enabled(conn)
    return _call(conn, "SELECT hermes_revoke_themes(%s, %s)", role, list(themes) or None) or 0


def granted(conn: DeadlineConnection) -> dict[str, list[str]]:
    """Return the themes of each role; empty if row-level security was never on."""
    with translated():
        if conn.execute("SELECT to_regclass('hermes_tenants')").fetchone() == (None,):
            return {}
        return {row.role: row.themes for row in conn.execute(query("themes_of_roles", package=__package__))}


def confined_to(conn: DeadlineConnection, theme: str, *, without: str = "") -> list[str]:
    """Return the roles that have a theme, except those that have every theme or the theme `without`.

    The list is empty if the current role may not read the assignments.
    """
    with translated():
        may = "SELECT coalesce(has_table_privilege(to_regclass('hermes_tenants'), 'SELECT'), false)"
        if not one(conn, may)[0]:
            return []
    others = {EVERY_THEME, without}
    return [role for role, themes in granted(conn).items() if theme in themes and others.isdisjoint(themes)]


def _call(conn: DeadlineConnection, statement: str, *values: object) -> int | None:
    """Run a statement. Raises ConfigurationError with the server's message."""
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
    if not hint and isinstance(exc, psycopg.errors.ReadOnlySqlTransaction):
        hint = ADMIN_WRITABLE
    return ConfigurationError((exc.diag.message_primary or str(exc)) + (f"; {hint}" if hint else ""))

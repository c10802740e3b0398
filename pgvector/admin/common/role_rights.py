"""What a role needs besides rights on tables: the schema of the vector extension, and the functions that it calls."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from psycopg import errors as pg
from psycopg import sql

from ...domain.errors import ConfigurationError
from ...store.connection import DeadlineConnection, translated
from ...store.schema import vectors_grant, vectors_out_of_reach
from ...store.sql import query


def let_use(conn: DeadlineConnection, role: str) -> None:
    """Let `role` use the schema and the functions that it may not use yet. Raises ConfigurationError if we cannot."""
    _let_use_vectors(conn, role)
    if left := let_call(conn, role):
        every = sql.SQL("GRANT EXECUTE ON ALL ROUTINES IN SCHEMA {} TO {}")
        raise ConfigurationError(
            f"the role {role} may not call {left[0].name}, and this admin may not let it; as who may: "
            + every.format(sql.Identifier(left[0].home), sql.Identifier(role)).as_string(conn)
        )


def let_call(conn: DeadlineConnection, role: str) -> list[Any]:
    """Let `role` call the functions that it may not call yet; return those that this admin may not give it."""
    for row in functions_out_of_reach(conn, role):
        grant = sql.SQL("GRANT EXECUTE ON ROUTINE {} TO {}").format(sql.SQL(row.name), sql.Identifier(role))
        with suppress(pg.InsufficientPrivilege):
            conn.execute(grant)
    return functions_out_of_reach(conn, role)


def functions_out_of_reach(conn: DeadlineConnection, role: str | None = None) -> list[Any]:
    """Return what `role`, or else that of `conn`, has to call and may not: `name`, schema `home`, `extension`."""
    with translated():
        return conn.execute(query("functions_out_of_reach", package=__package__), {"role": role}).fetchall()


def _let_use_vectors(conn: DeadlineConnection, role: str) -> None:
    if (schema := vectors_out_of_reach(conn, role)) is None:
        return
    grant = vectors_grant(schema, role)
    with suppress(pg.InsufficientPrivilege):
        conn.execute(grant)
    if vectors_out_of_reach(conn, role) is not None:
        raise ConfigurationError(
            f"the role {role} may not use the schema {schema}, which the extension vector is in, and this admin may "
            f"not let it; as who may: {grant.as_string(conn)}"
        )

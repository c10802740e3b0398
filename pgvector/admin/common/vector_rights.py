"""The right to use vectors: an extension may be in a schema of its own, which is not everybody's to use."""

from __future__ import annotations

from contextlib import suppress

from psycopg import errors as pg

from ...domain.errors import ConfigurationError
from ...store.connection import DeadlineConnection
from ...store.schema import vectors_grant, vectors_out_of_reach


def let_use_vectors(conn: DeadlineConnection, role: str) -> None:
    """Let `role` use the schema of the extension, where it may not. Raises ConfigurationError where we cannot."""
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

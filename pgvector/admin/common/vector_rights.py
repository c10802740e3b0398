"""The right to use vectors: the extension may be in a separate schema that not every role may use."""

from __future__ import annotations

from contextlib import suppress

from psycopg import errors as pg

from ...domain.errors import ConfigurationError
from ...store.connection import DeadlineConnection
from ...store.schema import vectors_grant, vectors_out_of_reach


def let_use_vectors(conn: DeadlineConnection, role: str) -> None:
    """Let `role` use the extension's schema, if it may not yet. Raises ConfigurationError if we cannot grant that."""
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

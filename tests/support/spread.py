"""Tables that agents and commands take for spread over machines by theme; without Citus they stand in one place."""

from __future__ import annotations

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict


def spread(admin_dsn: str) -> None:
    """Have connections take the tables for spread from now on."""
    database = sql.Identifier(str(conninfo_to_dict(admin_dsn)["dbname"]))
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("ALTER DATABASE {} SET hermes_pgvector.spread = on").format(database))

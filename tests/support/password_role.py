"""A role that Postgres asks for a password, on the server that all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_memory_pgvector.server.cluster import EmbeddedServer

from .waiting import until

PASSWORD = "right"


@contextmanager
def password_role(postgres: EmbeddedServer, dsn: str) -> Iterator[str]:
    """A conninfo of the database of `dsn` for the role `guarded`, without its password."""
    admin = make_conninfo(postgres.ensure().admin, dbname=conninfo_to_dict(dsn)["dbname"])
    rules = postgres.root / "data" / "pg_hba.conf"
    before = rules.read_text()
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE guarded LOGIN PASSWORD '{PASSWORD}'".encode())
        try:
            rules.write_text("local all guarded scram-sha-256\n" + before)
            connection.execute("SELECT pg_reload_conf()")
            rule = "SELECT count(*) FROM pg_hba_file_rules WHERE 'guarded' = ANY (user_name)"
            until(lambda: connection.execute(rule).fetchone() == (1,), what="the new rule")
            yield make_conninfo(dsn, user="guarded")
        finally:
            rules.write_text(before)
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("DROP OWNED BY guarded")
            connection.execute("DROP ROLE guarded")

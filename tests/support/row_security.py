"""Row-level security as the tests turn it on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.admin.common import row_security
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store.pool import connect

ROLES = ("tenant_marketing", "tenant_sales", "tenant_nobody", "tenant_group", "tenant_owner")
_MADE_BY_A_TEST = "tenant_hired"
# Of the modules that run a second time with the runtime role held to a list of themes (scripts/test.sh).
THEMES = (
    "default", "hermes", "marketing", "sales", "support", "trading", "research", "coder", "writer", "other", "another",
    "all", "current", "session", "atlas", "team blue", "newcomer", "theme", "a", "b", "one", "two", "bench", "nobody",
    "rare", "most", "others", "berlin-support", "raw", "london", "@telegram/default/e2a530e251d36750",
)  # fmt: skip


def confine_runtime_role(admin_dsn: str, mode: str) -> None:
    """Turn row-level security on in a new database; the runtime role has every theme ("all") or THEMES ("some")."""
    with connect(admin_dsn) as conn:
        row_security.enable(conn)
        if mode == "some":
            row_security.revoke(conn, "hermes", [])
            row_security.grant(conn, "hermes", THEMES)


def let_tenants_in(postgres: EmbeddedServer, *others: str) -> None:
    """Create ROLES once, and let them and roles of `others`' names log in over the socket of the tests' server."""
    with psycopg.connect(postgres.ensure().admin, autocommit=True) as conn:
        for role in ROLES:
            if not conn.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone():
                conn.execute(f"CREATE ROLE {role} LOGIN".encode())
        found = conn.execute("SHOW hba_file").fetchone()
        assert found is not None
        # By name, for PostgreSQL 15 takes no pattern; a quote within a quoted name is doubled.
        names = ",".join('"{}"'.format(name.replace('"', '""')) for name in (*ROLES, _MADE_BY_A_TEST, *others))
        file, line = Path(found[0]), f"local all {names} trust\n"
        if line not in file.read_text(encoding="utf-8"):
            file.write_text(line + file.read_text(encoding="utf-8"), encoding="utf-8")
            conn.execute("SELECT pg_reload_conf()")


def tenant_of(postgres: EmbeddedServer, admin_dsn: str, *themes: str, role: str = "tenant_marketing") -> str:
    """Turn row-level security on, grant `role` its themes, and return how it logs in."""
    let_tenants_in(postgres)
    with connect(admin_dsn) as conn:
        row_security.enable(conn)
        row_security.grant(conn, role, themes)
    return make_conninfo(admin_dsn, user=role)


@contextmanager
def session(admin_dsn: str, role: str) -> Iterator[psycopg.Connection[Any]]:
    """A login of a role, in autocommit."""
    with psycopg.connect(make_conninfo(admin_dsn, user=role), autocommit=True) as conn:
        yield conn

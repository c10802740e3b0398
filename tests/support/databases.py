"""The databases of the tests, on the server that they share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_memory_pgvector.server.cluster import EmbeddedServer


class Databases:
    """Makes and drops databases over one connection: one for each would cost more than what is done over it."""

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server
        self._admin = server.ensure().admin
        self._connection = psycopg.connect(self._admin, autocommit=True)
        self._numbers = itertools.count(1)

    def create(self, name: str, template: str) -> str:
        """Copy `template`; returns an admin's conninfo of the copy."""
        # Copied file by file, which takes a fraction of what writing each page to the log as well does.
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
        self._execute(create.format(sql.Identifier(name), sql.Identifier(template)))
        return make_conninfo(self._admin, dbname=name)

    @contextmanager
    def copy(self, template: str) -> Iterator[str]:
        """An admin's conninfo of a new copy of `template`, which is gone afterwards."""
        name = f"test_{next(self._numbers)}"
        yield self.create(name, template)
        self._execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def copy_of(self, admin_dsn: str) -> AbstractContextManager[str]:
        """The same of a database that was filled for several tests, to which nobody is connected."""
        return self.copy(str(conninfo_to_dict(admin_dsn)["dbname"]))

    def close(self) -> None:
        self._connection.close()

    def _execute(self, statement: sql.Composed) -> None:
        try:
            self._connection.execute(statement)
        except psycopg.OperationalError:
            if not self._connection.broken:
                raise
            # A test stopped the server, or ended its sessions.
            self.close()
            self._server.ensure()
            self._connection = psycopg.connect(self._admin, autocommit=True)
            self._connection.execute(statement)

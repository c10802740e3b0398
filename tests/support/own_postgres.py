"""A Postgres that a test may stop, kill and fill, unlike the one that all tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.admin.common.migrations import migrate
from hermes_memory_pgvector.server.cluster import EmbeddedServer

from .embedded import BIN_DIR, ask, postmaster_of
from .places import server_place
from .stored import Database
from .waiting import until

Stop = Literal["fast", "immediate", "kill"]

_SIGNALS: dict[Stop, signal.Signals] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT, "kill": signal.SIGKILL}
_STOP_TIMEOUT_S = 300.0  # a busy machine takes its time; only a server that hangs needs that long


class OwnPostgres:
    """A running server with a migrated database for each test."""

    def __init__(self, server: EmbeddedServer, dims: int) -> None:
        self.server = server
        self._dims = dims
        self._made = 0
        self._template = ""
        self.admin_dsn = server.ensure().admin

    def database(self) -> Database:
        """A new, migrated database, as the runtime role sees it."""
        if not self._template:
            self._create("migrated", "template1")
            migrate(make_conninfo(self.admin_dsn, dbname="migrated"), dims=self._dims, runtime_role="hermes")
            self._template = "migrated"
        self._made += 1
        name = f"test_{self._made}"
        self._create(name, self._template)
        return Database(make_conninfo(self.admin_dsn, dbname=name, user="hermes"))

    def _create(self, name: str, template: str) -> None:
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        with psycopg.connect(self.admin_dsn, dbname="postgres", autocommit=True) as connection:
            connection.execute(create)

    def admin_of(self, database: Database) -> str:
        """The superuser's conninfo of a database."""
        return make_conninfo(database.dsn, user=str(ask(self.admin_dsn, "SELECT current_user")))

    def stop(self, how: Stop = "fast") -> None:
        """End the server as an operator would (`fast`, `immediate`), or as the kernel does when memory is short."""
        os.kill(postmaster_of(self.server), _SIGNALS[how])
        until(lambda: not self.server.running(), _STOP_TIMEOUT_S, "the end of the server")

    def start(self) -> None:
        """Start it again, on the same data; fine when it runs."""
        self.server.ensure()


@contextmanager
def own_postgres(dims: int, **settings: str) -> Iterator[OwnPostgres]:
    """A server that ends with the block; `settings` are Postgres settings."""
    with server_place() as place:
        # What survives the death of a process is what is tested here; a power cut is not.
        chosen: Mapping[str, str] = {"fsync": "off"} | settings
        server = EmbeddedServer(place / "pg", bin_dir=BIN_DIR, settings=dict(chosen))
        try:
            yield OwnPostgres(server, dims)
        finally:
            server.stop()
            server.release()

"""A Postgres that a test may stop, kill and fill, unlike the one that all tests share."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
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
# What survives the death of a process is what is tested here; a power cut is not.
_SETTINGS = {"fsync": "off"}


class OwnPostgres:
    """A running server with a migrated database for each test."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.server = server
        self._made = 0
        self.admin_dsn = server.ensure().admin

    def database(self) -> Database:
        """A new, migrated database, as the runtime role sees it."""
        self._made += 1
        name = f"test_{self._made}"
        _create(self.admin_dsn, name, "migrated")
        return Database(make_conninfo(self.admin_dsn, dbname=name, user="hermes"))

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


def _create(admin_dsn: str, name: str, template: str) -> str:
    """Copy a database; return an admin's conninfo of the copy."""
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
    with psycopg.connect(admin_dsn, dbname="postgres", autocommit=True) as connection:
        connection.execute(create)
    return make_conninfo(admin_dsn, dbname=name)


@cache
def _stopped(dims: int) -> Path:
    """The directory of a server that was made, with a migrated database, and stopped; it is gone with this process."""
    stack = ExitStack()
    atexit.register(stack.close)
    server = EmbeddedServer(stack.enter_context(server_place()) / "pg", bin_dir=BIN_DIR, settings=_SETTINGS)
    migrate(_create(server.ensure().admin, "migrated", "template1"), dims=dims, runtime_role="hermes")
    server.stop()
    server.release()
    return server.root


@contextmanager
def own_postgres(dims: int, **settings: str) -> Iterator[OwnPostgres]:
    """A server that ends with the block; `settings` are Postgres settings."""
    with server_place() as place:
        # A copy: to make its data takes ten times as long as to start it.
        subprocess.run(["cp", "-a", _stopped(dims), place / "pg"], check=True)
        server = EmbeddedServer(place / "pg", bin_dir=BIN_DIR, settings=_SETTINGS | settings)
        try:
            yield OwnPostgres(server)
        finally:
            server.stop()
            server.release()

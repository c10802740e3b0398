"""The embedded server as the settings mean it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from ..domain.errors import ConfigurationError, HermesPgvectorError, SchemaNotApplied, UpgradeNeeded
from ..domain.settings import Settings
from ..operate.reembed import resize_empty
from ..operate.serve import embedded_server
from ..server.cluster import EmbeddedServer
from ..store.pool import connect
from ..store.reembed import admin_connection
from ..store.schema import ensure_schema, migrate

_STARTUP_S = 60.0  # a server that has to be created on a slow disk


def bring_up_embedded(server: EmbeddedServer, *, dims: int) -> str:
    """Start the embedded server if it is not up, migrate it if it is not, and return the runtime role's conninfo."""
    conninfo = server.ensure(timeout_s=_STARTUP_S)
    with connect(conninfo.runtime) as conn:
        conn.deadline = time.monotonic() + _STARTUP_S
        try:
            ensure_schema(conn, dims=dims)
        except UpgradeNeeded:
            pass  # an operator's to begin, for it can be undone
        except SchemaNotApplied:
            migrate(conninfo.admin, dims=dims, runtime_role="hermes")
        except HermesPgvectorError:
            pass  # who uses the conninfo meets the same problem, and says so
    return conninfo.runtime


@contextlib.contextmanager
def borrowed_server(settings: Settings) -> Iterator[Callable[[], str]]:
    """For one command: a function that brings the embedded server up, which is let go of at the end."""
    started: list[EmbeddedServer] = []

    def locate() -> str:
        server = embedded_server(settings)
        started.append(server)
        return bring_up_embedded(server, dims=settings.dims)

    try:
        yield locate
    finally:
        for server in started:
            server.release()


@contextlib.contextmanager
def admin_conninfo(settings: Settings, admin_dsn: str) -> Iterator[str]:
    """For one command: how an admin logs in, `admin_dsn` or the embedded server's own.

    Raises ConfigurationError when `dsn` is set and no `admin_dsn` given.
    """
    if admin_dsn:
        yield admin_dsn
        return
    if settings.dsn:
        raise ConfigurationError(
            "this needs an admin of the database: add --admin-dsn DSN, or set HERMES_PGVECTOR_ADMIN_DSN"
        )
    server = embedded_server(settings)
    try:
        bring_up_embedded(server, dims=settings.dims)
        yield server.ensure(timeout_s=_STARTUP_S).admin
    finally:
        server.release()


def resize_embedded(settings: Settings, dims: int) -> bool:
    """Let the embedded database, where it has no vector yet, take vectors of `dims` floats; whether it had none.

    Raises what `resize_empty` raises.
    """
    with admin_conninfo(settings, "") as conninfo, admin_connection(conninfo) as conn:
        return resize_empty(conn, dims)

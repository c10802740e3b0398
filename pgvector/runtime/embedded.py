"""The embedded server as the settings mean it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from ..config.settings import Settings
from ..domain.errors import HermesPgvectorError, SchemaNotApplied, UpgradeNeeded
from ..server.cluster import EmbeddedServer
from ..store.pool import connect
from ..store.schema import ensure_schema, migrate
from .embedded_server import embedded_server

STARTUP_S = 60.0  # a server that has to be created on a slow disk


def bring_up_embedded(server: EmbeddedServer, *, dims: int) -> str:
    """Start the embedded server if it is not up, migrate it if it is not, and return the runtime role's conninfo."""
    conninfo = server.ensure(timeout_s=STARTUP_S)
    with connect(conninfo.runtime) as conn:
        conn.deadline = time.monotonic() + STARTUP_S
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

"""The administrator's login to a database, embedded or not, for one command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ...config.settings import Settings
from ...domain.errors import ConfigurationError, HermesPgvectorError
from ...domain.types import EmbeddingSpace
from ...store.connection import DeadlineConnection
from . import new_vectors
from .embedded_server import bring_up, embedded_server, starting_said


@contextlib.contextmanager
def admin_conninfo(settings: Settings, admin_dsn: str) -> Iterator[str]:
    """Give one command how an admin logs in: `admin_dsn`, or the embedded server's own.

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
        with starting_said(server):
            admin = bring_up(server, dims=settings.dims).admin
        yield admin
    finally:
        server.release()


def resize_embedded(settings: Settings, dims: int) -> bool:
    """Let the embedded database, where it has no vector yet, take vectors of `dims` floats; whether it had none.

    Raises what `resize_empty` raises.
    """
    with admin_conninfo(settings, "") as conninfo, new_vectors.admin_connection(conninfo) as conn:
        return resize_empty(conn, dims)


def resize_empty(conn: DeadlineConnection, dims: int) -> bool:
    """Let a database without any vector take vectors of `dims` floats; False when it has some, and stays as it is.

    Its texts wait for their vectors then, as if they had just been written. Raises ConfigurationError while a change of
    the model is under way, DeadlineExceeded while the tables are in use.
    """
    if not new_vectors.is_without_vectors(conn):
        return False
    space = EmbeddingSpace("", dims)
    new_vectors.begin(conn, space)
    new_vectors.build_indexes(conn, space, lambda line: None)
    try:
        new_vectors.switch_soon(conn, space)
    except HermesPgvectorError:
        new_vectors.abort(conn)
        raise
    return True

"""The administrator's login to a database, embedded or not, for one command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ...config.settings import Settings
from ...domain.errors import ConfigurationError, HermesPgvectorError
from ...domain.types import EmbeddingSpace
from ...store.connection import DeadlineConnection
from ...store.pool import connect
from . import new_vectors
from .database import naming
from .database_identity import identity
from .embedded_server import bring_up, embedded_server, existing_database, starting_said


@contextlib.contextmanager
def admin_conninfo(settings: Settings, admin_dsn: str) -> Iterator[str]:
    """Give one command how an admin logs in: `admin_dsn`, or the embedded server's own.

    Raises ConfigurationError when `dsn` is set and no `admin_dsn` given.
    """
    if admin_dsn:
        with naming("--admin-dsn"):
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


@contextlib.contextmanager
def agents_admin(settings: Settings, admin_dsn: str) -> Iterator[str]:
    """Do as `admin_conninfo`, for what changes the very database that agents use.

    Raises ConfigurationError as that does, and where `admin_dsn` leads to another one.
    """
    if admin_dsn:
        require_same(settings, admin_dsn)
    with admin_conninfo(settings, admin_dsn) as conninfo:
        yield conninfo


def require_same(settings: Settings, admin_dsn: str) -> None:
    """Raise ConfigurationError where an admin's login leads to another database than that of the agents.

    A variable may have been left set for another home. Where one of both cannot be reached, whoever needs it tells.
    """
    try:
        with existing_database(settings) as existing:
            if not (conninfo := existing()):
                return
            with connect(conninfo) as agents, connect(admin_dsn) as admins:
                same = identity(agents) == identity(admins)
    except HermesPgvectorError:
        return
    if not same:
        theirs = "`dsn`" if settings.dsn else "the embedded Postgres of this home"
        raise ConfigurationError(
            "--admin-dsn, or HERMES_PGVECTOR_ADMIN_DSN in the environment, leads to another database than "
            f"{theirs}; nothing was changed: "
            + ("name the same database" if settings.dsn else "leave it out, or set `dsn` to that database first")
        )


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

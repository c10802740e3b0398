"""The administrator's login to a database, embedded or not, for one command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ...config.settings import Settings
from ...domain.errors import ConfigurationError, HermesPgvectorError, WrongUsage
from ...domain.types import EmbeddingSpace
from ...store.connection import DeadlineConnection
from ...store.pool import connect
from . import new_vectors
from .database import naming
from .database_identity import identity
from .embedded_server import bring_up, embedded_server, existing_database, starting_said


@contextlib.contextmanager
def admin_conninfo(settings: Settings, admin_dsn: str) -> Iterator[str]:
    """Yield an administrator's conninfo for one command: `admin_dsn`, or the embedded server's own.

    Raises WrongUsage if `dsn` is set and `admin_dsn` is not given.
    """
    if admin_dsn:
        with naming("--admin-dsn"):
            yield admin_dsn
        return
    if settings.dsn:
        raise WrongUsage("this needs an admin of the database: add --admin-dsn DSN, or set HERMES_PGVECTOR_ADMIN_DSN")
    server = embedded_server(settings)
    try:
        with starting_said(server):
            admin = bring_up(server, dims=settings.dims).admin
        yield admin
    finally:
        server.release()


@contextlib.contextmanager
def agents_admin(settings: Settings, admin_dsn: str) -> Iterator[str]:
    """Do as `admin_conninfo`, for commands that change the very database that agents use.

    Raises WrongUsage as that does, and ConfigurationError if `admin_dsn` leads to another database.
    """
    if admin_dsn:
        require_same(settings, admin_dsn)
    with admin_conninfo(settings, admin_dsn) as conninfo:
        yield conninfo


def require_same(settings: Settings, admin_dsn: str) -> None:
    """Raise ConfigurationError if an admin's login leads to another database than the agents'.

    The variable may have been left set for another home. If one of the two cannot be reached, whatever needs it reports
    it.
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
    """Let the embedded database, if it has no vector yet, take vectors of `dims` floats; return whether it had none.

    Raises what `resize_empty` raises.
    """
    with admin_conninfo(settings, "") as conninfo, new_vectors.admin_connection(conninfo) as conn:
        return resize_empty(conn, dims)


def resize_empty(conn: DeadlineConnection, dims: int) -> bool:
    """Let a database without any vector take vectors of `dims` floats; return False, with no change, if it has some.

    Its texts then wait for vectors as if just written. Raises ConfigurationError while a change of the model is in
    progress, DeadlineExceeded while the tables are in use.
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

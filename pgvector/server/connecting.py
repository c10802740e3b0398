"""Connects to the server over its socket, and checks whether it answers and has the database."""

from __future__ import annotations

import os
import re
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from ..domain.errors import EmbeddedServerError
from .layout import PORT, Layout

if TYPE_CHECKING:
    import psycopg

DATABASE = "hermes_memory"
ADMIN = "postgres"
RUNTIME = "hermes"

CONNECT_TIMEOUT_S = 3

_ANSWER = "SELECT current_setting('data_directory'), EXISTS (SELECT FROM pg_roles WHERE rolname = %s)"


class ServerState(Enum):
    """What an attempt to connect finds."""

    READY = "the database is there"
    BARE = "the server answers, the database or the role is missing"
    SILENT = "no answer"


class ServerAnswer(NamedTuple):
    """The state of the server, and libpq's error message if it is silent."""

    state: ServerState
    error: str = ""


# What libpq is told instead of what its variables say, which are about the user's other servers.
_NOT_OF_VARIABLES = {
    "hostaddr": "", "options": "", "client_encoding": "UTF8", "target_session_attrs": "any", "require_auth": "none",
    "channel_binding": "prefer", "gssencmode": "disable", "sslmode": "prefer", "sslnegotiation": "postgres",
    "sslcertmode": "allow", "replication": "",
    "load_balance_hosts": "disable", "min_protocol_version": "3.0", "max_protocol_version": "3.0",
    "ssl_min_protocol_version": "", "ssl_max_protocol_version": "",
}  # fmt: skip
# What no option overrules, with the words that tell a value which libpq or the server refuses.
_NOT_TO_OVERRULE = {
    "PGSERVICE": r"definition of service|service file", "PGDATESTYLE": 'parameter "DateStyle"',
    "PGTZ": 'parameter "TimeZone"', "PGGEQO": 'parameter "geqo"',
}  # fmt: skip


def conninfo(layout: Layout, *, user: str, dbname: str = DATABASE) -> str:
    """Return the libpq connection string of one role."""
    from psycopg.conninfo import make_conninfo

    # A long path puts the socket into /tmp, where anyone could pose as the server while it is down.
    where = str(layout.sockets)
    return make_conninfo(host=where, port=PORT, user=user, dbname=dbname, requirepeer=layout.owner, **_overruled())


def _overruled() -> dict[str, str]:
    """Return an option for each of libpq's variables that is set and would lead elsewhere, or nowhere."""
    from psycopg import pq

    known = {each.keyword.decode(): (each.envvar or b"").decode() for each in pq.Conninfo.get_defaults()}
    # A service may set any of them, also those that have no variable.
    set_now = {name for name, variable in known.items() if {variable, "PGSERVICE"} & os.environ.keys()}
    return {name: value for name, value in _NOT_OF_VARIABLES.items() if name in set_now}


def look(layout: Layout) -> ServerAnswer:
    """Return the state of the server, as an attempt to connect finds it.

    Raises: EmbeddedServerError when the socket belongs to a server on other data, or a variable of libpq is in the way.
    """
    import psycopg

    try:
        with connect_as_admin(layout, DATABASE) as connection:
            row = connection.execute(_ANSWER, [RUNTIME]).fetchone()
    except psycopg.Error as error:
        said = str(error).strip()
        _check_variables(said)
        return ServerAnswer(ServerState.SILENT, said)
    if row is None or not _same_directory(row[0], layout):
        raise EmbeddedServerError(f"a server on other data answers at {layout.sockets}; stop it")
    return ServerAnswer(ServerState.READY if row[1] else ServerState.BARE)


def _check_variables(said: str) -> None:
    """Raise EmbeddedServerError if libpq's message is about a variable, which neither a start nor waiting corrects."""
    for variable, words in _NOT_TO_OVERRULE.items():
        if variable in os.environ and re.search(words, said):
            raise EmbeddedServerError(
                f"the environment has {variable}={os.environ[variable]}, with which libpq reaches no server, also not "
                f"the embedded Postgres ({' '.join(said.split())}); correct it, or leave it out of hermes' environment"
            )


def connect_as_admin(layout: Layout, dbname: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Return a connection in autocommit. Raises psycopg.Error."""
    import psycopg

    dsn = conninfo(layout, user=ADMIN, dbname=dbname)
    return psycopg.connect(
        dsn, connect_timeout=CONNECT_TIMEOUT_S, autocommit=True, application_name="hermes-pgvector server"
    )


def _same_directory(path: object, layout: Layout) -> bool:
    try:
        return os.path.samefile(str(path), layout.data)
    except OSError:
        return False

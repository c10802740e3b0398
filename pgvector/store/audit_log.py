"""The log of what operators did to stored text: who, when, what, how many; never the text."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping
from typing import Any

from psycopg.types.json import Jsonb

from .connection import DeadlineConnection, translated
from .sql import query


def record(conn: DeadlineConnection, verb: str, arguments: Mapping[str, Any], done: Mapping[str, int]) -> None:
    """Add to the log what is done in this transaction. The time and the database role are the server's own."""
    row = {
        "os_user": _who(),
        "host": socket.gethostname(),
        "verb": verb,
        "arguments": Jsonb(dict(arguments)),
        "counts": Jsonb(dict(done)),
    }
    with translated():
        conn.execute(query("record_maintenance"), row)


def record_where_allowed(
    conn: DeadlineConnection, verb: str, arguments: Mapping[str, Any], done: Mapping[str, int]
) -> None:
    """As `record`; nothing on a replica, or for a role that row-level security confines: the log is not its own."""
    row = conn.execute(query("may_write_log")).fetchone()
    if row and row.may:
        record(conn, verb, arguments, done)


def operator(verb: str) -> dict[str, str]:
    """Who runs a command, as the history of memories says it."""
    return {"source": "operator", "verb": verb, "os_user": _who(), "host": socket.gethostname()}


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())

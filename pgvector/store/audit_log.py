"""The log of what operators did to stored text: who, when, what, how many; never the text."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping
from typing import Any

from . import theme_rows
from .connection import DeadlineConnection
from .sql import query


def record(conn: DeadlineConnection, verb: str, arguments: Mapping[str, Any], done: Mapping[str, int]) -> None:
    """Add to the log what is done in this transaction. The time and the database role are the server's own."""
    theme_rows.record(conn, verb, arguments, done, who=_who(), host=socket.gethostname())


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

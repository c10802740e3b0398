"""The history of memories, which triggers write down, and the log of what operators did, which never holds a text.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from psycopg.types.json import Jsonb

from .connection import DeadlineConnection, translated
from .sql import query

# Of what is known of a write, that which tells who it was; the rest may be part of what was said.
_WHO = ("source", "session_id", "profile", "platform", "user", "chat", "verb", "os_user", "host")


def note_actor(
    conn: DeadlineConnection, known: Mapping[str, Any], *, origin: str = "", keep_removed: bool = False
) -> None:
    """Say who does what follows in this transaction; `known` is a row's metadata or an operator.

    With `keep_removed` the memories they remove can be brought back; `origin` is the home whose file let go of them.
    """
    who = {key: known[key] for key in _WHO if isinstance(known.get(key), str) and known[key]}
    row = {"who": json.dumps(who), "origin": origin, "keep_removed": "on" if keep_removed else "off"}
    conn.execute(query("note_actor"), row)


def forget_old_texts(conn: DeadlineConnection, theme: str, ids: Sequence[int] | None = None) -> int:
    """Drop what memories of a theme, `ids` or all of them, said before they were replaced; return how many texts."""
    return conn.execute(query("forget_old_texts"), {"theme": theme, "ids": None if ids is None else list(ids)}).rowcount


def record(conn: DeadlineConnection, verb: str, arguments: Mapping[str, Any], done: Mapping[str, int]) -> None:
    """Add to the log what is done in this transaction. The time and the database role are the server's own."""
    row = {
        "os_user": _who(), "host": socket.gethostname(), "verb": verb,
        "arguments": Jsonb(dict(arguments)), "counts": Jsonb(dict(done)),
    }  # fmt: skip
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

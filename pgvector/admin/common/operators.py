"""Who runs a command, for the history of memories and the log of operators."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any

from psycopg.types.json import Jsonb

from ...store.connection import DeadlineConnection, translated
from ...store.sql import query
from .fetching import one
from .repeat import held_back

_query = partial(query, package=__package__)


def clock(conn: DeadlineConnection) -> tuple[datetime, bool]:
    """Return the server's time, and whether this role may write to the log."""
    row = one(conn, _query("read_clock"))
    return row.now, row.may_record


def record(conn: DeadlineConnection, verb: str, arguments: Mapping[str, Any], done: Mapping[str, int]) -> None:
    """Add a log entry for work done in this transaction. The time and the database role are the server's own."""
    row = {
        "os_user": os_user(), "host": socket.gethostname(), "verb": verb,
        "arguments": Jsonb(dict(arguments)), "counts": Jsonb(dict(done)),
    }  # fmt: skip
    with translated():
        conn.execute(_query("record_maintenance"), row)


def os_user() -> str:
    """Return the name of the operating-system user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # for example a container's user without a name
        return str(os.getuid())


def record_where_allowed(
    conn: DeadlineConnection, verb: str, arguments: Mapping[str, Any], done: Mapping[str, int]
) -> None:
    """Do as `record`, except where nothing can be written, or for a role that row-level security keeps from the log."""
    if one(conn, _query("may_write_log")).may:
        record(conn, verb, arguments, done)


@contextmanager
def logged(
    conn: DeadlineConnection,
    verb: str,
    arguments: Mapping[str, Any],
    done: Mapping[str, int],
    planned: Mapping[str, int],
    *,
    state: str = "state",
) -> Iterator[None]:
    """Log long work in transactions of its own: what is `planned`, and at the end of the block what was `done`.

    The argument `state` says whether all was done or the work was interrupted. Each transaction of the block, with its
    part of `done`, is to be in `held_back`.
    """

    def note(said: str, counts: Mapping[str, int]) -> None:
        if not conn.closed:
            with held_back(), conn.transaction():
                record_where_allowed(conn, verb, {**arguments, state: said}, counts)

    ended = "interrupted"
    try:
        note("begun", planned)
        yield
        ended = "done"
    finally:
        note(ended, done)


def without_verb(who: Mapping[str, str]) -> dict[str, str]:
    """Return what a memory's metadata keep of `operator`; the history records all of it."""
    return {name: value for name, value in who.items() if name != "verb"}


def operator(verb: str) -> dict[str, str]:
    """Return who runs a command, as the history of memories records it."""
    return {"source": "operator", "verb": verb, "os_user": os_user(), "host": socket.gethostname()}


def author(who: Mapping[str, Any], db_role: str) -> str:
    """Return who did something, in a few words."""
    source = str(who.get("source") or "")
    if source == "operator":
        return f"{who.get('os_user', '?')}@{who.get('host', '?')} ({who.get('verb', 'operator')})"
    if not source:
        return f"database role {db_role}"
    where = "/".join(str(who[key]) for key in ("platform", "profile") if who.get(key))
    return f"{source} ({where})" if where else source

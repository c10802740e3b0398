"""Doctor's queries to a server, and its repairs there as an admin."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from psycopg import sql

from ...store.connection import DeadlineConnection, translated
from ...store.sql import query
from ...store.vectors import STORES
from ..common.fetching import one
from ..common.hnsw import ROWS, for_store

_NUMBERED = ("memory_entries", "conversations", "memory_history", "hermes_maintenance")
_SAMPLE_BYTES = 50_000_000  # of a table, to estimate the progress of a change of the model
_query = partial(query, package=__package__)
_LEFTOVER = re.compile(r"_cc(?:new|old)\d*$")


@dataclass(frozen=True, slots=True)
class Server:
    """How a server answers. `clock_ahead_s`: by how much its clock is ahead of ours, negative if it is behind."""

    read_only: bool
    clock_ahead_s: float
    answered_in_s: float


def look_at(conn: DeadlineConnection, now: float) -> Server:
    """Compare `now` (seconds since the epoch) with the server's clock, and see whether the server accepts writes."""
    started = time.monotonic()
    with translated():
        row = one(conn, _query("look_at_server"))
    took_s = time.monotonic() - started
    # The server read its clock about halfway through.
    return Server(row.read_only, row.at - now - took_s / 2, took_s)


def ways_round(conn: DeadlineConnection) -> list[Any]:
    """Return the REVOKE statements that bar ways round row-level security, and whether each is open to `anybody`."""
    with translated():
        return conn.execute(_query("who_could_replace")).fetchall()


def newer_extension(conn: DeadlineConnection) -> str:
    """Return the newest version of pgvector installed on the server if the database uses an older one, otherwise ""."""
    with translated():
        row = conn.execute(_query("newer_extension")).fetchone()
    return str(row.version) if row else ""


def update_extension(conn: DeadlineConnection) -> None:
    """Update the database to the newest version of pgvector that is installed on the server."""
    with translated():
        conn.execute("ALTER EXTENSION vector UPDATE")


def mending(name: str) -> str:
    """Return how the statement begins that mends an invalid index of ours while agents work.

    The leftover of an interrupted rebuild is dropped: rebuilt, it would be a second index beside the first.
    """
    return "DROP INDEX CONCURRENTLY" if _LEFTOVER.search(name) else "REINDEX INDEX CONCURRENTLY"


def rebuild_index(conn: DeadlineConnection, name: str) -> None:
    """Rebuild an invalid index of ours while agents work; drop the leftover of an earlier attempt."""
    with translated():
        conn.execute(sql.SQL(mending(name) + " {}").format(sql.Identifier(name)))


def kept_capitals(conn: DeadlineConnection) -> str:
    """Return which capital letters text search does not map to the usual small ones; "" if it maps all.

    Its locale may be another one than that of `lower`: before PostgreSQL 18 it is never ICU's.
    """
    with translated():
        words = one(conn, _query("folded_words")).words
    if "\u0436" not in words:
        return "beyond ASCII"
    return "" if "info" in words else "I"


def replication_role(conn: DeadlineConnection) -> str:
    """Return session_replication_role: triggers run only if it is `origin`. Only an admin can change it."""
    with translated():
        return str(one(conn, "SELECT current_setting('session_replication_role')")[0])


def sequences_behind(conn: DeadlineConnection) -> list[str]:
    """Return the tables whose next row would get an id that is taken, as far as this role may read them."""
    behind = []
    for table in _NUMBERED:
        with translated():
            last, highest = _numbers(conn, table)
        if highest > last:
            behind.append(table)
    return behind


def advance_sequences(conn: DeadlineConnection) -> None:
    """Set every sequence of ids to the highest id, if the role may see both. Writers wait briefly meanwhile."""
    for table in _NUMBERED:
        with translated(), conn.transaction():
            conn.execute(_of_table("hold_numbers", table))
            if last := max(_numbers(conn, table)):
                conn.execute(_of_table("set_last_number", table), {"last": last})


def _numbers(conn: DeadlineConnection, table: str) -> tuple[int, int]:
    """Return the last id that the table's sequence gave, and the highest one of a row; zeros if the role may not ask.

    They are asked for one after the other, because a database that is spread over machines has the sequence on one.
    """
    row = conn.execute(_of_table("last_number", table)).fetchone()
    if row is None:  # as a tenant's role, of the maintenance log
        return 0, 0
    last = row.last or 0
    return last, one(conn, _of_table("highest_number", table), {"last": last}).highest or 0


def _of_table(name: str, table: str) -> sql.Composed:
    return sql.SQL(_query(name).decode()).format(table=sql.Identifier(table), name=sql.Literal(table))


# -- vectors


def share_done(conn: DeadlineConnection) -> float:
    """Estimate the share of rows visible to this role with a new vector, 0 to 1, from a sample of large tables."""
    done = total = 0.0
    for store in STORES:
        row = one(conn, for_store("sample_next", store, package=str(__package__)), {"sample": _SAMPLE_BYTES})
        done, total = done + row.scale * row.done, total + row.scale * row.total
    return done / total if total else 1.0


def without_graph(conn: DeadlineConnection) -> list[str]:
    """Return the tables whose HNSW index is missing or incomplete."""
    return [
        table
        for table in ROWS.values()
        if not getattr(conn.execute(query("has_graph"), {"table": table}).fetchone(), "found", 1)
    ]

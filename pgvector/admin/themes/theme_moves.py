"""All rows of a theme moved into another one, or deleted, a bounded piece at a time.

Every function works inside the caller's transaction, on a connection whose errors are translated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

from psycopg import sql

from ...domain.errors import ConfigurationError
from ...domain.types import Store
from ...store.connection import DeadlineConnection
from ...store.memories import lock_theme, lock_themes
from ...store.sql import query
from ..common.fetching import one, pieces
from ..common.hnsw import CHUNKS, ROWS
from ..common.row_security import has_own_themes

_query = partial(query, package=__package__)
_SLICE = 1000  # rows of one statement
# What stands beside turns and memories, and moves at once.
_BESIDE = (
    "move_operations", "move_tombstones", "move_mirrored", "move_proposals", "move_read_turns", "forget_retention",
)  # fmt: skip
Advance = Callable[[int], None]
Statement = bytes | sql.Composed


def shared(conn: DeadlineConnection, theme: str, into: str) -> int:
    """Return how many memories stand in both themes."""
    return sum(len(pairs) for pairs in _shared(conn, theme, into, "memory_digests"))


def move(conn: DeadlineConnection, theme: str, into: str, advance: Advance) -> dict[str, int]:
    """Move everything of `theme` to `into`; a memory that both hold stays once. Return what happened, counted.

    `advance` gets the number of rows done since its last call.
    """
    names = {"theme": theme, "into": into}
    with _moving(conn, names):
        turns = _in_slices(conn, _query("theme_turn_ids"), _moves(conn, "turns"), names, advance)
    # Turns first: agents wait with memories of both themes from here on.
    lock_themes(conn, (theme, into))
    merged = _merge(conn, theme, into, advance)
    # Before the memories, whose own move is the last of it.
    conn.execute(_query("move_history"), names)
    with _moving(conn, names):
        memories = _in_slices(conn, _query("theme_memory_ids"), _moves(conn, "memories"), names, advance)
    for statement in _BESIDE:
        conn.execute(_query(statement), names)
    conn.execute(_query("clear_live_tombstones"), {"theme": into})
    return {"memories": memories, "merged": merged, "turns": turns}


def delete(conn: DeadlineConnection, theme: str, advance: Advance) -> dict[str, int]:
    """Delete a theme's turns and memories, and with them what was derived of them. Return what happened, counted.

    What stays are digests: of removed memories, so that no host's file brings them back.
    """
    names = {"theme": theme, "at": datetime.now(UTC)}
    turns = _in_slices(conn, _query("theme_turn_ids"), [query("delete_turns")], names, advance)
    lock_theme(conn, theme)
    memories = _in_slices(conn, _query("theme_memory_ids"), [query("forget_memories")], names, advance)
    conn.execute(_query("delete_history"), names)
    conn.execute(_query("forget_retention"), names)
    return {"memories": memories, "turns": turns}


def texts_kept(conn: DeadlineConnection, theme: str) -> int:
    """Return how many earlier and removed texts the history of a theme keeps, which may hold nothing else."""
    return int(one(conn, _query("texts_kept"), {"theme": theme}).count)


def log(conn: DeadlineConnection, limit: int) -> list[dict[str, Any]]:
    """Return the last `limit` entries of the operators' log, newest first. Raises ConfigurationError."""
    if has_own_themes(conn):
        raise ConfigurationError(
            "row-level security limits this role to some themes, and the log names those of others; "
            "connect as an admin: add --admin-dsn DSN, or set HERMES_PGVECTOR_ADMIN_DSN"
        )
    return [row._asdict() for row in conn.execute(_query("read_maintenance"), {"limit": limit})]


def _shared(conn: DeadlineConnection, theme: str, into: str, statement: str) -> Iterator[dict[int, Any]]:
    """Yield memories of `theme` that `into` holds as well, by their number there, a slice at a time.

    They are what `statement` tells of them, the target and the digest at least. A theme at a time: a database that is
    spread by theme joins no two of them.
    """
    ids = [row.id for row in conn.execute(_query("theme_memory_ids"), {"theme": theme})]
    for slice_ids in pieces(ids, _SLICE):
        some = {"theme": theme, "ids": slice_ids}
        rows = {(row.target, row.digest): row for row in conn.execute(_query(statement), some)}
        asked = {"theme": into, "digests": [digest for _, digest in rows]}
        same = conn.execute(_query("same_memories"), asked)
        yield {kept.id: rows[key] for kept in same if (key := (kept.target, kept.digest)) in rows}


def _merge(conn: DeadlineConnection, theme: str, into: str, advance: Advance) -> int:
    """Leave what both themes hold in `into` alone; return how many memories that were."""
    merged = 0
    for pairs in _shared(conn, theme, into, "memories_to_merge"):
        rows = list(pairs.values())
        given = {
            "theme": into,
            "ids": list(pairs),
            "created": [row.created_at for row in rows],
            "updated": [row.updated_at for row in rows],
            "embeddings": [row.embedding for row in rows],
            "owners": [row.owners for row in rows],
            "said": [row.said for row in rows],
        }
        conn.execute(_query("merge_memories"), given)
        conn.execute(_query("delete_merged"), {"theme": theme, "ids": [row.id for row in rows]})
        advance(len(rows))
        merged += len(rows)
    return merged


@contextmanager
def _moving(conn: DeadlineConnection, names: Mapping[str, str]) -> Iterator[None]:
    """Have the triggers know in the block which theme rows come from, and which they go to."""
    begin = sql.SQL(_query("begin_moves").decode())
    conn.execute(begin.format(**{name: sql.Literal(value) for name, value in names.items()}))
    yield
    conn.execute(_query("end_moves"))


def _moves(conn: DeadlineConnection, store: Store) -> list[Statement]:
    """Return the statements that move rows: their parts first, which go with a row that is deleted."""
    moves: list[Statement] = [_statement("lock_rows", ROWS[store])]
    for table, number in ((CHUNKS[store], "row_id"), (ROWS[store], "id")):
        columns = [row.name for row in conn.execute(_query("own_columns"), {"table": table})]
        moves.append(_statement("move_rows", table, number=number, columns=columns))
    return moves


def _statement(name: str, table: str, *, number: str = "id", columns: Sequence[str] = ()) -> sql.Composed:
    return sql.SQL(_query(name).decode()).format(
        table=sql.Identifier(table),
        number=sql.Identifier(number),
        columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
    )


def _in_slices(
    conn: DeadlineConnection,
    which: bytes,
    statements: Sequence[Statement],
    names: Mapping[str, Any],
    advance: Advance,
) -> int:
    """Run `statements` on all rows that `which` names, those that come meanwhile included; return how many."""
    done = 0
    # The ids once and at the start: to find the next ones by the theme would be a walk over all that are done.
    while ids := [row.id for row in conn.execute(which, {"theme": names["theme"]})]:
        for some in pieces(ids, _SLICE):
            for statement in statements:
                conn.execute(statement, {**names, "ids": some})
            advance(len(some))
        done += len(ids)
    return done

"""Moves all rows of a theme into another one, or deletes them, in slices of bounded size.

Every function works inside the caller's transaction, on a connection whose errors are translated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

from psycopg import sql
from psycopg.types.json import Jsonb

from ...domain.gil import in_slices
from ...domain.text import as_object
from ...domain.types import Store
from ...store.connection import DeadlineConnection
from ...store.memories import forget_old_texts, lock_theme, lock_themes
from ...store.sql import query
from ..common.fetching import one
from ..common.hnsw import CHUNKS, ROWS
from ..common.operators import operator
from ..common.row_security import refuse_confined

_query = partial(query, package=__package__)
_SLICE = 1000  # rows a statement
# Statements for the other tables, each of which moves all rows of a theme at once.
_BESIDE = (
    "move_operations", "move_tombstones", "move_mirrored", "move_proposals", "move_read_turns", "forget_retention",
)  # fmt: skip
Advance = Callable[[int], None]
Statement = bytes | sql.Composed


def shared(conn: DeadlineConnection, theme: str, into: str) -> int:
    """Return how many memories both themes hold."""
    return sum(len(pairs) for pairs in _shared(conn, theme, into, "memory_digests"))


def contested(conn: DeadlineConnection, theme: str, into: str) -> int:
    """Return of how many subjects the two themes have different current memories, of which one stays current."""
    here, there = (
        {
            (row.kind, row.subject, row.scope): row.digest
            for row in conn.execute(_query("active_subjects"), {"theme": each})
        }
        for each in (theme, into)
    )
    return sum(here[subject] != there[subject] for subject in here.keys() & there.keys())


def move(conn: DeadlineConnection, theme: str, into: str, advance: Advance) -> dict[str, int]:
    """Move everything of `theme` to `into`, keeping a memory that both hold once; return the counts.

    `advance` gets the number of rows done since its last call.
    """
    names = {"theme": theme, "into": into}
    with _moving(conn, names):
        turns = _each_slice(conn, _query("theme_turn_ids"), _moves(conn, "turns"), names, advance)
    # Turns were moved first because from here on agents' writes of memories of both themes wait.
    lock_themes(conn, (theme, into))
    merged = _merge(conn, theme, into, advance)
    # History goes before the memories, so that their move becomes its last entry.
    conn.execute(_query("move_history"), names)
    with _moving(conn, names):
        memories = _each_slice(conn, _query("theme_memory_ids"), _moves(conn, "memories"), names, advance)
    for statement in _BESIDE:
        conn.execute(_query(statement), names)
    conn.execute(_query("clear_live_tombstones"), {"theme": into})
    return {"memories": memories, "merged": merged, "turns": turns}


def delete(conn: DeadlineConnection, theme: str, advance: Advance) -> dict[str, int]:
    """Delete a theme's turns and memories and everything derived from them; return the counts.

    Only digests of removed memories stay, so that no host's file brings the memories back.
    """
    names = {"theme": theme, "at": datetime.now(UTC)}
    turns = _each_slice(conn, _query("theme_turn_ids"), [query("delete_turns")], names, advance)
    lock_theme(conn, theme)
    memories = _each_slice(conn, _query("theme_memory_ids"), [query("forget_memories")], names, advance)
    conn.execute(_query("delete_history"), names)
    conn.execute(_query("forget_retention"), names)
    return {"memories": memories, "turns": turns}


def texts_kept(conn: DeadlineConnection, theme: str) -> int:
    """Return how many earlier and removed texts a theme's history keeps; the theme itself may be empty."""
    return int(one(conn, _query("texts_kept"), {"theme": theme}).count)


def log(conn: DeadlineConnection, limit: int) -> list[dict[str, Any]]:
    """Return the last `limit` entries of the operators' log, newest first. Raises ConfigurationError."""
    refuse_confined(conn, "the log names those of others")
    return [
        row._asdict() | {"arguments": as_object(row.arguments), "counts": _numbers(row.counts)}
        for row in conn.execute(_query("read_maintenance"), {"limit": limit})
    ]


def _numbers(counts: object) -> dict[str, int]:
    """Return what a log entry counts; whoever may write there may write anything."""
    return {name: count for name, count in as_object(counts).items() if type(count) is int}


def _shared(conn: DeadlineConnection, theme: str, into: str, statement: str) -> Iterator[dict[int, Any]]:
    """Yield the memories of `theme` that `into` holds as well, keyed by their id in `into`, a slice at a time.

    The values are rows of `statement`, with at least target and digest. Each theme is queried alone, because a
    database that is distributed by theme cannot join two themes.
    """
    ids = [row.id for row in conn.execute(_query("theme_memory_ids"), {"theme": theme})]
    for slice_ids in in_slices(ids, _SLICE):
        some = {"theme": theme, "ids": slice_ids}
        rows = {(row.target, row.digest): row for row in conn.execute(_query(statement), some)}
        asked = {"theme": into, "digests": [digest for _, digest in rows]}
        same = conn.execute(_query("same_memories"), asked)
        yield {kept.id: rows[key] for kept in same if (key := (kept.target, kept.digest)) in rows}


def _merge(conn: DeadlineConnection, theme: str, into: str, advance: Advance) -> int:
    """Merge the memories that both themes hold into the rows of `into`; return how many there were."""
    kept: dict[int, int] = {}
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
        _drop_merged(conn, {"theme": theme, "into": into}, [row.id for row in rows], list(pairs))
        kept |= zip((row.id for row in rows), pairs, strict=True)
        advance(len(rows))
    for place in (theme, into):
        conn.execute(_query("relink_merged"), {"theme": place, "ids": list(kept), "kept": list(kept.values())})
    return len(kept)


def _drop_merged(conn: DeadlineConnection, names: Mapping[str, str], ids: Sequence[int], kept: Sequence[int]) -> None:
    """Delete merged memories; those that are kept in their place tell what they said before."""
    given = {**names, "ids": ids, "kept": kept, "who": Jsonb(operator("merge"))}
    conn.execute(_query("hand_over_texts"), given)
    conn.execute(_query("note_merged"), given)
    with _moving(conn, names):  # else the trigger took the same texts from the history of other memories as well
        conn.execute(_query("delete_merged"), given)
    forget_old_texts(conn, names["theme"], ids)


@contextmanager
def _moving(conn: DeadlineConnection, names: Mapping[str, str]) -> Iterator[None]:
    """Tell the triggers, for the block, which theme rows come from and which they go to."""
    begin = sql.SQL(_query("begin_moves").decode())
    conn.execute(begin.format(**{name: sql.Literal(value) for name, value in names.items()}))
    yield
    conn.execute(_query("end_moves"))


def _moves(conn: DeadlineConnection, store: Store) -> list[Statement]:
    """Return the statements that move rows: chunks first, because deleting a row deletes its chunks."""
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


def _each_slice(
    conn: DeadlineConnection,
    which: bytes,
    statements: Sequence[Statement],
    names: Mapping[str, Any],
    advance: Advance,
) -> int:
    """Run `statements` on all rows that `which` selects, also those added meanwhile.

    Return how many rows the last statement changed: others may delete some of those that were selected.
    """
    done = 0
    # All ids are read first: selecting each slice by theme would walk over all rows already done.
    while ids := [row.id for row in conn.execute(which, {"theme": names["theme"]})]:
        for some in in_slices(ids, _SLICE):
            done += [conn.execute(statement, {**names, "ids": some}).rowcount for statement in statements][-1]
            advance(len(some))
    return done

"""Old turns and memories of a theme: counted, shown, and memories deleted.

Every function works inside the caller's transaction, on the server's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from ...store.connection import DeadlineConnection
from ...store.memories import lock_theme
from ...store.sql import query
from .old_turns import FIRST, Old

_query = partial(query, package=__package__)


@dataclass(frozen=True, slots=True)
class PrunableRows:
    """How many rows, their bytes in the table, and when the oldest and the newest of them were written."""

    rows: int
    bytes: int
    oldest_at: datetime | None
    newest_at: datetime | None


def count_turns(conn: DeadlineConnection, old: Old) -> PrunableRows:
    """Return what `prune_turns` would delete."""
    row = _one(conn, "prunable_turns", old.row())
    return PrunableRows(row.turns, row.bytes, row.oldest_at, row.newest_at)


def oldest_turns(conn: DeadlineConnection, old: Old, limit: int) -> list[dict[str, Any]]:
    """Return the first turns that would be deleted: theme, at, role, and the beginning of their content."""
    rows = conn.execute(_query("oldest_prunable_turns"), old.row() | {"limit": limit}, prepare=False)
    return [row._asdict() for row in rows]


def without_newest(conn: DeadlineConnection, old: Old, *, rows: int = 0, bytes: int = 0) -> Old:
    """Return `old` without the newest so many turns, and without the newest that so many bytes hold."""
    for statement, most in (("newest_turns_by_number", rows), ("newest_turns_by_bytes", bytes)):
        if most:
            first = conn.execute(_query(statement), old.row() | {"most": most}, prepare=False).fetchone()
            old = replace(old, before=min(old.before, (first.ts, first.id) if first is not None else FIRST))
    return old


def walk_timeline(conn: DeadlineConnection) -> None:
    """Have `prune_turns` go along a theme's timeline until the transaction ends; a pool's connections do so anyway."""
    conn.execute(_query("walk_timeline"))


def count_memories(conn: DeadlineConnection, theme: str, before: datetime) -> tuple[PrunableRows, int]:
    """Return what `prune_memories` would delete, and how many of these a memory file held when it was last read."""
    row = _one(conn, "prunable_memories", {"theme": theme, "before_at": before})
    return PrunableRows(row.memories, row.bytes, row.oldest_at, row.newest_at), row.in_files


def oldest_memories(conn: DeadlineConnection, theme: str, before: datetime, limit: int) -> list[dict[str, Any]]:
    """Return the first memories that would be deleted, as `oldest_turns`; their role is their target."""
    asked = {"theme": theme, "before_at": before, "limit": limit}
    return [row._asdict() for row in conn.execute(_query("oldest_prunable_memories"), asked)]


def prune_memories(conn: DeadlineConnection, theme: str, before: datetime, limit: int) -> int:
    """Forget at most `limit` memories of a theme that were last confirmed before; return how many."""
    lock_theme(conn, theme)
    asked = {"theme": theme, "before_at": before, "limit": limit}
    ids = [row.id for row in conn.execute(_query("prunable_memory_ids"), asked)]
    if ids:
        conn.execute(query("forget_memories"), {"theme": theme, "ids": ids, "at": datetime.now(UTC)})
    return len(ids)


def _one(conn: DeadlineConnection, statement: str, row: Mapping[str, Any]) -> Any:
    """Return the one row of a statement, planned for these parameters: with a session it takes another way."""
    found = conn.execute(_query(statement), row, prepare=False).fetchone()
    assert found is not None
    return found

"""Old turns and memories as an operator counts and deletes them, and how the setting `retention` stands.

Every function works inside the caller's transaction, on the server's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from ...store.connection import DeadlineConnection
from ...store.memories import lock_theme
from ...store.old_turns import FIRST, Old, one_row
from ...store.sql import query


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows, their bytes in the table, and when the oldest and the newest of them were written."""

    rows: int
    bytes: int
    oldest_at: datetime | None
    newest_at: datetime | None


def count_turns(conn: DeadlineConnection, old: Old) -> Count:
    """Return what `prune_turns` would delete."""
    row = one_row(conn, "prunable_turns", old.row())
    return Count(row.turns, row.bytes, row.oldest_at, row.newest_at)


def oldest_turns(conn: DeadlineConnection, old: Old, limit: int) -> list[dict[str, Any]]:
    """Return the first turns that `prune_turns` would delete: theme, at, role, and the beginning of their content."""
    rows = conn.execute(query("oldest_prunable_turns"), old.row() | {"limit": limit}, prepare=False)
    return [row._asdict() for row in rows]


def newest(conn: DeadlineConnection, old: Old, *, rows: int = 0, bytes: int = 0) -> Old:
    """Return `old` without the newest so many turns, and without the newest that so many bytes hold."""
    for statement, most in (("newest_turns_by_number", rows), ("newest_turns_by_bytes", bytes)):
        if most:
            first = conn.execute(query(statement), old.row() | {"most": most}, prepare=False).fetchone()
            old = replace(old, before=min(old.before, (first.ts, first.id) if first is not None else FIRST))
    return old


def walk_timeline(conn: DeadlineConnection) -> None:
    """Have `prune_turns` go along a theme's timeline until the transaction ends; a pool's connections do so anyway."""
    conn.execute(query("walk_timeline"))


def count_memories(conn: DeadlineConnection, theme: str, before: datetime) -> tuple[Count, int]:
    """Return what `prune_memories` would delete, and how many of these a memory file held when it was last read."""
    row = one_row(conn, "prunable_memories", {"theme": theme, "before_at": before})
    return Count(row.memories, row.bytes, row.oldest_at, row.newest_at), row.in_files


def oldest_memories(conn: DeadlineConnection, theme: str, before: datetime, limit: int) -> list[dict[str, Any]]:
    """Return the first memories that `prune_memories` would delete, as `oldest_turns`; their role is their target."""
    asked = {"theme": theme, "before_at": before, "limit": limit}
    return [row._asdict() for row in conn.execute(query("oldest_prunable_memories"), asked)]


def prune_memories(conn: DeadlineConnection, theme: str, before: datetime, limit: int) -> int:
    """Forget at most `limit` memories of a theme that were last confirmed before; return how many."""
    lock_theme(conn, theme)
    asked = {"theme": theme, "before_at": before, "limit": limit}
    ids = [row.id for row in conn.execute(query("prunable_memory_ids"), asked)]
    if ids:
        conn.execute(query("forget_memories"), {"theme": theme, "ids": ids, "at": datetime.now(UTC)})
    return len(ids)


def has_turns(conn: DeadlineConnection, theme: str) -> bool:
    """Return whether a theme holds any turn that this role sees."""
    return bool(one_row(conn, "theme_has_turns", {"theme": theme}).found)


def state(conn: DeadlineConnection, grace_s: float) -> dict[str, Any]:
    """Return when turns were last deleted by the setting, how many in the last day, and what is announced."""
    return dict(one_row(conn, "retention_state", {"grace_s": grace_s})._asdict())

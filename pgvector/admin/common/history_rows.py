"""The history of memories as an operator reads it, and memories brought back from it.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...store.connection import DeadlineConnection, translated
from ...store.memories import lock_theme
from ...store.sql import query
from .browse_rows import Window


def of_theme(
    conn: DeadlineConnection,
    theme: str,
    window: Window,
    *,
    action: str | None = None,
    target: str | None = None,
    session_id: str | None = None,
) -> list[dict[str, Any]]:
    """Return what happened in a theme, newest first."""
    asked = {"theme": theme, "action": action, "target": target, "session_id": session_id}
    with translated():
        return [row._asdict() for row in conn.execute(query("list_history"), asked | window.values())]


def of_memory(conn: DeadlineConnection, memory_id: int, *, limit: int, offset: int = 0) -> list[dict[str, Any]]:
    """Return what happened to one memory, newest first, in whichever theme; also to one that is gone."""
    asked = {"memory_id": memory_id, "limit": limit, "offset": offset}
    with translated():
        return [row._asdict() for row in conn.execute(query("history_of_memory"), asked)]


def move(conn: DeadlineConnection, theme: str, into: str) -> None:
    """Give what happened in `theme` to `into`."""
    conn.execute(query("move_history"), {"theme": theme, "into": into})


def delete(conn: DeadlineConnection, theme: str) -> None:
    """Forget that anything happened in a theme."""
    conn.execute(query("delete_history"), {"theme": theme})


@dataclass(frozen=True, slots=True)
class RemovedMemory:
    """A memory that a file let go of, as it can be brought back. `removal` is the number of its removal."""

    removal: int
    id: int
    theme: str
    target: str
    content: str
    chars: int
    at: datetime
    who: Mapping[str, Any]


def removed(
    conn: DeadlineConnection,
    *,
    theme: str | None = None,
    ids: Sequence[int] | None = None,
    since: datetime | None = None,
    chars: int,
) -> list[RemovedMemory]:
    """Return what can be brought back, the last removed first; of each text at most `chars` characters."""
    asked = {"theme": theme, "ids": None if ids is None else list(ids), "chars": chars}
    asked["since"] = since.isoformat() if since else "-infinity"
    with translated():
        rows = conn.execute(query("removed_memories"), asked).fetchall()
    return [
        RemovedMemory(row.removal, row.id, row.theme, row.target, row.content, row.chars, row.at, row.who)
        for row in rows
    ]


def forget_removed(conn: DeadlineConnection, theme: str, ids: Sequence[int]) -> None:
    """Drop what memories of a theme said that were removed before, also where others once said the same."""
    conn.execute(query("forget_removed"), {"theme": theme, "ids": list(ids)})


def restore(conn: DeadlineConnection, found: Sequence[RemovedMemory]) -> dict[int, int]:
    """Bring memories back, owned by whoever asks for it; return their numbers by that of the removal."""
    restored: dict[int, int] = {}
    for theme in sorted({each.theme for each in found}):
        lock_theme(conn, theme)
    for each in found:
        row = conn.execute(query("restore_memory"), {"removal": each.removal, "owners": ["restored"]}).fetchone()
        if row is not None:
            restored[each.removal] = int(row.id)
            conn.execute(query("clear_tombstone"), {"theme": row.theme, "target": row.target, "content": row.content})
    return restored


def old_texts(conn: DeadlineConnection, theme: str, ids: Sequence[int]) -> int:
    """Return how many earlier texts of these memories are kept."""
    row = conn.execute(query("count_old_texts"), {"theme": theme, "ids": list(ids)}).fetchone()
    return 0 if row is None else int(row.count)

"""Removals by the host's memory files that wait for somebody's word, and what becomes of them.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ...store.connection import DeadlineConnection
from ...store.memories import lock_theme
from ...store.memory_files import own_kept
from ...store.sql import query

_SHOWN_CHARS = 300


@dataclass(frozen=True, slots=True)
class HeldRemoval:
    """A memory that a file lacks, and that stays until somebody decides. `why`: missing, empty, damaged or shorter."""

    id: int
    theme: str
    target: str
    content: str
    chars: int
    origin: str
    held_at: datetime
    why: str


def held(conn: DeadlineConnection, *, chars: int = _SHOWN_CHARS) -> list[HeldRemoval]:
    """Return every removal that waits, the oldest first; of each text at most `chars` characters."""
    rows = conn.execute(query("held_removals"), {"chars": chars})
    return [
        HeldRemoval(row.id, row.theme, row.target, row.content, row.chars, row.origin, row.held_at, row.held_why)
        for row in rows
    ]


def held_counts(conn: DeadlineConnection) -> list[Any]:
    """Return how many removals wait: origin, target, held_why, count, held_at of the oldest, for each file."""
    return conn.execute(query("count_held_removals")).fetchall()


def confirm(conn: DeadlineConnection, removals: Sequence[HeldRemoval]) -> None:
    """Let the files go of these entries: what nobody else owns is removed, and can be brought back."""
    for theme in sorted({each.theme for each in removals}):
        lock_theme(conn, theme)
    now = datetime.now(UTC)
    for each in removals:
        row = {"theme": each.theme, "id": each.id, "origin": each.origin, "noted_at": now}
        conn.execute(query("let_go_of_memory"), row)


def dismiss(conn: DeadlineConnection, ids: Sequence[int]) -> int:
    """Keep held memories though their files lack them; return how many."""
    return own_kept(conn, conn.execute(query("keep_held"), {"ids": list(ids)}).fetchall())

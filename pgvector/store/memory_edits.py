"""Memories by their ids: looked at, and forgotten for good."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .connection import DeadlineConnection
from .history import note_actor
from .memories import lock_theme
from .sql import query


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored memory. `chars` is the length of the whole text, of which `content` may be the beginning."""

    id: int
    target: str
    content: str
    at: datetime
    chars: int


def entries(conn: DeadlineConnection, theme: str, ids: Sequence[int]) -> list[Entry]:
    """Those of the memories that stand in `theme`, in the order of ids."""
    rows = conn.execute(query("memories_by_id"), {"theme": theme, "ids": list(ids)})
    return [Entry(row.id, row.target, row.content, row.at, len(row.content)) for row in rows]


def forget(
    conn: DeadlineConnection,
    theme: str,
    expected: Sequence[Entry],
    in_files: Collection[tuple[str, str]],
    origin: str,
    who: Mapping[str, Any],
) -> bool:
    """Delete exactly the `expected` memories, if each still stands in `theme` with the same text; else none, and False.

    `in_files` are the targets and texts that this host's files hold, noted as read so that they are not read in again.
    `who` is what the history says of who did it.
    """
    lock_theme(conn, theme)
    ids = [entry.id for entry in expected]
    there = {(entry.id, entry.target, entry.content) for entry in entries(conn, theme, ids)}
    if there != {(entry.id, entry.target, entry.content) for entry in expected}:
        return False
    at = datetime.now(UTC)
    note_actor(conn, who)
    conn.execute(query("forget_memories"), {"theme": theme, "ids": ids, "at": at})
    for _, target, content in there:
        if (target, content) in in_files:
            noted = {"theme": theme, "origin": origin, "target": target, "content": content}
            conn.execute(query("note_mirrored"), noted | {"announced": False, "noted_at": at})
    return True


def newest(conn: DeadlineConnection, theme: str, target: str, *, limit: int, chars: int) -> list[Entry]:
    """The most recently confirmed memories of a target, of each text at most `chars` characters."""
    asked = {"theme": theme, "target": target, "limit": limit, "chars": chars}
    return [
        Entry(row.id, target, row.content, row.at, row.chars) for row in conn.execute(query("newest_memories"), asked)
    ]


def totals(conn: DeadlineConnection, theme: str) -> dict[str, int]:
    """How many memories of each target a theme holds."""
    found = {row.target: int(row.count) for row in conn.execute(query("count_memories"), {"theme": theme})}
    return {target: found.get(target, 0) for target in ("user", "memory")}


def id_of(conn: DeadlineConnection, theme: str, target: str, content: str) -> int | None:
    """The id of a memory by its text; None when it is not there."""
    row = conn.execute(query("memory_id"), {"theme": theme, "target": target, "content": content}).fetchone()
    return None if row is None else int(row.id)

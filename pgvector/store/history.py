"""What happened to memories: who wrote, replaced, moved and removed them, and when. Triggers write it down.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .connection import DeadlineConnection, translated
from .sql import query

# Of what is known of a write, that which tells who it was; the rest may be part of what was said.
_WHO = ("source", "session_id", "profile", "platform", "user", "chat", "verb", "os_user", "host")


@dataclass(frozen=True, slots=True)
class Window:
    """Which rows of a timeline are meant; `until` is exclusive."""

    limit: int
    offset: int = 0
    since: datetime | None = None
    until: datetime | None = None

    def values(self) -> dict[str, Any]:
        """The parameters of a statement."""
        return {
            "limit": self.limit,
            "offset": self.offset,
            "since": self.since.isoformat() if self.since else "-infinity",
            "until": self.until.isoformat() if self.until else "infinity",
        }


def note_actor(conn: DeadlineConnection, known: Mapping[str, Any]) -> None:
    """Say who does what follows in this transaction; `known` is a row's metadata or an operator."""
    who = {key: known[key] for key in _WHO if isinstance(known.get(key), str) and known[key]}
    conn.execute(query("note_actor"), {"who": json.dumps(who)})


def of_theme(
    conn: DeadlineConnection,
    theme: str,
    window: Window,
    *,
    action: str | None = None,
    target: str | None = None,
    session_id: str | None = None,
) -> list[dict[str, Any]]:
    """What happened in a theme, newest first."""
    asked = {"theme": theme, "action": action, "target": target, "session_id": session_id}
    with translated():
        return [row._asdict() for row in conn.execute(query("list_history"), asked | window.values())]


def of_memory(conn: DeadlineConnection, memory_id: int, *, limit: int, offset: int = 0) -> list[dict[str, Any]]:
    """What happened to one memory, newest first, in whichever theme; also to one that is gone."""
    asked = {"memory_id": memory_id, "limit": limit, "offset": offset}
    with translated():
        return [row._asdict() for row in conn.execute(query("history_of_memory"), asked)]


def move(conn: DeadlineConnection, theme: str, into: str) -> None:
    """Give what happened in `theme` to `into`."""
    conn.execute(query("move_history"), {"theme": theme, "into": into})


def delete(conn: DeadlineConnection, theme: str) -> None:
    """Forget that anything happened in a theme."""
    conn.execute(query("delete_history"), {"theme": theme})


def forget_old_texts(conn: DeadlineConnection, theme: str, ids: Sequence[int] | None = None) -> int:
    """Drop what memories of a theme, `ids` or all of them, said before they were replaced; returns how many texts."""
    return conn.execute(query("forget_old_texts"), {"theme": theme, "ids": None if ids is None else list(ids)}).rowcount


def old_texts(conn: DeadlineConnection, theme: str, ids: Sequence[int]) -> int:
    """How many earlier texts of these memories are kept."""
    row = conn.execute(query("count_old_texts"), {"theme": theme, "ids": list(ids)}).fetchone()
    return 0 if row is None else int(row.count)

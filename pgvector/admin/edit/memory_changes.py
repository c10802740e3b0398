"""Single memories put right, and turns forgotten, by their numbers.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from psycopg.types.json import Jsonb

from ...domain.errors import InvalidArgument
from ...store.connection import DeadlineConnection
from ...store.history import note_actor
from ...store.memories import lock_theme
from ...store.memory_edits import Entry, id_of
from ...store.sql import query


def edit(
    conn: DeadlineConnection,
    theme: str,
    old: Entry,
    content: str,
    in_files: Collection[tuple[str, str]],
    origin: str,
    who: Mapping[str, Any],
) -> bool:
    """Give a memory another text, under its number and as old as it was; False where it is not `old` any more.

    What it said is not read in again from a file that still says it. Raises InvalidArgument where another memory of
    the theme and target says the new text already.
    """
    lock_theme(conn, theme)
    check_unsaid(conn, theme, old, content)
    now = datetime.now(UTC)
    told = {
        "theme": theme, "target": old.target, "id": old.id, "at": now, "noted_at": now, "origin": origin,
        "announced": False,
    }  # fmt: skip
    kept = {key: value for key, value in who.items() if key != "verb"}
    note_actor(conn, who)
    changed = conn.execute(
        query("edit_memory"), told | {"content": content, "old_content": old.content, "metadata": Jsonb(kept)}
    ).rowcount
    if not changed:
        return False
    conn.execute(query("bury_text"), told | {"content": old.content})
    conn.execute(query("clear_tombstone"), told | {"content": content})
    if (old.target, old.content) in in_files:
        conn.execute(query("note_mirrored"), told | {"content": old.content})
    return True


def check_unsaid(conn: DeadlineConnection, theme: str, old: Entry, content: str) -> None:
    """Raise InvalidArgument where another memory than `old` of the theme and target says `content` already."""
    other = id_of(conn, theme, old.target, content)
    if other is not None and other != old.id:
        raise InvalidArgument(
            f"m{other} says that already, nothing was changed; to keep only that one: "
            f"hermes-pgvector forget m{old.id} --yes"
        )


def forget_turns(conn: DeadlineConnection, theme: str, ids: Sequence[int]) -> int:
    """Delete turns of a theme; return how many."""
    return conn.execute(query("delete_turns"), {"theme": theme, "ids": list(ids)}).rowcount


def forget_session(conn: DeadlineConnection, theme: str, session_id: str) -> int:
    """Delete the turns of a session of a theme; return how many."""
    return conn.execute(query("forget_session"), {"theme": theme, "session_id": session_id}).rowcount

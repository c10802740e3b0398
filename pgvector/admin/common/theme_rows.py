"""Whole themes: counted, moved, deleted; and the log of what was done to them.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ...store.connection import DeadlineConnection, translated
from ...store.memories import lock_theme
from ...store.sql import query
from . import history_rows

_SLICE = 1000  # rows of one statement
_LOCK_WAIT = "60s"
Advance = Callable[[int], None]


def begin(conn: DeadlineConnection) -> None:
    """Wait at most a minute for any lock, rather than for ever behind somebody's forgotten session."""
    with translated():
        conn.execute("SELECT set_config('lock_timeout', %s, true)", (_LOCK_WAIT,))


def begin_reading(conn: DeadlineConnection) -> None:
    """Make this transaction see one state of the database to its end."""
    with translated():
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")


def every_theme(conn: DeadlineConnection) -> list[dict[str, Any]]:
    """Return each theme that holds rows, with its counts and times."""
    with translated():
        return [row._asdict() for row in conn.execute(query("list_themes"))]


def counts(conn: DeadlineConnection, theme: str) -> dict[str, Any]:
    """Return what one theme holds: counts, and when its first and last row were written (None in an empty one)."""
    with translated():
        row = conn.execute(query("show_theme"), {"theme": theme}).fetchone()
    assert row is not None
    return dict(row._asdict())


def shared(conn: DeadlineConnection, theme: str, into: str) -> int:
    """Return how many memories stand in both themes."""
    with translated():
        row = conn.execute(query("count_shared_memories"), {"theme": theme, "into": into}).fetchone()
    return 0 if row is None else int(row.count)


def move(conn: DeadlineConnection, theme: str, into: str, advance: Advance) -> dict[str, int]:
    """Move everything of `theme` to `into`; a memory that both hold stays once. Returns what happened, counted.

    `advance` gets the number of rows done since its last call.
    """
    names = {"theme": theme, "into": into}
    with translated():
        turns = _in_slices(conn, "theme_turn_ids", "move_turns", names, advance)
        # Turns first: agents wait with memories of both themes from here on.
        for name in sorted((theme, into)):
            lock_theme(conn, name)
        merged = conn.execute(query("merge_shared_memories"), names).rowcount
        advance(merged)
        # Before the memories, so that each of them finds nothing left to take along.
        history_rows.move(conn, theme, into)
        memories = _in_slices(conn, "theme_memory_ids", "move_memories", names, advance)
        for statement in ("move_operations", "move_tombstones", "move_mirrored", "forget_retention"):
            conn.execute(query(statement), names)
        conn.execute(query("clear_live_tombstones"), {"theme": into})
    return {"memories": memories, "merged": merged, "turns": turns}


def delete(conn: DeadlineConnection, theme: str, advance: Advance) -> dict[str, int]:
    """Delete a theme's turns and memories, and with them what was derived of them.

    What stays are digests: of removed memories, so that no host's file brings them back.
    """
    names = {"theme": theme, "at": datetime.now(UTC)}
    with translated():
        turns = _in_slices(conn, "theme_turn_ids", "delete_turns", names, advance)
        lock_theme(conn, theme)
        memories = _in_slices(conn, "theme_memory_ids", "forget_memories", names, advance)
        history_rows.delete(conn, theme)
        conn.execute(query("forget_retention"), {"theme": theme})
    return {"memories": memories, "turns": turns}


def _in_slices(conn: DeadlineConnection, which: str, statement: str, names: Mapping[str, Any], advance: Advance) -> int:
    """Run `statement` on all rows that `which` names, those that come meanwhile included; return how many."""
    done = 0
    # The ids once and at the start: to find the next ones by the theme would be a walk over all that are done.
    while ids := _ids(conn, which, str(names["theme"])):
        for some in _slices(ids):
            conn.execute(query(statement), {**names, "ids": some})
            advance(len(some))
        done += len(ids)
    return done


def _ids(conn: DeadlineConnection, which: str, theme: str) -> list[int]:
    return [row.id for row in conn.execute(query(which), {"theme": theme})]


def _slices(ids: Sequence[int]) -> Iterator[list[int]]:
    for start in range(0, len(ids), _SLICE):
        yield list(ids[start : start + _SLICE])


def log(conn: DeadlineConnection, limit: int) -> list[dict[str, Any]]:
    """Return the last `limit` entries of the log, newest first."""
    with translated():
        return [row._asdict() for row in conn.execute(query("read_maintenance"), {"limit": limit})]


def of_home(conn: DeadlineConnection, profile: str, origin: str) -> list[str]:
    """Return the themes that the sessions of a home have written to, as far as the tables tell."""
    with translated():
        return [row.theme for row in conn.execute(query("themes_of_home"), {"profile": profile, "origin": origin})]


def of_clients(conn: DeadlineConnection) -> list[str]:
    """Return the themes that clients of the API server have named by a session key."""
    with translated():
        return [row.theme for row in conn.execute(query("themes_of_clients"))]


def homes(conn: DeadlineConnection, theme: str) -> int:
    """Return how many homes have memory files of which entries stand in the theme."""
    with translated():
        row = conn.execute(query("homes_of_theme"), {"theme": theme}).fetchone()
    return 0 if row is None else int(row.homes)

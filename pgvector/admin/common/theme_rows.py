"""Which themes exist and what they hold, as several of the operator's features need it.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...store.connection import DeadlineConnection, translated
from ...store.sql import query
from .fetching import one, where_spread

_query = partial(query, package=__package__)
_LOCK_WAIT = "60s"


def begin(conn: DeadlineConnection) -> None:
    """Limit the wait for any lock to a minute, rather than wait for ever behind somebody's forgotten session."""
    with translated():
        conn.execute("SELECT set_config('lock_timeout', %s, true)", (_LOCK_WAIT,))


def begin_reading(conn: DeadlineConnection) -> None:
    """Make this transaction see a single state of the database until its end."""
    with translated():
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")


def theme_exists(conn: DeadlineConnection, theme: str) -> bool:
    """Return whether a theme holds anything, or has a history because it once did."""
    with translated():
        return bool(one(conn, _query("theme_exists"), {"theme": theme}).found)


def every_theme(conn: DeadlineConnection) -> list[dict[str, Any]]:
    """Return each theme that holds rows, with its counts and times."""
    with translated():
        return [row._asdict() for row in conn.execute(_query("list_themes"))]


def counts(conn: DeadlineConnection, theme: str) -> dict[str, Any]:
    """Return what one theme holds: counts, and when its first and last row were written (None if it is empty)."""
    with translated():
        return dict(one(conn, _query("show_theme"), {"theme": theme})._asdict())


def note_of_files(in_files: int) -> str:
    """Return a note about memories that are deleted although memory files hold them, by how many there are."""
    return (
        f"{in_files} of the memories also stood in a MEMORY.md or USER.md when it was last read; they are not read in "
        "again, and stay in the prompts of that profile until they are removed there"
    )


def rows_in(counts: dict[str, Any]) -> int:
    """Return the number of memories and turns in a result of `counts`."""
    return sum(int(counts[name]) for name in ("memories", "user_facts", "turns"))


def of_home(conn: DeadlineConnection, profile: str, origin: str) -> list[str]:
    """Return the themes that a home's sessions have written to, as far as the tables show."""
    with translated():
        statement = _query(where_spread(conn, "themes_of_home"))
        return [row.theme for row in conn.execute(statement, {"profile": profile, "origin": origin})]


def of_clients(conn: DeadlineConnection) -> list[str]:
    """Return the themes that clients of the API server have named by a session key."""
    with translated():
        return [row.theme for row in conn.execute(_query(where_spread(conn, "themes_of_clients")))]


def homes(conn: DeadlineConnection, theme: str) -> int:
    """Return how many homes have memory files with entries in the theme."""
    with translated():
        return int(one(conn, _query("homes_of_theme"), {"theme": theme}).homes)

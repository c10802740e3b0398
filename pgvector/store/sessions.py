"""The sessions of a theme, and what was said in one. Every function works inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from ..domain.text import as_object
from ..domain.titles import title_of
from .connection import DeadlineConnection
from .sql import query

_OPENING_CHARS = 300  # of a session's first turn
_ASKED = 5  # of its first user messages, from which its title is taken
_SLICE = 500  # turns read by one statement


def sessions(
    conn: DeadlineConnection,
    theme: str,
    *,
    limit: int,
    offset: int = 0,
    since: datetime | None = None,
    until: datetime | None = None,
) -> list[dict[str, Any]]:
    """Return the sessions that have turns from `since` to before `until`, with their titles, the latest first."""
    asked = {
        "theme": theme,
        "chars": _OPENING_CHARS,
        "asked": _ASKED,
        "limit": limit,
        "offset": offset,
        "since": since.isoformat() if since else "-infinity",
        "until": until.isoformat() if until else "infinity",
    }
    return [_titled(row._asdict()) for row in conn.execute(query("list_sessions", one_theme=conn.spread), asked)]


def session(conn: DeadlineConnection, theme: str, session_id: str) -> dict[str, Any]:
    """Return the title, the times and the number of turns of a session, and the session that it continues."""
    asked = {"theme": theme, "session_id": session_id, "chars": _OPENING_CHARS, "asked": _ASKED}
    row = conn.execute(query("describe_session", one_theme=conn.spread), asked).fetchone()
    assert row is not None, "a count has a row"
    return _titled(row._asdict())


def _titled(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"title": title_of(row.pop("asked") or [row["opening"] or ""])}


def transcript(
    conn: DeadlineConnection, theme: str, session_id: str, *, limit: int | None, offset: int
) -> Iterator[dict[str, Any]]:
    """Yield the turns of a session in the order in which they were said."""
    after: dict[str, Any] = {"after_ts": "-infinity", "after_id": 0, "offset": offset}
    left = limit
    while left is None or left > 0:
        size = _SLICE if left is None else min(_SLICE, left)
        asked = {"theme": theme, "session_id": session_id, "limit": size} | after
        rows = conn.execute(query("transcript_of_session", one_theme=conn.spread), asked)
        found = [row._asdict() | {"metadata": as_object(row.metadata)} for row in rows]
        # Not the loaded time: Postgres holds times that are none in Python's calendar.
        places = [row.pop("place") for row in found]
        yield from found
        if len(found) < size:
            return
        left = None if left is None else left - len(found)
        after = {"after_ts": places[-1], "after_id": found[-1]["id"], "offset": 0}


def turn(conn: DeadlineConnection, theme: str, turn_id: int) -> dict[str, Any] | None:
    """Return one turn of a theme: session_id, role, content and ts; None where it has no such turn."""
    row = conn.execute(query("turn_of_theme"), {"theme": theme, "id": turn_id}).fetchone()
    return None if row is None else dict(row._asdict())

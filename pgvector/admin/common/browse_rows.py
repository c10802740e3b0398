"""Single rows, timelines and sessions, as an operator looks at them.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...domain.types import Store
from ...store.connection import DeadlineConnection, translated
from ...store.sql import query

_SLICE = 500  # turns of one statement
_TIMEOUT_MS = 120_000


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


@dataclass(frozen=True, slots=True)
class Filter:
    """What a listed row must be. `kind` is a memory's target or a turn's role."""

    kind: str | None = None
    session_id: str | None = None
    pending: bool = False


def begin(conn: DeadlineConnection) -> None:
    """No statement takes more than two minutes, and timelines come from their indexes, whatever statistics say."""
    with translated():
        row = {
            "statement_ms": str(_TIMEOUT_MS),
            "lock_ms": str(_TIMEOUT_MS),
            "idle_ms": "0",
            "transaction_ms": "0",
            "path": conn.path,
        }
        conn.execute(query("set_timeouts"), row)


def listed(
    conn: DeadlineConnection, store: Store, theme: str, window: Window, wanted: Filter, *, chars: int
) -> list[dict[str, Any]]:
    """Rows of a theme, newest first, of each text at most `chars` characters."""
    kind = "target" if store == "memories" else "role"
    row = {
        "theme": theme,
        kind: wanted.kind,
        "session_id": wanted.session_id,
        "pending": wanted.pending,
        "chars": chars,
    }
    with translated():
        return [found._asdict() for found in conn.execute(query(f"list_{store}"), row | window.values())]


def shown(conn: DeadlineConnection, store: Store, row_id: int) -> dict[str, Any] | None:
    """Everything that is known of one row."""
    with translated():
        name = "show_memory" if store == "memories" else "show_turn"
        row = conn.execute(query(name), {"id": row_id}).fetchone()
    return None if row is None else dict(row._asdict())


def rows(conn: DeadlineConnection, store: Store, ids: Sequence[int]) -> list[Any]:
    """Those of the rows that are there: id, theme, kind, at, content."""
    with translated():
        return conn.execute(query(f"rows_of_{store}"), {"ids": list(ids)}).fetchall()


def theme_exists(conn: DeadlineConnection, theme: str) -> bool:
    """Whether a theme holds anything, or held it and has a history."""
    with translated():
        row = conn.execute(query("theme_exists"), {"theme": theme}).fetchone()
    return bool(row and row.found)


def sessions(conn: DeadlineConnection, theme: str, window: Window, *, chars: int) -> list[dict[str, Any]]:
    """The sessions of a theme that spoke in the window, those that spoke last first."""
    with translated():
        found = conn.execute(query("list_sessions"), {"theme": theme, "chars": chars} | window.values())
        return [row._asdict() for row in found]


def session_themes(conn: DeadlineConnection, session_id: str) -> dict[str, int]:
    """The themes in which a session of that name has turns, and how many."""
    with translated():
        return {row.theme: row.turns for row in conn.execute(query("session_themes"), {"session_id": session_id})}


def transcript(
    conn: DeadlineConnection, theme: str, session_id: str, *, limit: int | None, offset: int
) -> Iterator[dict[str, Any]]:
    """The turns of a session in the order in which they were said."""
    after: dict[str, Any] = {"after_ts": "-infinity", "after_id": 0, "offset": offset}
    left = limit
    while left is None or left > 0:
        size = _SLICE if left is None else min(_SLICE, left)
        asked = {"theme": theme, "session_id": session_id, "limit": size} | after
        with translated():
            found = conn.execute(query("transcript_of_session"), asked).fetchall()
        yield from (row._asdict() for row in found)
        if len(found) < size:
            return
        left = None if left is None else left - len(found)
        after = {"after_ts": found[-1].ts.isoformat(), "after_id": found[-1].id, "offset": 0}

"""How much themes hold, how they grew day by day, and who wrote to them.

Every function works inside the caller's transaction. Counts go no further than COUNTED_ROWS a theme and table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

from ...store.connection import DeadlineConnection
from ...store.sql import query
from ..common.holdings import COUNTED_ROWS
from ..common.outcome import fit_for_json

_query = partial(query, package=__package__)
_DAYS_SHOWN = 92  # of a theme; of one that goes on for longer, months are


def theme_sizes(conn: DeadlineConnection, themes: Sequence[str]) -> list[dict[str, Any]]:
    """Return memories, turns and the last time of each theme, in this order."""
    found = conn.execute(_query("theme_sizes"), {"themes": list(themes), "most": COUNTED_ROWS})
    return [fit_for_json(row._asdict()) for row in found]


def largest_themes(conn: DeadlineConnection, limit: int) -> list[str]:
    """Return the themes that hold the most rows."""
    return [row.theme for row in conn.execute(_query("largest_themes"), {"limit": limit})]


def growth(conn: DeadlineConnection, days: int) -> list[dict[str, Any]]:
    """Return how many memories and turns each of the last `days` days has, by the rows' own times, in UTC."""
    today = datetime.now(UTC).date()
    first = today - timedelta(days=days - 1)
    found = conn.execute(_query("growth"), {"since": f"{first}T00:00:00+00:00", "most": COUNTED_ROWS})
    by_day = {row.day: (row.memories, row.turns) for row in found}
    return [
        {"day": str(day), "memories": memories, "turns": turns}
        for day in _days(first, today)
        for memories, turns in [by_day.get(day, (0, 0))]
    ]


def _days(first: date, last: date) -> Iterator[date]:
    for number in range((last - first).days + 1):
        yield first + timedelta(days=number)


def timeline(conn: DeadlineConnection, theme: str, first_at: datetime, last_at: datetime) -> list[dict[str, Any]]:
    """Return how many memories and turns each day has, or each month, that has any."""
    unit, form = ("month", "YYYY-MM") if (last_at - first_at).days > _DAYS_SHOWN else ("day", "YYYY-MM-DD")
    found = conn.execute(_query("timeline"), {"theme": theme, "form": form})
    return [{unit: row.name, "memories": row.memories, "turns": row.turns} for row in found]


def writers(conn: DeadlineConnection, theme: str) -> list[dict[str, Any]]:
    """Return who wrote the newest rows of a theme, those who wrote last first."""
    return [
        fit_for_json(row._asdict()) for row in conn.execute(_query("writers"), {"theme": theme, "most": COUNTED_ROWS})
    ]


def has_facts(conn: DeadlineConnection, theme: str) -> bool:
    """Return whether a memory of the theme says what it is about."""
    row = conn.execute(_query("has_facts"), {"theme": theme}).fetchone()
    return bool(row and row.found)

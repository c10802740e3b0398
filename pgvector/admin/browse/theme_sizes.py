"""How much themes hold, how they grew day by day, and who wrote to them.

Every function works inside the caller's transaction. Above COUNTED_ROWS in a table, counts are estimates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

from ...domain.types import Scope
from ...store.connection import DeadlineConnection
from ...store.sql import query
from ...store.vectors import STORES
from ..common.fetching import one, where_spread
from ..common.holdings import COUNTED_ROWS, planned
from ..common.outcome import fit_for_json

_query = partial(query, package=__package__)
_DAYS_SHOWN = 92  # of a theme; if it spans more days, months are shown


def theme_sizes(conn: DeadlineConnection, themes: Sequence[str]) -> list[dict[str, Any]]:
    """Return memories, turns and the last time of each theme, in this order; `about` names the estimates."""
    if conn.spread:
        return [{"theme": theme, "about": []} | described(conn, theme) for theme in themes]
    found = conn.execute(_query("theme_sizes"), {"themes": list(themes), "most": COUNTED_ROWS + 1}).fetchall()
    return [_estimated(conn, fit_for_json(row._asdict())) for row in found]


def _estimated(conn: DeadlineConnection, sizes: dict[str, Any]) -> dict[str, Any]:
    about = [store for store in STORES if sizes[store] > COUNTED_ROWS]
    estimates = {store: max(sizes[store], planned(conn, store, Scope("theme", sizes["theme"]))) for store in about}
    return sizes | estimates | {"about": about}


def largest_themes(conn: DeadlineConnection, limit: int, *, counted_rows: int = 2_000_000) -> list[str]:
    """Return the themes with the most rows; in tables of more than `counted_rows`, by the planner's statistics."""
    likely = []
    if not conn.spread and any(planned(conn, store, Scope("all", "")) > counted_rows for store in STORES):
        likely = conn.execute(_query("likely_largest_themes"), {"limit": limit}).fetchall()
    found = likely or conn.execute(_query("largest_themes"), {"limit": limit}).fetchall()
    return [row.theme for row in found]


def growth(conn: DeadlineConnection, days: int) -> list[dict[str, Any]]:
    """Return how many memories and turns each of the last `days` days has, by the rows' own times, in UTC."""
    today = datetime.now(UTC).date()
    first = today - timedelta(days=days - 1)
    since = {"since": f"{first}T00:00:00+00:00"}
    found = conn.execute(_query(where_spread(conn, "growth")), since)
    by_day = {row.day: (row.memories, row.turns) for row in found}
    return [
        {"day": str(day), "memories": memories, "turns": turns}
        for day in _days(first, today)
        for memories, turns in [by_day.get(day, (0, 0))]
    ]


def _days(first: date, last: date) -> Iterator[date]:
    for number in range((last - first).days + 1):
        yield first + timedelta(days=number)


def described(conn: DeadlineConnection, theme: str) -> dict[str, Any]:
    """Return what a theme holds, its first and last time, and whether any memory has a state or is pinned (`facts`)."""
    return fit_for_json(one(conn, _query("describe_theme"), {"theme": theme})._asdict())


def timeline(conn: DeadlineConnection, theme: str) -> list[dict[str, Any]]:
    """Return the number of memories and turns of each day that has any, in UTC; of each month over a long time."""
    days = conn.execute(_query("theme_by_day"), {"theme": theme}).fetchall()
    if not days or (days[-1].day - days[0].day).days <= _DAYS_SHOWN:
        return [{"day": str(row.day), "memories": row.memories, "turns": row.turns} for row in days]
    months: dict[str, dict[str, Any]] = {}
    for row in days:
        name = f"{row.day:%Y-%m}"
        month = months.setdefault(name, {"month": name, "memories": 0, "turns": 0})
        month["memories"] += row.memories
        month["turns"] += row.turns
    return list(months.values())


def sessions(conn: DeadlineConnection, theme: str) -> int:
    """Return the number of sessions of a theme, which reads each of its turns."""
    return int(one(conn, _query("theme_sessions"), {"theme": theme}).sessions)


def writers(conn: DeadlineConnection, theme: str) -> list[dict[str, Any]]:
    """Return who wrote the newest rows of a theme, the most recent writers first."""
    found = conn.execute(_query("writers"), {"theme": theme, "most": COUNTED_ROWS})
    return [fit_for_json(row._asdict()) for row in found]

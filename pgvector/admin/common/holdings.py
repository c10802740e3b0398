"""Counts and sizes of the database, fast enough to ask for every few seconds, whatever the size of the tables."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...domain.types import Scope, Store
from ...store.connection import DeadlineConnection, translated
from ...store.pipeline import Pipeline
from ...store.sql import query
from ...store.vector_search import ask_estimate, planned_rows
from ...store.vectors import STORES
from .fetching import one, where_spread

_query = partial(query, package=__package__)
COUNTED_ROWS = 50_000  # of a table or pending, counted exactly in some 10 ms; higher counts are estimates
COUNTED_THEMES = 10_000
_PENDING = {"memories": "memory_entries_pending_idx", "turns": "conversations_pending_idx"}


def holdings(conn: DeadlineConnection) -> dict[str, Any]:
    """Return counts of rows, of rows waiting for a vector and of themes, growth by the rows' own times, and bytes.

    `about` names the numbers that are estimates: rows from the planner's statistics, pending rows from the catalogue's.
    A database distributed over machines counts everything, because its statistics cover only its parts.
    """
    with translated():
        totals, about = counts(conn)
        grown = one(
            conn, _query(where_spread(conn, "recent_growth")), {"themes": COUNTED_THEMES + 1, "most": COUNTED_ROWS}
        )
        if not conn.spread and grown.themes > COUNTED_THEMES:
            about |= {"themes", *(name for name in grown._fields if name.endswith(("_day", "_week")))}
        size = int(one(conn, _query("database_bytes"), {}).bytes)
        tables = [table._asdict() for table in conn.execute(_query(where_spread(conn, "relation_sizes")))]
    return {**totals, **grown._asdict()} | {"database_bytes": size, "tables": tables, "about": sorted(about)}


def counts(conn: DeadlineConnection) -> tuple[dict[str, int], set[str]]:
    """Return the numbers of rows and of pending rows, and the names of those that are estimates."""
    if conn.spread:
        return one(conn, _query("count_some"), {"most": None})._asdict(), set()
    found: dict[str, int] = one(conn, _query("count_some"), {"most": COUNTED_ROWS + 1})._asdict()
    about = {name for name, count in found.items() if count > COUNTED_ROWS}
    for store in STORES:
        if store in about:
            found[store] = max(found[store], planned(conn, store, Scope("all", "")))
        if (pending := f"pending_{store}") in about:
            found[pending] = max(
                found[pending], int(one(conn, _query("partial_index_rows"), {"name": _PENDING[store]}).rows)
            )
    return found, about


def planned(conn: DeadlineConnection, store: Store, scope: Scope) -> int:
    """Return how many rows there are by the planner's statistics."""
    return round(planned_rows(ask_estimate(Pipeline(conn), store, scope)))


def pending(conn: DeadlineConnection) -> tuple[int, bool]:
    """Return how many rows visible to this role wait for a vector, at most COUNTED_ROWS, and whether there are more."""
    with translated():
        row = one(conn, _query("count_some"), {"most": COUNTED_ROWS + 1})
    count = row.pending_memories + row.pending_turns
    return min(count, COUNTED_ROWS), count > COUNTED_ROWS


def held_removals(conn: DeadlineConnection) -> list[Any]:
    """Return the removals that wait, for each file: origin, target, held_why, count, held_at of the oldest."""
    return conn.execute(_query("count_held_removals")).fetchall()

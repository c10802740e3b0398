"""Whole tables as they stand, for tests of what a change leaves alone and what an undo brings back."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import dict_row

TABLES = (
    "memory_entries", "conversations", "memory_history", "hermes_tombstones", "hermes_mirror", "hermes_maintenance",
)  # fmt: skip
_MARKS = ("hermes_tombstones", "hermes_mirror")  # which no two columns put in order
_VECTORS = ("embedding", "sig", "code", "embed_after", "tsv")


def rows(dsn: str, table: str = "memory_entries") -> list[dict[str, Any]]:
    """Every row of a table, without its vectors."""
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as conn:
        found = conn.execute(f"SELECT * FROM {table} ORDER BY 1, 2".encode()).fetchall()
    shown = [{name: value for name, value in row.items() if name not in _VECTORS} for row in found]
    return sorted(shown, key=str) if table in _MARKS else shown


def everything(dsn: str) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table that a change may touch."""
    return {table: rows(dsn, table) for table in TABLES}


def standing(dsn: str) -> dict[str, list[dict[str, Any]]]:
    """What stands there: memories, turns and what is noted of their texts, without what the logs say of it."""
    return {table: rows(dsn, table) for table in TABLES if table not in ("memory_history", "hermes_maintenance")}


def kept_texts(dsn: str) -> list[str]:
    """What the history keeps of earlier texts."""
    return sorted(row["old_content"] for row in rows(dsn, "memory_history") if row["old_content"] is not None)

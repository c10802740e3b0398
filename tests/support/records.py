"""Rows for tests of moving: written past the agent, with times of their own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

START = datetime(2025, 3, 1, 9, 30, 0, 123456, UTC)


def fill_theme(
    dsn: str, theme: str, *, memories: int = 2, turns: int = 4, dims: int = 0, prefix: str = "Atlas", model: str = ""
) -> None:
    """Insert numbered memories and turns, an hour apart; with `dims` each has a vector of so many floats."""
    with psycopg.connect(dsn) as conn:
        if model:
            conn.execute("UPDATE hermes_embedding SET model = %s", (model,))
        # All in one go: a round trip for each row takes most of some tests' time.
        conn.cursor().executemany(
            "INSERT INTO memory_entries (agent_identity, target, content, created_at, updated_at, embedding,"
            " metadata) VALUES (%s, %s, %s, %s, %s, %s, %s)",
            [
                (
                    theme, ("memory", "user")[number % 2], f"{prefix} fact {number} of {theme} — 日本\n§ \"x\"", at,
                    at + timedelta(days=1), _vector(number, dims), '{"source": "tool", "session_id": "s-1"}',
                )
                for number in range(memories)
                for at in [START + timedelta(hours=number)]
            ],
        )  # fmt: skip
        conn.cursor().executemany(
            "INSERT INTO conversations (session_id, agent_identity, role, content, ts, embedding, metadata)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            [
                (
                    f"s-{number // 4}", theme, ("user", "assistant")[number % 2],
                    f"{prefix} turn {number} of {theme}, said at length", START + timedelta(hours=number // 2),
                    _vector(number, dims), '{"platform": "cli"}',
                )
                for number in range(turns)
            ],
        )  # fmt: skip


def _vector(number: int, dims: int) -> str | None:
    if not dims:
        return None
    return str([round(1.0 / (1 + (number + each) % 7), 6) for each in range(dims)])


def all_rows(dsn: str, *, vectors: bool = False) -> Sequence[Any]:
    """Everything that both tables hold but for numbers of rows, in a fixed order."""
    more = ", embedding::text" if vectors else ""
    with psycopg.connect(dsn) as conn:
        memories = conn.execute(
            "SELECT 'memory', agent_identity, target, content, created_at, updated_at, metadata"
            + more
            + " FROM memory_entries ORDER BY 2, 3, 4"
        ).fetchall()
        turns = conn.execute(
            "SELECT 'turn', agent_identity, session_id, role, content, ts, metadata"
            + more
            + " FROM conversations ORDER BY 2, 3, 6, 4, 5"
        ).fetchall()
    return [*memories, *turns]

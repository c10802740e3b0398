"""Rows that were written long ago."""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg


def in_order(days: int, place: int) -> float:
    """How many days old the text at `place` of some is that were written in order on one day, by UTC, `days` ago."""
    begin = 0.02 if datetime.now(UTC).hour >= 12 else 0.0  # the day ends or began soon
    return days + begin - place / 1000


def age(dsn: str, content: str, *, days: float) -> None:
    """Make every row with this content `days` days old, counted from now."""
    with psycopg.connect(dsn) as connection:
        moved = sum(
            connection.execute(statement, {"days": days, "content": content}).rowcount
            for statement in (
                "UPDATE conversations SET ts = now() - %(days)s * interval '1 day' WHERE content = %(content)s",
                "UPDATE memory_entries SET created_at = now() - %(days)s * interval '1 day',"
                " updated_at = now() - %(days)s * interval '1 day' WHERE content = %(content)s",
            )
        )
    assert moved, f"no row holds {content!r}"

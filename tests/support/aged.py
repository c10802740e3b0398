"""Rows that were written long ago."""

from __future__ import annotations

import psycopg


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

"""Writes of turns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pgvector import Vector
from psycopg.types.json import Jsonb

from ..domain.models import Operation
from .connection import DeadlineConnection
from .sql import query


def insert_turns(conn: DeadlineConnection, ops: Sequence[Operation], embeddings: dict[str, list[float]]) -> int:
    """Insert every message of these turns, in order, in one pipeline; returns how many."""
    rows = [
        {
            "session_id": op.payload["session_id"],
            "theme": op.theme,
            "role": message["role"],
            "content": message["content"],
            "at": datetime.fromtimestamp(op.at, UTC),
            "embedding": Vector(vector) if (vector := embeddings.get(message["content"])) else None,
            "metadata": Jsonb(op.payload["metadata"]),
        }
        for op in ops
        for message in op.payload["messages"]
    ]
    if rows:
        with conn.cursor() as cursor:
            cursor.executemany(query("insert_turn"), rows)
    return len(rows)

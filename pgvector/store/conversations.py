"""Writes of turns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pgvector import Vector
from psycopg.types.json import Jsonb

from ..domain.models import Operation
from ..domain.pace import paced
from .connection import DeadlineConnection
from .sql import query

_SLICE = 16  # rows sent between two breaths
_TYPES = ("text", "text", "text", "text", "timestamptz", "vector", "jsonb")


def insert_turns(conn: DeadlineConnection, ops: Sequence[Operation], embeddings: dict[str, list[float]]) -> int:
    """Insert every message of these turns, in order, by one COPY; returns how many."""
    rows = [(op, message) for op in ops for message in op.payload["messages"]]
    if not rows:
        return 0
    with conn.cursor() as cursor, cursor.copy(query("copy_turns")) as copy:
        copy.set_types(_TYPES)
        for op, message in paced(rows, _SLICE):
            vector = embeddings.get(message["content"])
            copy.write_row(
                (
                    op.payload["session_id"],
                    op.theme,
                    message["role"],
                    message["content"],
                    datetime.fromtimestamp(op.at, UTC),
                    None if vector is None else Vector(vector),
                    Jsonb(op.payload["metadata"]),
                )
            )
    return len(rows)

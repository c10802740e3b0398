"""Writes of turns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pgvector import Vector
from psycopg.types.json import Jsonb

from ..domain.gil import yielding_gil
from ..domain.languages import Languages
from ..domain.types import Operation
from .connection import DeadlineConnection
from .sql import query

_TYPES = ("text", "text", "text", "text", "timestamptz", "vector", "jsonb", "text")


def insert_turns(
    conn: DeadlineConnection, ops: Sequence[Operation], embeddings: dict[str, list[float]], languages: Languages
) -> int:
    """Insert every message of these turns, in order; returns how many.

    By one COPY, or where row-level security forbids that, by one INSERT.
    """
    rows = [(op, message) for op in ops for message in op.payload["messages"]]
    if not rows:
        return 0
    if conn.row_security:
        made = [_row(*each, embeddings, languages) for each in yielding_gil(rows)]
        columns: dict[str, Any] = {name: [row[name] for row in made] for name in made[0]}
        if not any(vector is not None for vector in columns["embedding"]):
            columns["embedding"] = None  # of nothing but NULL no binary array can be made
        conn.execute(query("insert_turns"), columns)
        return len(rows)
    with conn.cursor() as cursor, cursor.copy(query("copy_turns")) as copy:
        copy.set_types(_TYPES)
        for op, message in yielding_gil(rows):
            copy.write_row(tuple(_row(op, message, embeddings, languages).values()))
    return len(rows)


def undo_turns(conn: DeadlineConnection, op: Operation) -> int:
    """Delete the turns that an `undo` names, and see to it that none of them is stored later; returns how many rows."""
    op_ids = op.payload["op_ids"]
    conn.execute(query("claim_operations"), {"themes": [op.theme] * len(op_ids), "op_ids": op_ids})
    since, until = zip(*op.payload["spans"], strict=True) if op.payload["spans"] else ((), ())
    spans = {"since": [_at(each) for each in since], "until": [_at(each) for each in until]}
    return conn.execute(
        query("undo_turns"), {"theme": op.theme, "session_id": op.payload["session_id"]} | spans
    ).rowcount


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _row(
    op: Operation, message: dict[str, Any], embeddings: dict[str, list[float]], languages: Languages
) -> dict[str, Any]:
    """The values of one row by name, in the order of copy_turns."""
    vector = embeddings.get(message["content"])
    return {
        "session_id": op.payload["session_id"],
        "theme": op.theme,
        "role": message["role"],
        "content": message["content"],
        "at": _at(op.at),
        "embedding": None if vector is None else Vector(vector),
        "metadata": Jsonb(op.payload["metadata"]),
        "language": languages.of(op.theme),
    }

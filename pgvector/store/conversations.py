"""Writes of turns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pgvector import Vector
from psycopg.types.json import Jsonb

from ..domain.gil import yielding_gil
from ..domain.operations import Message, StoreTurn, UndoTurns
from ..domain.theme_settings import Languages
from .connection import DeadlineConnection
from .sql import query

_TYPES = ("text", "text", "text", "text", "timestamptz", "vector", "jsonb", "text")
_Row = dict[str, object]


def insert_turns(
    conn: DeadlineConnection, ops: Sequence[StoreTurn], embeddings: dict[str, list[float]], languages: Languages
) -> int:
    """Insert every message of these turns, in order; return how many.

    By one COPY, or where row-level security forbids that, by one INSERT.
    """
    said = [(op, message) for op in ops for message in op.messages]
    rows = (_row(op, message, embeddings, languages) for op, message in yielding_gil(said))
    if said and conn.row_security:
        _insert(conn, list(rows))
    elif said:
        with conn.cursor() as cursor, cursor.copy(query("copy_turns")) as copy:
            copy.set_types(_TYPES)
            for row in rows:
                copy.write_row(tuple(row.values()))
    return len(said)


def _insert(conn: DeadlineConnection, rows: Sequence[_Row]) -> None:
    columns: dict[str, list[Any] | None] = {name: [row[name] for row in rows] for name in rows[0]}
    if all(row["embedding"] is None for row in rows):
        columns["embedding"] = None  # of nothing but NULL no binary array can be made
    conn.execute(query("insert_turns"), columns)


def undo_turns(conn: DeadlineConnection, op: UndoTurns) -> int:
    """Delete the turns that the operation names, and keep them from being stored later; return how many rows."""
    conn.execute(query("claim_operations"), {"themes": [op.theme] * len(op.op_ids), "op_ids": list(op.op_ids)})
    spans = {"since": [_at(since) for since, _ in op.spans], "until": [_at(until) for _, until in op.spans]}
    return conn.execute(query("undo_turns"), {"theme": op.theme, "session_id": op.session_id} | spans).rowcount


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _row(op: StoreTurn, message: Message, embeddings: dict[str, list[float]], languages: Languages) -> _Row:
    """Return the values of one row by name, in the order of copy_turns."""
    vector = embeddings.get(message.content)
    return {
        "session_id": op.session_id,
        "theme": op.theme,
        "role": message.role,
        "content": message.content,
        "at": _at(op.at),
        "embedding": None if vector is None else Vector(vector),
        "metadata": Jsonb(op.metadata),
        "language": languages.of(op.theme),
    }

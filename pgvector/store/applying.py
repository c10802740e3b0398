"""Applies operations to the tables, within one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any
from uuid import UUID

from pgvector import Vector
from psycopg.types.json import Jsonb

from ..domain.gil import yielding_gil
from ..domain.operations import (
    AddMemory,
    FileOperation,
    ForgetMemories,
    MemoryOperation,
    Message,
    Operation,
    ReconcileFile,
    RememberMemory,
    RemoveMemory,
    ReplaceMemory,
    StoreTurn,
    TurnOperation,
    UndoTurns,
)
from ..domain.theme import Languages
from .connection import DeadlineConnection, pipelined
from .memories import Embeddings, MemoryWriter, forget_old_texts, lock_homes, lock_theme, lock_themes, note_actor
from .memory_files import LONG, import_ahead, reconcile
from .replays import forget_again, forgotten_since, remove_again, stored_turns, without_dropped
from .sql import query

_TURN_TYPES = ("text", "text", "text", "text", "timestamptz", "vector", "jsonb", "text")
_Row = dict[str, object]


def claim(conn: DeadlineConnection, ops: Sequence[Operation]) -> list[Operation]:
    """Record the ids of operations; return the operations that were never applied before, each once."""
    fresh = {row.op_id for row in conn.execute(query("claim_operations"), _ids_of(ops))}
    fresh -= stored_turns(conn, [op for op in ops if op.op_id in fresh]) | _undone_before(ops)
    return list({op.op_id: op for op in ops if op.op_id in fresh}.values())


def seen(conn: DeadlineConnection, ops: Sequence[Operation]) -> list[Operation]:
    """Return the operations whose themes row-level security does not hide from this role."""
    if not any(row.confined for row in conn.execute(query("is_confined"))):
        return list(ops)
    themes = {row.theme for row in conn.execute(query("themes_of_role"))}
    return [op for op in ops if op.theme in themes or "*" in themes]


def lacking(conn: DeadlineConnection, ops: Sequence[Operation]) -> set[UUID]:
    """Return the ids of those operations that were never applied in this database."""
    applied = {row.op_id for row in conn.execute(query("applied_operations"), _ids_of(ops))}
    return {op.op_id for op in ops} - applied


def _ids_of(ops: Sequence[Operation]) -> dict[str, object]:
    return {"themes": [op.theme for op in ops], "op_ids": [op.op_id for op in ops]}


def _undone_before(ops: Sequence[Operation]) -> set[UUID]:
    """Return the ids of operations that come after the one that undoes them, as turns do that an operator retries."""
    undone: set[UUID] = set()
    found: set[UUID] = set()
    for op in ops:
        if isinstance(op, UndoTurns):
            undone.update(op.op_ids)
        elif op.op_id in undone:
            found.add(op.op_id)
    return found


def cut_at_long_files(ops: Sequence[Operation]) -> Iterator[list[Operation]]:
    """Yield the operations in their order, in lists that are split before each reading of a long file."""
    some: list[Operation] = []
    for op in ops:
        if some and _is_long(op):
            yield some
            some = []
        some.append(op)
    yield some


def _is_long(op: Operation) -> bool:
    return isinstance(op, ReconcileFile) and len(op.contents) > LONG


def apply_ahead(
    conn: DeadlineConnection,
    ops: Sequence[Operation],
    embeddings: Embeddings,
    languages: Languages,
    counts: Counter[str],
    *,
    keep_removed: bool,
) -> bool:
    """Import a part of the long file with which `ops` begin; return False if there is none, or little of it is left."""
    first = ops[0] if ops else None
    if not isinstance(first, ReconcileFile) or not _is_long(first):
        return False
    if not lacking(conn, [first]):
        return False  # what an older reading held must not come back
    write = MemoryWriter(conn, embeddings, languages, counts)
    lock_theme(conn, first.theme)
    with pipelined(conn):
        note_actor(conn, first.metadata, origin=first.origin, keep_removed=keep_removed)
        return import_ahead(write, first)


def apply_operations(
    conn: DeadlineConnection,
    ops: Sequence[Operation],
    embeddings: Embeddings,
    languages: Languages,
    *,
    keep_removed: bool,
) -> Counter[str]:
    """Apply the operations in their order; return counts of what happened.

    `keep_removed`: a memory that its file dropped can be restored, and the earlier texts of a memory can be read.
    """
    counts: Counter[str] = Counter()
    # Before any theme is locked: nothing ends a COPY whose client was stopped in the middle of it.
    _apply_turns(conn, [op for op in ops if isinstance(op, TurnOperation)], embeddings, languages, counts)
    write = MemoryWriter(conn, embeddings, languages, counts)
    _apply_memories(write, [op for op in ops if not isinstance(op, TurnOperation)], keep_removed=keep_removed)
    return counts


def _apply_turns(
    conn: DeadlineConnection,
    ops: Sequence[TurnOperation],
    embeddings: Embeddings,
    languages: Languages,
    counts: Counter[str],
) -> None:
    """Insert turns, as many at once as have no undo between them."""
    for _, group in groupby(ops, type):
        some = list(group)
        counts["turn_rows"] += _insert_turns(
            conn, [op for op in some if isinstance(op, StoreTurn)], embeddings, languages
        )
        counts["turns_undone"] += sum(_undo_turns(conn, op) for op in some if isinstance(op, UndoTurns))


def _apply_memories(write: MemoryWriter, ops: Sequence[Operation], *, keep_removed: bool) -> None:
    lock_themes(write.conn, (op.theme for op in ops))
    lock_homes(write.conn, (op.origin for op in ops if isinstance(op, FileOperation)))
    left = without_dropped(write.conn, ops)
    write.counts["memories_kept_removed"] += len(ops) - len(left)
    with pipelined(write.conn):
        for op in left:
            _apply_memory(write, op, keep_removed=keep_removed)
    if not keep_removed:
        for theme in sorted({op.theme for op in ops if isinstance(op, ReplaceMemory)}):
            forget_old_texts(write.conn, theme)


def _apply_memory(write: MemoryWriter, op: Operation, *, keep_removed: bool) -> None:
    if isinstance(op, ForgetMemories):
        write.counts["memories_removed_again"] += forget_again(write.conn, op)
    elif isinstance(op, MemoryOperation):
        forgotten = forgotten_since(write.conn, op)
        _write_memory(write, op, keep_removed=keep_removed)
        if forgotten:
            who = op.who if isinstance(op, RememberMemory) else {}
            write.counts["memories_removed_again"] += remove_again(write.conn, who, forgotten)


def _write_memory(write: MemoryWriter, op: MemoryOperation, *, keep_removed: bool) -> None:
    who = op.who if isinstance(op, RememberMemory) and op.who else op.metadata
    origin = op.origin if isinstance(op, FileOperation) else ""
    if isinstance(op, AddMemory | ReplaceMemory):
        # No file removed what moves to its writer's theme so, and its text stays in no other theme's history.
        note_actor(write.conn, who, origin=origin)
        write.take_over(op)
    note_actor(write.conn, who, origin=origin, keep_removed=keep_removed)
    match op:
        case AddMemory():
            write.add(op)
        case RememberMemory():
            write.remember(op)
        case ReplaceMemory():
            write.replace(op)
        case RemoveMemory():
            write.remove(op)
        case ReconcileFile():
            reconcile(write, op)


def _insert_turns(
    conn: DeadlineConnection, ops: Sequence[StoreTurn], embeddings: Embeddings, languages: Languages
) -> int:
    """Insert every message of these turns, in order; return how many.

    It uses one COPY or, where row-level security forbids that, one INSERT.
    """
    said = [(op, message) for op in ops for message in op.messages]
    rows = (_row(op, message, embeddings, languages) for op, message in yielding_gil(said))
    if said and conn.row_security:
        _insert(conn, list(rows))
    elif said:
        with conn.cursor() as cursor, cursor.copy(query("copy_turns")) as copy:
            copy.set_types(_TURN_TYPES)
            for row in rows:
                copy.write_row(tuple(row.values()))
    return len(said)


def _insert(conn: DeadlineConnection, rows: Sequence[_Row]) -> None:
    columns: dict[str, list[Any] | None] = {name: [row[name] for row in rows] for name in rows[0]}
    if all(row["embedding"] is None for row in rows):
        columns["embedding"] = None  # no binary array can be made of nothing but NULL
    conn.execute(query("insert_turns"), columns)


def _undo_turns(conn: DeadlineConnection, op: UndoTurns) -> int:
    """Delete the turns that the operation names, and keep them from being stored later; return how many rows."""
    conn.execute(query("claim_operations"), {"themes": [op.theme] * len(op.op_ids), "op_ids": list(op.op_ids)})
    spans = {"since": [_at(since) for since, _ in op.spans], "until": [_at(until) for _, until in op.spans]}
    return conn.execute(query("undo_turns"), {"theme": op.theme, "session_id": op.session_id} | spans).rowcount


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _row(op: StoreTurn, message: Message, embeddings: Embeddings, languages: Languages) -> _Row:
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

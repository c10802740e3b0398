"""Applies operations to the tables, within one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any
from uuid import UUID

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
from .connection import DeadlineConnection, pipelined
from .memories import StoreWriter, forget_old_texts, lock_homes, lock_theme, lock_themes, note_actor
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


def apply_ahead(write: StoreWriter, ops: Sequence[Operation]) -> bool:
    """Import a part of the long file with which `ops` begin; return False if there is none, or little of it is left."""
    first = ops[0] if ops else None
    if not isinstance(first, ReconcileFile) or not _is_long(first):
        return False
    if not lacking(write.conn, [first]):
        return False  # what an older reading held must not come back
    lock_theme(write.conn, first.theme)
    with pipelined(write.conn):
        write.note_actor(first.metadata, first.origin)
        return import_ahead(write, first)


def apply_operations(write: StoreWriter, ops: Sequence[Operation]) -> None:
    """Apply the operations in their order."""
    # Before any theme is locked: nothing ends a COPY whose client was stopped in the middle of it.
    _apply_turns(write, [op for op in ops if isinstance(op, TurnOperation)])
    _apply_memories(write, [op for op in ops if not isinstance(op, TurnOperation)])


def _apply_turns(write: StoreWriter, ops: Sequence[TurnOperation]) -> None:
    """Insert turns, as many at once as have no undo between them."""
    for _, group in groupby(ops, type):
        some = list(group)
        write.counts["turn_rows"] += _insert_turns(write, [op for op in some if isinstance(op, StoreTurn)])
        write.counts["turns_undone"] += sum(_undo_turns(write.conn, op) for op in some if isinstance(op, UndoTurns))


def _apply_memories(write: StoreWriter, ops: Sequence[Operation]) -> None:
    lock_themes(write.conn, (op.theme for op in ops))
    lock_homes(write.conn, (op.origin for op in ops if isinstance(op, FileOperation)))
    left = without_dropped(write.conn, ops)
    write.counts["memories_kept_removed"] += len(ops) - len(left)
    with pipelined(write.conn):
        for op in left:
            _apply_memory(write, op)
    if not write.keep_removed:
        for theme in sorted({op.theme for op in ops if isinstance(op, ReplaceMemory)}):
            forget_old_texts(write.conn, theme)


def _apply_memory(write: StoreWriter, op: Operation) -> None:
    if isinstance(op, ForgetMemories):
        write.counts["memories_removed_again"] += forget_again(write.conn, op)
    elif isinstance(op, MemoryOperation):
        forgotten = forgotten_since(write.conn, op)
        _write_memory(write, op)
        if forgotten:
            who = op.who if isinstance(op, RememberMemory) else {}
            write.counts["memories_removed_again"] += remove_again(write.conn, who, forgotten)


def _write_memory(write: StoreWriter, op: MemoryOperation) -> None:
    who = op.who if isinstance(op, RememberMemory) and op.who else op.metadata
    origin = op.origin if isinstance(op, FileOperation) else ""
    if isinstance(op, AddMemory | ReplaceMemory):
        # No file removed what moves to its writer's theme so, and its text stays in no other theme's history.
        note_actor(write.conn, who, origin=origin)
        write.take_over(op)
    write.note_actor(who, origin)
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


def _insert_turns(write: StoreWriter, ops: Sequence[StoreTurn]) -> int:
    """Insert every message of these turns, in order; return how many.

    It uses one COPY or, where row-level security forbids that, one INSERT.
    """
    said = [(op, message) for op in ops for message in op.messages]
    rows = (_row(write, op, message) for op, message in yielding_gil(said))
    if said and write.conn.row_security:
        _insert(write.conn, list(rows))
    elif said:
        with write.conn.cursor() as cursor, cursor.copy(query("copy_turns")) as copy:
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


def _row(write: StoreWriter, op: StoreTurn, message: Message) -> _Row:
    """Return the values of one row by name, in the order of copy_turns."""
    return {
        "session_id": op.session_id,
        "theme": op.theme,
        "role": message.role,
        "content": message.content,
        "at": _at(op.at),
        "embedding": write.vector_of(message.content),
        "metadata": Jsonb(op.metadata),
        "language": write.languages.of(op.theme),
    }

"""Protection against late and resent writes, which would duplicate a row or bring back what was forgotten since.

What was removed for good is recorded by its digest. Every function works inside the caller's transaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from ..domain.operations import (
    AddMemory,
    FileOperation,
    ForgetMemories,
    Metadata,
    Operation,
    RememberMemory,
    ReplaceMemory,
    StoreTurn,
)
from ..domain.text import digest
from ..domain.types import Removed
from .connection import DeadlineConnection
from .memories import lock_theme, note_actor
from .sql import query

OPERATIONS_KEPT_DAYS = 30  # how long the database knows which operations it has applied
_LATE_S = (OPERATIONS_KEPT_DAYS - 1) * 86400.0  # a day less, for clocks that differ
_WAITED_S = 600.0  # a write that waited for longer may be older than what others have done since


def _is_late(op: Operation) -> bool:
    """Return whether the database may have forgotten that it has applied `op`, which a spool may hold for ever."""
    return op.at < time.time() - _LATE_S


def _at(op: Operation) -> datetime:
    return datetime.fromtimestamp(op.at, UTC)


def stored_turns(conn: DeadlineConnection, ops: Sequence[Operation]) -> set[UUID]:
    """Return the ids of those late or resent turns that are in the table already, by session, time and text."""
    late = [op for op in ops if isinstance(op, StoreTurn) and (op.again or _is_late(op))]
    if not late:
        return set()
    columns = zip(
        *((op.theme, op.session_id, _at(op), digest(op.messages[0].content), op.op_id) for op in late), strict=True
    )
    asked = dict(zip(("themes", "sessions", "times", "digests", "op_ids"), map(list, columns), strict=True))
    return {row.op_id for row in conn.execute(query("stored_turns"), asked)}


def forgotten_since(conn: DeadlineConnection, op: Operation) -> list[Removed]:
    """Return the removals of the text that `op` stores, of those made after `op` was accepted.

    Only writes that are resent or waited long are checked, because the clocks of two hosts may differ. A write by an
    operator never waits, and its time may be that of a turn from which the text was taken.
    """
    by_operator = isinstance(op, RememberMemory) and bool(op.who)
    waited = op.at < time.time() - _WAITED_S and not by_operator
    if not isinstance(op, AddMemory | RememberMemory | ReplaceMemory) or not (op.again or waited):
        return []
    asked = {
        "theme": op.theme,
        "target": op.target,
        "digest": digest(op.content),
        "at": _at(op),
        "origin": op.origin if isinstance(op, FileOperation) else None,
        "noted_at": datetime.fromtimestamp(op.noted_at, UTC) if isinstance(op, FileOperation) else None,
    }
    found = conn.execute(query("forgotten_since"), asked)
    return [Removed(op.theme, row.target, bytes(row.digest), row.removed_at, row.origin) for row in found]


def without_dropped(conn: DeadlineConnection, ops: Sequence[Operation]) -> list[Operation]:
    """Return the operations without the texts that the same home's file has dropped since they were accepted.

    Two processes of a home, or one and the files of one that ended, may be written in another order than the host wrote
    the files. What such a write replaces goes all the same.
    """
    said = [op for op in ops if isinstance(op, AddMemory | ReplaceMemory)]
    dropped = _dropped_since(conn, said) if said else ()
    left = (op for op in ops if op.op_id not in dropped or isinstance(op, ReplaceMemory))
    return [op.without_text() if isinstance(op, ReplaceMemory) and op.op_id in dropped else op for op in left]


def _dropped_since(conn: DeadlineConnection, said: Sequence[AddMemory | ReplaceMemory]) -> set[UUID]:
    """Return the ids of the operations whose text the same home's file has dropped since."""
    times = [datetime.fromtimestamp(op.noted_at, UTC) for op in said]
    row = {
        "op_ids": [op.op_id for op in said],
        "origins": [op.origin for op in said],
        "targets": [op.target for op in said],
        "digests": [digest(op.content) for op in said],
        "times": times,
        "since": min(times),
    }
    return {found.op_id for found in conn.execute(query("dropped_since"), row)}


def remove_again(conn: DeadlineConnection, who: Metadata, removals: Sequence[Removed]) -> int:
    """Remove memories that had been removed before, without keeping their texts; return how many."""
    note_actor(conn, who or {"source": "forget"})
    return bury(conn, removals)


def forget_again(conn: DeadlineConnection, op: ForgetMemories) -> int:
    """Remove what a tool has removed before; there is nothing to remove unless the server was restored since."""
    at = _at(op)
    removals = [Removed(op.theme, target, bytes.fromhex(each), at) for target, each in op.removals]
    return remove_again(conn, op.who, removals)


def bring_tombstones(conn: DeadlineConnection, removals: Sequence[Removed]) -> None:
    """Add tombstones for what was removed elsewhere and is not stored here."""
    for columns in _removals_by_theme(removals):
        conn.execute(query("bring_tombstones"), columns)


def bury(conn: DeadlineConnection, removals: Sequence[Removed]) -> int:
    """Remove memories that were removed elsewhere after they were last confirmed here; return how many."""
    gone = 0
    for columns in _removals_by_theme(removals):
        lock_theme(conn, columns["theme"])
        gone += conn.execute(query("bury_removed"), columns).rowcount
        conn.execute(query("bring_tombstones"), columns)
    return gone


def _removals_by_theme(removals: Sequence[Removed]) -> Iterator[dict[str, Any]]:
    """Yield each theme's removals as columns, in the order in which all writers lock themes."""
    for theme in sorted({each.theme for each in removals}):
        some = [each for each in removals if each.theme == theme]
        yield {
            "theme": theme,
            "targets": [each.target for each in some],
            "digests": [each.digest for each in some],
            "times": [each.removed_at for each in some],
            "origins": [each.origin for each in some],
        }

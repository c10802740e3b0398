"""What keeps a write that comes very late, or once more, from bringing back what is there or was forgotten since."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from ..domain.records import Removed
from ..domain.text import digest
from ..domain.types import Operation
from .connection import DeadlineConnection
from .history import note_actor
from .memories import Embeddings
from .sql import query
from .tombstones import bury

OPERATIONS_KEPT_DAYS = 30  # for so long the database knows which operations it has applied
_LATE_S = (OPERATIONS_KEPT_DAYS - 1) * 86400.0  # a day for clocks that differ


def is_late(op: Operation) -> bool:
    """Whether the database may have forgotten that it has applied `op`, which a spool may hold for ever."""
    return op.at < time.time() - _LATE_S


def stored_turns(conn: DeadlineConnection, ops: Sequence[Operation]) -> set[UUID]:
    """Return the ids of those late turns that stand in the table, by their session, time and words."""
    late = [op for op in ops if op.kind == "turn" and is_late(op)]
    if not late:
        return set()
    asked = {
        "themes": [op.theme for op in late],
        "sessions": [op.payload["session_id"] for op in late],
        "times": [datetime.fromtimestamp(op.at, UTC) for op in late],
        "digests": [digest(op.payload["messages"][0]["content"]) for op in late],
        "op_ids": [op.op_id for op in late],
    }
    return {row.op_id for row in conn.execute(query("stored_turns"), asked)}


def forgotten_since(conn: DeadlineConnection, op: Operation) -> list[Removed]:
    """Return what was removed of the text that `op` stores, after it was accepted; only of a late or repeated write."""
    content = op.payload.get("content")
    if not isinstance(content, str) or not (op.payload.get("again") or is_late(op)):
        return []
    asked = {
        "theme": op.theme,
        "target": op.payload["target"],
        "digest": digest(content),
        "at": datetime.fromtimestamp(op.at, UTC),
    }
    found = conn.execute(query("forgotten_since"), asked)
    return [Removed(op.theme, row.target, bytes(row.digest), row.removed_at, row.origin) for row in found]


def remove_again(conn: DeadlineConnection, op: Operation, removals: Sequence[Removed]) -> int:
    """Remove what had been removed, without keeping its text; returns how many memories that were."""
    note_actor(conn, op.payload.get("who") or {"source": "forget"})
    return bury(conn, removals)


def forget(conn: DeadlineConnection, op: Operation, _: Embeddings, counts: Counter[str], __: str) -> None:
    """Remove what a tool has removed already: nothing, but where the server was set back to before that."""
    at = datetime.fromtimestamp(op.at, UTC)
    removals = [Removed(op.theme, target, bytes.fromhex(each), at) for target, each in op.payload["removals"]]
    counts["memories_removed_again"] += remove_again(conn, op, removals)

"""Which function writes which kind of operation on memories."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ..domain.types import Operation
from . import memories, memory_files, replays
from .connection import DeadlineConnection
from .history import note_actor
from .memories import Embeddings

_APPLY: Final = {
    "add": memories.add,
    "remember": memories.remember,
    "replace": memories.replace,
    "remove": memories.remove,
    "reconcile": memory_files.reconcile,
    "forget": replays.forget,
}
MEMORY_KINDS: Final = frozenset(_APPLY)


def apply_memory(
    conn: DeadlineConnection,
    op: Operation,
    embeddings: Embeddings,
    counts: Counter[str],
    language: str,
    *,
    keep_removed: bool = True,
) -> None:
    """Apply one memory operation inside the caller's transaction; what happened is added to `counts`.

    `language` is the one in which the words of the theme are stemmed; `keep_removed`: what a memory file lets go of can
    be brought back.
    """
    who = op.payload.get("who") or op.payload.get("metadata") or {}
    note_actor(conn, who, origin=op.payload.get("origin", ""), keep_removed=keep_removed)
    forgotten = replays.forgotten_since(conn, op)
    _APPLY[op.kind](conn, op, embeddings, counts, language)
    if forgotten:
        replays.remove_again(conn, op, forgotten)

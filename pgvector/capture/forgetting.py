"""Taking what was forgotten out of what a spool keeps of acknowledged writes, or it would be sent again some day."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..domain.operations import (
    AddMemory,
    ForgetMemories,
    MalformedWrite,
    MemoryOperation,
    Operation,
    ReconcileFile,
    RememberMemory,
    RemoveMemory,
    ReplaceMemory,
    StoreTurn,
    encode,
)
from ..domain.text import digest
from .spool import Spool

Spare = Callable[[Operation], Operation | None]  # what is to be left of a write, None for nothing


def change_kept(spool: Spool, theme: str, spare: Spare) -> int:
    """Leave of the acknowledged writes of `theme` what `spare` leaves; returns how many changed. Raises SpoolError."""
    changed = [(op, left) for op in spool.kept() if op.theme == theme and (left := spare(op)) is not op]
    if changed:
        with spool.written() as conn:
            conn.executemany("DELETE FROM kept WHERE seq = ?", [(op.seq,) for op, left in changed if left is None])
            conn.executemany(
                "UPDATE kept SET kind = ?, payload = ? WHERE seq = ?",
                [(left.kind, encode(left), left.seq) for _, left in changed if left],
            )
    return len(changed)


def without_removed(forget: ForgetMemories) -> Spare:
    """Leave nothing of the texts that `forget` names, by target and digest."""
    gone = set(forget.removals)

    def spare(op: Operation) -> Operation | None:
        if not isinstance(op, MemoryOperation):
            return op
        target = op.target
        return _without(op, lambda text: (target, digest(text).hex()) in gone)

    return spare


def without_session(session_id: str) -> Spare:
    """Leave nothing of the turns of a session."""
    return lambda op: None if isinstance(op, StoreTurn) and op.session_id == session_id else op


def without_texts(texts: set[str]) -> Spare:
    """Leave no memory and no message that says one of `texts`."""
    return lambda op: _without(op, lambda text: text in texts)


def _without(op: Operation, gone: Callable[[str], bool]) -> Operation | None:
    """Return what is left of `op` without the texts that are gone: what it ended by removing or replacing stays so."""
    if not any(map(gone, op.texts())):
        return op
    match op:
        case ReplaceMemory():
            return RemoveMemory(
                theme=op.theme, at=op.at, op_id=op.op_id, seq=op.seq, again=op.again, target=op.target,
                origin=op.origin, noted_at=op.noted_at, old_text=op.old_text,
            )  # fmt: skip
        case ReconcileFile():
            return replace(op, contents=tuple(text for text in op.contents if not gone(text)))
        case StoreTurn():
            left = tuple(message for message in op.messages if not gone(message.content))
            return replace(op, messages=left) if left else None
        case AddMemory() | RememberMemory():
            return None
    return op


def said_texts(op: Operation) -> set[str]:
    """Return the texts that a write would store as memories, or looks for."""
    match op:
        case MalformedWrite(payload=payload):
            many = payload.get("contents")
            found = [payload.get("content"), payload.get("old_text"), *(many if isinstance(many, list) else [])]
            return {text for text in found if isinstance(text, str)}
        case ReplaceMemory() | RemoveMemory():
            return {*op.texts(), op.old_text}
        case MemoryOperation():
            return {*op.texts()}
    return set()

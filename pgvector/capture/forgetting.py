"""Taking what was forgotten out of what a spool keeps of acknowledged writes, or it would be sent again some day."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from ..domain.text import digest
from ..domain.types import Operation
from .spool import Spool

_OF_REMOVE = ("target", "old_text", "origin", "noted_at")
Spare = Callable[[Operation], Operation | None]  # what is to be left of a write, None for nothing


def change_kept(spool: Spool, theme: str, spare: Spare) -> int:
    """Leave of the acknowledged writes of `theme` what `spare` leaves; returns how many changed. Raises SpoolError."""
    changed = [(op, left) for op in spool.kept() if op.theme == theme and (left := spare(op)) is not op]
    if changed:
        with spool.written() as conn:
            conn.executemany("DELETE FROM kept WHERE seq = ?", [(op.seq,) for op, left in changed if left is None])
            conn.executemany(
                "UPDATE kept SET kind = ?, payload = ? WHERE seq = ?",
                [(left.kind, json.dumps(left.payload, ensure_ascii=False), left.seq) for _, left in changed if left],
            )
    return len(changed)


def without_removed(forget: Operation) -> Spare:
    """Leave nothing of the texts that `forget` names, by target and digest."""
    gone = {tuple(each) for each in forget.payload["removals"]}
    return lambda op: _unless(op, lambda text: (op.payload.get("target"), digest(text).hex()) in gone)


def without_session(session_id: str) -> Spare:
    """Leave nothing of the turns of a session."""
    return lambda op: None if op.kind == "turn" and op.payload.get("session_id") == session_id else op


def without_texts(texts: set[str]) -> Spare:
    """Leave no memory and no message that says one of `texts`."""
    return lambda op: _unless(op, lambda text: text in texts)


def _unless(op: Operation, gone: Callable[[str], bool]) -> Operation | None:
    """Return what is left of `op` without the texts that are gone: what it ended by removing or replacing stays so."""
    payload = op.payload
    if op.kind in ("add", "remember", "replace") and gone(payload["content"]):
        if op.kind == "replace":
            return replace(op, kind="remove", payload={key: payload[key] for key in _OF_REMOVE})
        return None
    if op.kind == "reconcile" and any(map(gone, payload["contents"])):
        return replace(op, payload=payload | {"contents": [each for each in payload["contents"] if not gone(each)]})
    if op.kind == "turn" and any(gone(each["content"]) for each in payload["messages"]):
        left = [each for each in payload["messages"] if not gone(each["content"])]
        return replace(op, payload=payload | {"messages": left}) if left else None
    return op


def said(op: Operation) -> set[str]:
    """Return the texts that a write would store as memories, or looks for."""
    many = op.payload.get("contents")
    texts = [op.payload.get("content"), op.payload.get("old_text"), *(many if isinstance(many, list) else [])]
    return {text for text in texts if isinstance(text, str)}

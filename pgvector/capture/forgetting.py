"""Taking what was forgotten out of what a spool keeps of acknowledged writes, or it would be sent again some day."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from ..domain.models import Operation
from ..domain.text import digest
from .spool import Spool
from .spool_format import COLUMNS, operation_of

Spare = Callable[[Operation], Operation | None]  # what is to be left of a write, None for nothing


def change_kept(spool: Spool, theme: str, spare: Spare) -> int:
    """Leave of the acknowledged writes of `theme` what `spare` leaves; returns how many changed. Raises SpoolError."""
    with spool.written() as conn:
        rows = conn.execute(f"SELECT seq, {COLUMNS} FROM kept WHERE theme = ?", (theme,)).fetchall()
    changed = [(op, left) for op in map(operation_of, rows) if (left := spare(op)) is not op]
    if changed:
        with spool.written() as conn:
            conn.executemany("DELETE FROM kept WHERE seq = ?", [(op.seq,) for op, left in changed if left is None])
            conn.executemany(
                "UPDATE kept SET payload = ? WHERE seq = ?",
                [(json.dumps(left.payload, ensure_ascii=False), op.seq) for op, left in changed if left is not None],
            )
    return len(changed)


def without_removed(forget: Operation) -> Spare:
    """Leave nothing of the writes that stored what `forget` names; a `replace` stays, as it ended another text too."""
    gone = {tuple(each) for each in forget.payload["removals"]}

    def spare(op: Operation) -> Operation | None:
        if op.kind not in ("add", "remember"):
            return op
        return None if (op.payload.get("target"), digest(op.payload.get("content") or "").hex()) in gone else op

    return spare


def without_session(session_id: str) -> Spare:
    """Leave nothing of the turns of a session."""
    return lambda op: None if op.kind == "turn" and op.payload.get("session_id") == session_id else op


def without_texts(texts: set[str]) -> Spare:
    """Leave no memory and no message that says one of `texts`."""

    def spare(op: Operation) -> Operation | None:
        if op.kind != "turn":
            return None if said(op) & texts else op
        messages = op.payload.get("messages") or []
        left = [each for each in messages if each.get("content") not in texts]
        if len(left) == len(messages):
            return op
        return replace(op, payload=op.payload | {"messages": left}) if left else None

    return spare


def said(op: Operation) -> set[str]:
    """Return the texts that a write would store as memories, or looks for."""
    many = op.payload.get("contents")
    texts = [op.payload.get("content"), op.payload.get("old_text"), *(many if isinstance(many, list) else [])]
    return {text for text in texts if isinstance(text, str)}

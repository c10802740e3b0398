"""Writes of durable memories: add, replace, remove, and the reconciliation with the host's own files."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from pgvector import Vector
from psycopg.types.json import Jsonb

from ..domain.models import Operation
from .connection import DeadlineConnection
from .history import note_actor
from .sql import query

logger = logging.getLogger(__name__)

Embeddings = dict[str, list[float]]


def apply_memory(
    conn: DeadlineConnection, op: Operation, embeddings: Embeddings, counts: Counter[str], language: str
) -> None:
    """Apply one memory operation inside the caller's transaction; what happened is added to `counts`.

    `language` is the one in which the words of the theme are stemmed.
    """
    note_actor(conn, op.payload.get("who") or op.payload.get("metadata") or {})
    _APPLY[op.kind](conn, op, embeddings, counts, language)


def lock_theme(conn: DeadlineConnection, theme: str) -> None:
    """Make other writers of this theme's memories wait until the transaction ends."""
    conn.execute(query("lock_theme"), {"theme": theme})


def _common(op: Operation) -> dict[str, Any]:
    return {
        "theme": op.theme,
        "target": op.payload["target"],
        "origin": op.payload["origin"],
        "at": datetime.fromtimestamp(op.at, UTC),
    }


def _vector(embeddings: Embeddings, content: str) -> Vector | None:
    found = embeddings.get(content)
    return None if found is None else Vector(found)


def _add(conn: DeadlineConnection, op: Operation, embeddings: Embeddings, counts: Counter[str], language: str) -> None:
    content = op.payload["content"]
    row = _common(op) | {
        "content": content,
        "embedding": _vector(embeddings, content),
        "metadata": Jsonb(op.payload["metadata"]),
        "language": language,
        "announced": True,
    }
    conn.execute(query("take_over_mirrored"), row)
    conn.execute(query("upsert_memory"), row)
    conn.execute(query("clear_tombstone"), row)
    conn.execute(query("note_mirrored"), row)
    counts["memories_added"] += 1


def _remember(
    conn: DeadlineConnection, op: Operation, embeddings: Embeddings, counts: Counter[str], language: str
) -> None:
    """As `_add`, of what stands in no file: a reading of the files says nothing about it."""
    content = op.payload["content"]
    row = {
        "theme": op.theme,
        "target": op.payload["target"],
        "at": datetime.fromtimestamp(op.at, UTC),
        "content": content,
        "embedding": _vector(embeddings, content),
        "metadata": Jsonb(op.payload["metadata"]),
        "given": Jsonb(op.payload["given"]),
        "language": language,
    }
    conn.execute(query("remember_memory"), row)
    conn.execute(query("clear_tombstone"), row)
    counts["memories_remembered"] += 1


def _replace(
    conn: DeadlineConnection, op: Operation, embeddings: Embeddings, counts: Counter[str], language: str
) -> None:
    content = op.payload["content"]
    found = _find(conn, op)
    if len(found) != 1:
        # The host did replace something, so the new text is a fact; which old text to drop is what we do not know.
        counts["replace_ambiguous" if found else "replace_unmatched"] += 1
        if found:
            _warn_ambiguous(op, len(found))
        _add(conn, op, embeddings, counts, language)
        return
    (old,) = found
    row = _common(op) | {
        "id": old.id,
        "content": content,
        "embedding": _vector(embeddings, content),
        "metadata": Jsonb(op.payload["metadata"]),
        "language": language,
        "announced": True,
    }
    (exists,) = conn.execute(query("memory_exists"), row).fetchone() or (False,)
    if old.theme != op.theme or exists:
        # Another theme owns the old text, or the new one stands already: what is written belongs to the writer.
        conn.execute(query("delete_memory"), row | {"theme": old.theme})
        _add(conn, op, embeddings, counts, language)
    else:
        conn.execute(query("bury_memory"), row)
        conn.execute(query("replace_memory"), row)
        conn.execute(query("clear_tombstone"), row)
        conn.execute(query("note_mirrored"), row)
    counts["memories_replaced"] += 1


def _remove(conn: DeadlineConnection, op: Operation, _: Embeddings, counts: Counter[str], __: str) -> None:
    found = _find(conn, op)
    if not found:
        counts["remove_unmatched"] += 1
    elif len({old.content for old in found}) > 1:
        counts["remove_ambiguous"] += 1
        _warn_ambiguous(op, len(found))
    else:
        for old in found:
            conn.execute(query("delete_memory"), _common(op) | {"theme": old.theme, "id": old.id})
        counts["memories_removed"] += 1


def _warn_ambiguous(op: Operation, count: int) -> None:
    logger.warning(
        "hermes-pgvector: %s in theme %s: the text it names stands in %d entries, all of them are kept",
        op.kind,
        op.theme,
        count,
    )


class _Found:
    """An entry that `old_text` may mean."""

    def __init__(self, row: Any) -> None:
        self.id: int = row.id
        self.theme: str = row.agent_identity
        self.content: str = row.content
        self.whole: bool = row.whole
        self.in_file: bool = row.in_file


def _find(conn: DeadlineConnection, op: Operation) -> list[_Found]:
    """What `old_text` means: the whole entry before a part of one, this host's file before other hosts' entries."""
    old_text = op.payload["old_text"]
    if not old_text:
        return []
    found = [_Found(row) for row in conn.execute(query("find_memory"), _common(op) | {"old_text": old_text})]
    for better in (
        [old for old in found if old.whole],
        [old for old in found if old.in_file],
    ):
        if better:
            found = better
            break
    own = [old for old in found if old.theme == op.theme]
    if op.kind == "replace" and own:
        return own
    return found


def _reconcile(
    conn: DeadlineConnection, op: Operation, embeddings: Embeddings, counts: Counter[str], language: str
) -> None:
    row = _common(op) | {
        "contents": op.payload["contents"],
        "file_time": datetime.fromtimestamp(op.payload["file_time"], UTC),
    }
    for change in conn.execute(query("mirror_difference"), row).fetchall():
        entry = _common(op) | {
            "content": change.content,
            "embedding": _vector(embeddings, change.content) if change.content else None,
            "metadata": Jsonb(op.payload["metadata"]),
            "language": language,
            "announced": False,
        }
        if change.kind == "buried":
            # Noted as seen, or it would count as new when somebody edits another line of this file.
            conn.execute(query("note_mirrored"), entry)
            counts["memories_kept_removed"] += 1
        elif change.kind == "new":
            conn.execute(query("upsert_memory"), entry)
            conn.execute(query("clear_tombstone"), entry)
            conn.execute(query("note_mirrored"), entry)
            counts["memories_imported"] += 1
        elif change.id is not None:
            conn.execute(query("delete_memory"), row | {"theme": change.theme, "id": change.id})
            counts["memories_removed"] += 1
    conn.execute(query("forget_mirrored"), row)


_APPLY = {"add": _add, "remember": _remember, "replace": _replace, "remove": _remove, "reconcile": _reconcile}
MEMORY_KINDS = frozenset(_APPLY)

"""Writes of durable memories: add, remember, replace, remove."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pgvector import Vector
from psycopg.types.json import Jsonb

from ..domain.types import Operation
from .connection import DeadlineConnection
from .sql import query

logger = logging.getLogger(__name__)

Embeddings = dict[str, list[float]]


def lock_theme(conn: DeadlineConnection, theme: str) -> None:
    """Make other writers of this theme's memories wait until the transaction ends."""
    conn.execute(query("lock_theme"), {"theme": theme})


def common(op: Operation) -> dict[str, Any]:
    """Return what the statements of every operation need; `noted_at` orders readings and writes of one home."""
    return {
        "theme": op.theme,
        "target": op.payload["target"],
        "origin": op.payload["origin"],
        "at": datetime.fromtimestamp(op.at, UTC),
        "noted_at": datetime.fromtimestamp(op.payload.get("noted_at", op.at), UTC),
    }


def vector(embeddings: Embeddings, content: str) -> Vector | None:
    """Return the vector of a text, None where there is none yet."""
    found = embeddings.get(content)
    return None if found is None else Vector(found)


def add(conn: DeadlineConnection, op: Operation, embeddings: Embeddings, counts: Counter[str], language: str) -> None:
    """Store an entry that the host wrote to its file."""
    content = op.payload["content"]
    row = common(op) | {
        "content": content,
        "embedding": vector(embeddings, content),
        "metadata": Jsonb(op.payload["metadata"]),
        "language": language,
        "announced": True,
    }
    conn.execute(query("take_over_mirrored"), row)
    conn.execute(query("upsert_memory"), row)
    conn.execute(query("clear_tombstone"), row)
    conn.execute(query("note_mirrored"), row)
    counts["memories_added"] += 1


def remember(
    conn: DeadlineConnection, op: Operation, embeddings: Embeddings, counts: Counter[str], language: str
) -> None:
    """Store a memory that somebody other than the host's files owns: no reading of the files removes it."""
    content = op.payload["content"]
    row = {
        "theme": op.theme,
        "target": op.payload["target"],
        "at": datetime.fromtimestamp(op.at, UTC),
        "content": content,
        "embedding": vector(embeddings, content),
        "metadata": Jsonb(op.payload["metadata"]),
        "given": Jsonb(op.payload["given"]),
        "owner": op.payload.get("owner", "remember"),
        "language": language,
    }
    conn.execute(query("remember_memory"), row)
    conn.execute(query("clear_tombstone"), row)
    counts["memories_remembered"] += 1


def replace(
    conn: DeadlineConnection, op: Operation, embeddings: Embeddings, counts: Counter[str], language: str
) -> None:
    """Give the entry that `old_text` means another text, or what it has become since."""
    content = op.payload["content"]
    found = _find(conn, op) or _find_successor(conn, op)
    if len(found) != 1:
        # The host did replace something, so the new text is a fact; which old text to drop is what we do not know.
        counts["replace_ambiguous" if found else "replace_unmatched"] += 1
        if found:
            _warn_ambiguous(op, len(found))
        add(conn, op, embeddings, counts, language)
        return
    (old,) = found
    row = common(op) | {
        "id": old.id,
        "content": content,
        "embedding": vector(embeddings, content),
        "metadata": Jsonb(op.payload["metadata"]),
        "language": language,
        "announced": True,
    }
    (exists,) = conn.execute(query("memory_exists"), row).fetchone() or (False,)
    if old.content == content:
        add(conn, op, embeddings, counts, language)
    elif old.theme != op.theme or old.owned or exists:
        # Another theme or somebody else keeps the old text, or the new one stands already: what is written belongs to
        # the writer, and the file lets go of the old text.
        conn.execute(query("let_go_of_memory"), row | {"theme": old.theme})
        add(conn, op, embeddings, counts, language)
    else:
        conn.execute(query("bury_memory"), row)
        conn.execute(query("replace_memory"), row)
        conn.execute(query("clear_tombstone"), row)
        conn.execute(query("note_mirrored"), row)
    counts["memories_replaced"] += 1


def remove(conn: DeadlineConnection, op: Operation, _: Embeddings, counts: Counter[str], __: str) -> None:
    """Let the host's file go of the entry that `old_text` means."""
    found = _find(conn, op)
    if not found:
        counts["remove_unmatched"] += 1
    elif len({old.content for old in found}) > 1:
        counts["remove_ambiguous"] += 1
        _warn_ambiguous(op, len(found))
    else:
        for old in found:
            conn.execute(query("let_go_of_memory"), common(op) | {"theme": old.theme, "id": old.id})
        counts["memories_released" if all(old.owned for old in found) else "memories_removed"] += 1


def _warn_ambiguous(op: Operation, count: int) -> None:
    logger.warning(
        "hermes-pgvector: %s in theme %s: the text it names stands in %d entries, all of them are kept",
        op.kind,
        op.theme,
        count,
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """An entry that `old_text` may mean. `owned`: somebody keeps it whatever the memory files hold."""

    id: int
    theme: str
    content: str
    whole: bool
    owned: bool
    in_file: bool = False


def _find(conn: DeadlineConnection, op: Operation) -> list[_Found]:
    """What `old_text` means: the whole entry before a part of one, this host's file before other hosts' entries."""
    old_text = op.payload["old_text"]
    if not old_text:
        return []
    rows = conn.execute(query("find_memory"), common(op) | {"old_text": old_text})
    found = [_Found(row.id, row.agent_identity, row.content, row.whole, row.owned, row.in_file) for row in rows]
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


def _find_successor(conn: DeadlineConnection, op: Operation) -> list[_Found]:
    """What says now what `old_text` said before somebody else replaced it; the whole entry before a part of one."""
    rows = conn.execute(query("find_successor"), common(op) | {"old_text": op.payload["old_text"]})
    found = [_Found(row.id, row.agent_identity, row.content, row.whole, row.owned) for row in rows]
    whole = [old for old in found if old.whole]
    return whole[:1] or (found if len({old.id for old in found}) > 1 else found[:1])

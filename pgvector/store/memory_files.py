"""The host's own memory files: what a reading of them changes, and removals that wait for somebody's word.

A file that vanished, was emptied or damaged, or lost much at once lets go of nothing by itself: its entries stay, and
are held until somebody confirms or dismisses their removal, or the file holds them again. Every function works inside
the caller's transaction.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from psycopg.types.json import Jsonb

from ..domain.records import MEMORY_FILES
from ..domain.types import Operation
from .connection import DeadlineConnection
from .memories import Embeddings, common, vector
from .sql import query

logger = logging.getLogger(__name__)

WHY: Final = {"missing": "is missing", "empty": "is empty", "damaged": "is damaged", "shorter": "lost much at once"}
_MANY = 3  # so many entries lost at once, and half of the file or more, is no edit by hand
_ALIKE = 0.5  # share of pairs of characters from which a new entry is an edited old one
_COMPARED_CHARS = 2000


def reconcile(
    conn: DeadlineConnection, op: Operation, embeddings: Embeddings, counts: Counter[str], language: str
) -> None:
    """Apply a reading of one file: import what is new, let go of what was taken out, hold what was lost at once."""
    row = common(op) | {
        "contents": op.payload["contents"],
        "file_time": datetime.fromtimestamp(op.payload["file_time"], UTC),
    }
    changes = conn.execute(query("mirror_difference"), row).fetchall()
    by_kind = {kind: [each for each in changes if each.kind == kind] for kind in ("gone", "stays", "back", "new")}
    for change in changes:
        if change.kind in ("new", "buried"):
            _take_in(conn, op, change, embeddings, counts, language)
    if by_kind["back"]:
        conn.execute(query("withdraw_removals"), row | {"digests": [each.digest for each in by_kind["back"]]})
        counts["removals_withdrawn"] += len(by_kind["back"])
    if not by_kind["gone"]:
        return
    digests = [each.digest for each in by_kind["gone"]]
    if why := _why_held(op, by_kind["gone"], len(by_kind["stays"]), by_kind["new"]):
        conn.execute(query("hold_removals"), row | {"digests": digests, "why": why})
        lost = sum(each.id is not None for each in by_kind["gone"])
        counts["removals_held"] += lost
        if lost:
            _warn_held(op.payload["target"], why, lost)
        return
    for change in by_kind["gone"]:
        if change.id is not None:
            conn.execute(query("let_go_of_memory"), row | {"theme": change.theme, "id": change.id})
            counts["memories_removed"] += 1
    conn.execute(query("forget_mirrored"), row | {"digests": digests})


def _take_in(
    conn: DeadlineConnection, op: Operation, change: Any, embeddings: Embeddings, counts: Counter[str], language: str
) -> None:
    entry = common(op) | {
        "content": change.content,
        "embedding": vector(embeddings, change.content),
        "metadata": Jsonb(op.payload["metadata"]),
        "language": language,
        "announced": False,
    }
    if change.kind == "buried":
        # Noted as seen, or it would count as new when somebody edits another line of this file.
        conn.execute(query("note_mirrored"), entry)
        counts["memories_kept_removed"] += 1
        return
    if change.removal is not None:
        # This file let go of it before and holds it again: it comes back as it was, in the theme that it had.
        restored = conn.execute(query("restore_memory"), {"removal": change.removal, "owners": []}).fetchone()
        entry |= {} if restored is None else {"theme": restored.theme}
    if change.removal is None or restored is None:
        conn.execute(query("upsert_memory"), entry)
    conn.execute(query("clear_tombstone"), entry)
    conn.execute(query("note_mirrored"), entry)
    counts["memories_imported"] += 1


def _why_held(op: Operation, gone: Sequence[Any], staying: int, new: Sequence[Any]) -> str:
    """What is wrong with the file that lacks `gone`; "" where somebody simply took them out."""
    if not op.payload["contents"]:
        return "empty" if op.payload["file_time"] else "missing"
    if op.payload.get("damaged"):
        return "damaged"
    known = [each.content for each in gone if each.content is not None]
    lost = _unmatched(known, [each.content for each in new])
    return "shorter" if lost >= _MANY and 2 * lost >= len(known) + staying else ""


def _unmatched(gone: Sequence[str], new: Sequence[str]) -> int:
    """How many of the texts that are gone no new one is an edited form of."""
    left = [_pairs(text) for text in new]
    lost = 0
    for text in gone:
        pairs = _pairs(text)
        match = next((each for each in left if _alike(pairs, each)), None)
        if match is None:
            lost += 1
        else:
            left.remove(match)
    return lost


def _pairs(text: str) -> frozenset[str]:
    text = text[:_COMPARED_CHARS].casefold()
    return frozenset(text[at : at + 2] for at in range(len(text) - 1)) or frozenset([text])


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return 2 * len(one & other) >= _ALIKE * (len(one) + len(other))


def _warn_held(target: str, why: str, count: int) -> None:
    logger.warning(
        "hermes-pgvector: %s %s: what it held stays in memory until somebody decides (%d entries); put the file back, "
        "or see: hermes-pgvector removals list",
        MEMORY_FILES[target],
        WHY[why],
        count,
    )


def keep_undecided(conn: DeadlineConnection, *, older_than_s: float) -> int:
    """Keep the memories whose removal has waited for so long; return how many."""
    return own_kept(conn, conn.execute(query("keep_undecided"), {"older_than_s": older_than_s}).fetchall())


def own_kept(conn: DeadlineConnection, kept: Sequence[Any]) -> int:
    """Note that memories are kept though their files lack them; return how many."""
    if not kept:
        return 0
    row = {
        "themes": [each.theme for each in kept],
        "targets": [each.target for each in kept],
        "digests": [each.digest for each in kept],
    }
    return conn.execute(query("own_kept"), row).rowcount

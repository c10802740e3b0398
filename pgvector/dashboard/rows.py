"""Stored rows in the page's format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..admin.common import stored_rows
from ..admin.common.refs import Ref
from ..domain.types import Hit, Store
from ..store.connection import DeadlineConnection
from .served_homes import ServedHome

LISTED_CHARS = 2_000  # of each text in a list
_NAMES = (
    "ref", "store", "theme", "at", "created_at", "session_id", "content", "chars", "pending", "structure",
    "source",
)  # fmt: skip


def row_of(hit: Hit) -> dict[str, Any]:
    """Return which row a hit is: its reference, its store, theme and kind, and its time."""
    return {
        "ref": str(Ref(hit.store, hit.id)),
        "store": hit.store,
        "theme": hit.theme,
        "kind": hit.kind,
        "at": hit.at.isoformat(),
    }


def as_rows(
    conn: DeadlineConnection, served: ServedHome, store: Store, found: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return rows of a list for the page; each says whether it is private and whether its text is cut."""
    private = stored_rows.private(conn, store, [row["id"] for row in found], served.chats.addresses)
    return [
        {name: row[name] for name in _NAMES if name in row}
        | {"kind": row.get("target") or row.get("role")}
        | {"private": row["id"] in private, "cut": len(row["content"]) < row["chars"]}
        for row in found
    ]

"""What was removed for good: noted by digest, so that nothing brings it back.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..domain.types import Removed
from .connection import DeadlineConnection
from .memories import lock_theme
from .sql import query


def bring_tombstones(conn: DeadlineConnection, removals: Sequence[Removed]) -> None:
    """Note what was removed elsewhere and is not held here."""
    conn.execute(query("bring_tombstones"), _removal_columns(removals))


def bury(conn: DeadlineConnection, removals: Sequence[Removed]) -> int:
    """Remove what was removed elsewhere after it was last confirmed here; returns how many that were."""
    columns = _removal_columns(removals)
    for theme in sorted({each.theme for each in removals}):
        lock_theme(conn, theme)
    gone = conn.execute(query("bury_removed"), columns).rowcount
    conn.execute(query("bring_tombstones"), columns)
    return gone


def _removal_columns(removals: Sequence[Removed]) -> dict[str, Any]:
    return {
        "themes": [each.theme for each in removals],
        "targets": [each.target for each in removals],
        "digests": [each.digest for each in removals],
        "times": [each.removed_at for each in removals],
        "origins": [each.origin for each in removals],
    }

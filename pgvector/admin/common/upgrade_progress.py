"""The progress of an upgrade from another program's tables, if one was begun."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ...store.connection import DeadlineConnection, translated
from .fetching import one

SCHEMA = "hermes_before_upgrade"  # the schema that holds the other program's tables meanwhile
# The theme that it gives to sessions of the default profile that name none: the host's name for every workspace.
NAMELESS = "hermes"


@dataclass(frozen=True, slots=True)
class UpgradeProgress:
    """The progress of an upgrade: from `opened_at` on agents may write, from `finished_at` on every row is there."""

    home: str
    dims: int
    keeps_vectors: bool
    last_memory_id: int
    last_turn_id: int
    memories_done: int
    turns_left: int
    merged: int
    left_out: int
    began_at: datetime
    opened_at: datetime | None
    finished_at: datetime | None


def under_way(conn: DeadlineConnection) -> UpgradeProgress | None:
    """Return the upgrade that was begun here and neither confirmed nor undone; None if there is none."""
    with translated():
        if conn.execute("SELECT to_regclass('hermes_upgrade')").fetchone() == (None,):
            return None
        known = one(conn, "SELECT * FROM hermes_upgrade")._asdict()
    del known["only_row"]
    return UpgradeProgress(**known)

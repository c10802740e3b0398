"""What an agent does to a database besides its writes: it deletes what has expired, and compares the clocks."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime

from .connection import DeadlineConnection
from .memory_files import own_kept
from .replays import OPERATIONS_KEPT_DAYS
from .sql import query

logger = logging.getLogger(__name__)


# For how many days what each of these statements deletes is kept.
_KEPT_DAYS = {
    "forget_operations": OPERATIONS_KEPT_DAYS,
    "forget_tombstones": 730,
    "forget_history": 730,
    "forget_removed_texts": 90,  # so long a memory that was removed from a file can be restored
}


def delete_expired(conn: DeadlineConnection, *, hold_days: float) -> None:
    """Delete expired operation ids, digests and texts of removed memories, and history.

    They must have expired by this machine's clock and by the server's, since one of the two may be wrong. Memories
    whose removal has waited `hold_days` without a decision are kept.
    """
    now = datetime.fromtimestamp(time.time(), UTC)
    for statement, days in _KEPT_DAYS.items():
        conn.execute(query(statement), {"days": days, "now": now})
    undecided = conn.execute(query("keep_undecided"), {"older_than_s": hold_days * 86400}).fetchall()
    if kept := own_kept(conn, undecided):
        logger.info("hermes-pgvector: memories of a lost file are kept, because nobody decided otherwise: %d", kept)


def clock_behind_s(conn: DeadlineConnection) -> float:
    """Return by how much this machine's clock is behind the server's; negative if it is ahead."""
    began = time.monotonic()
    row = conn.execute(query("server_clock")).fetchone()
    assert row is not None
    # The server read its clock about halfway through.
    return float(row.at) - time.time() + (time.monotonic() - began) / 2

"""What an agent does to a database besides its writes: it deletes what has expired, and compares the clocks."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime

from .connection import DeadlineConnection
from .memory_files import keep_undecided
from .sql import query

logger = logging.getLogger(__name__)


def delete_expired(
    conn: DeadlineConnection,
    *,
    operations_days: int,
    tombstones_days: int,
    history_days: int,
    texts_days: int,
    hold_days: float,
) -> None:
    """Delete operation ids, digests and texts of removed memories, and history, each older than so many days.

    They must be older by this machine's clock and by the server's, since one of the two may be wrong. Memories whose
    removal has waited `hold_days` without a decision are kept.
    """
    now = datetime.fromtimestamp(time.time(), UTC)
    conn.execute(query("forget_operations"), {"days": operations_days, "now": now})
    conn.execute(query("forget_tombstones"), {"days": tombstones_days, "now": now})
    conn.execute(query("forget_history"), {"days": history_days, "now": now})
    conn.execute(query("forget_removed_texts"), {"days": texts_days, "now": now})
    kept = keep_undecided(conn, older_than_s=hold_days * 86400)
    if kept:
        logger.info("hermes-pgvector: memories of a lost file are kept, because nobody decided otherwise: %d", kept)


def clock_behind_s(conn: DeadlineConnection) -> float:
    """Return by how much this machine's clock is behind the server's; negative if it is ahead."""
    began = time.monotonic()
    row = conn.execute(query("server_clock")).fetchone()
    assert row is not None
    # The server read its clock about halfway through.
    return float(row.at) - time.time() + (time.monotonic() - began) / 2

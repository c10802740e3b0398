"""What an operator asks of the vectors: how far a change is, what waits, which graph is missing."""

from __future__ import annotations

from ...store.connection import DeadlineConnection
from ...store.sql import query
from ...store.vectors import STORES
from ..common.vector_statements import ROWS, for_store

_SAMPLE_BYTES = 50_000_000


def share_done(conn: DeadlineConnection) -> float:
    """About which share of the rows this role sees has its new vector, 0 to 1, from a sample of large tables."""
    done = total = 0.0
    for store in STORES:
        counted = for_store(
            "SELECT count(embedding_next) AS done, count(*) AS total FROM {rows} TABLESAMPLE SYSTEM "
            "(least(100, 100.0 * %s / greatest(1, pg_relation_size({rows_name}::regclass))))",
            store,
        )
        row = conn.execute(counted, (_SAMPLE_BYTES,)).fetchone()
        whole = conn.execute(for_store("SELECT pg_relation_size({rows_name}::regclass) AS bytes", store)).fetchone()
        assert row is not None and whole is not None
        scale = max(1.0, whole.bytes / _SAMPLE_BYTES)
        done, total = done + scale * row.done, total + scale * row.total
    return done / total if total else 1.0


def without_graph(conn: DeadlineConnection) -> list[str]:
    """Return the tables whose HNSW index is missing or was not built to its end."""
    tables = [ROWS[store] for store in STORES]
    return [
        table
        for table in tables
        if not getattr(conn.execute(query("has_graph"), {"table": table}).fetchone(), "found", 1)
    ]

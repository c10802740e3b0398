"""Rows that wait for a vector: claimed a theme at a time, by several processes at once."""

from __future__ import annotations

import psycopg

from hermes_memory_pgvector.domain.types import EmbeddingSpace
from hermes_memory_pgvector.store.backend import Backend
from hermes_memory_pgvector.store.vectors import Chunk, PendingRow
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import landed, runtime_of
from tests.support.stored import Database

UNIT = [1.0] + [0.0] * (DIMS - 1)


def pending(make_provider: MakeProvider, *themes: str) -> Backend:
    """A memory without a vector for each of these themes, in this order."""
    for number, theme in enumerate(themes):
        provider = make_provider({"embed_on_write": False}, gateway_session_key=theme, session_id=f"{theme}-1")
        provider.on_memory_write("add", "memory", f"Fact {number} of {theme}")
        landed(provider)
    backend = runtime_of(provider).backend
    assert backend.claim_space(EmbeddingSpace("words", DIMS))
    return backend


def told(rows: list[PendingRow]) -> list[str]:
    return sorted(f"{row.theme}: {row.text}" for row in rows)


def test_rows_are_claimed_once_over_all_themes_the_oldest_first(make_provider: MakeProvider) -> None:
    backend = pending(make_provider, "sales", "support", "sales", "legal")
    first, second, third = (backend.claim_pending(3, 60.0) for _ in range(3))
    assert told(first) == ["sales: Fact 0 of sales", "sales: Fact 2 of sales", "support: Fact 1 of support"]
    assert told(second) == ["legal: Fact 3 of legal"] and third == []
    backend.postpone(first, 0.0)
    assert told(backend.claim_pending(9, 60.0)) == told(first)


def test_rows_that_another_process_is_about_to_claim_are_passed_over(make_provider: MakeProvider, dsn: str) -> None:
    backend = pending(make_provider, "sales", "support")
    with psycopg.connect(dsn) as other:
        other.execute("SELECT FROM memory_entries WHERE agent_identity = 'sales' FOR UPDATE")
        assert told(backend.claim_pending(1, 60.0)) == ["support: Fact 1 of support"]


def test_a_vector_reaches_the_row_of_its_theme_only(make_provider: MakeProvider, dsn: str) -> None:
    backend = pending(make_provider, "sales", "support")
    rows = backend.claim_pending(9, 60.0)
    strays = [row._replace(theme="legal") for row in rows if row.theme == "support"]
    kept = [row for row in rows if row.theme == "sales"]
    parts = {row.text: [Chunk(0, UNIT), Chunk(5, UNIT)] for row in rows}
    backend.fill(kept + strays, parts)
    filled = Database(dsn).column(
        "SELECT concat_ws(' ', agent_identity, embedding IS NOT NULL, "
        "(SELECT count(*) FROM memory_chunks WHERE row_id = id)) "
        "FROM memory_entries ORDER BY 1"
    )
    assert filled == ["sales t 1", "support f 0"]

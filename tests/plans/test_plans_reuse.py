"""Before each batch is embedded its texts are looked up: that must cost little in a large theme, analysed or not."""

from __future__ import annotations

import psycopg
import pytest

from hermes_memory_pgvector.domain.text import digest
from tests.conftest import DIMS
from tests.support.plans import MODES, Mode, explained, indexes, read_whole

ROWS = 3000


@pytest.fixture(params=["analysed", "fresh"])
def filled(request: pytest.FixtureRequest, admin_dsn: str) -> str:
    """Tables with one large theme, which the planner does or does not know of."""
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        for table, column, value in (
            ("conversations", "session_id, role", "'s', 'user'"),
            ("memory_entries", "target", "'memory'"),
        ):
            admin.execute(f"DROP INDEX {table}_embedding_idx".encode())  # takes most of the time and is not used
            admin.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)".encode())
            admin.execute(
                f"INSERT INTO {table} (agent_identity, content, embedding, {column})"
                f" SELECT 'large', 'Row ' || n, array_fill(0.5, ARRAY[{DIMS}])::vector, {value}"
                f" FROM generate_series(1, {ROWS}) AS n".encode()
            )
            if request.param == "analysed":
                admin.execute(f"VACUUM ANALYZE {table}".encode())
    return admin_dsn


@pytest.mark.parametrize("mode", MODES)
def test_known_texts_are_found_by_their_digests(filled: str, mode: Mode) -> None:
    texts = [f"Row {number}" for number in range(ROWS - 60, ROWS + 60)]
    row = {"theme": "large", "digests": [digest(text) for text in texts]}
    with psycopg.connect(filled) as connection:
        nodes = explained(connection, "known_vectors", row, mode)

    assert indexes(nodes) == {"memory_entries_theme_digest_key", "conversations_digest_idx"}
    assert read_whole(nodes) == []
    # Of a theme's rows no more are read than there are texts.
    assert max(node["Actual Rows"] for node in nodes if "Index Name" in node) <= 1

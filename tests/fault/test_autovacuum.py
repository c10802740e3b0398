"""Autovacuum at work on a large table when somebody needs that to himself."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.admin.common import new_vectors
from hermes_memory_pgvector.admin.common.migrations import migrate, migrations
from hermes_memory_pgvector.domain.types import EmbeddingSpace
from tests.conftest import DIMS
from tests.support.own_postgres import OwnPostgres, own_postgres
from tests.support.stored import Database
from tests.support.waiting import until

# So slow that it takes minutes, as on a table of many gigabytes; from the start, since what is done is not done again.
FILL = """
ALTER TABLE conversations SET (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1,
    autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0);
INSERT INTO conversations (session_id, role, content)
SELECT 's', 'user', repeat('word ', 300) FROM generate_series(1, 6000);
UPDATE conversations SET embed_after = now()"""
AT_WORK = "SELECT pid FROM pg_stat_progress_vacuum WHERE relid = 'conversations'::regclass AND phase = 'scanning heap'"


@pytest.fixture(scope="module")
def server() -> Iterator[OwnPostgres]:
    with own_postgres(DIMS, autovacuum_naptime="1s") as server:
        yield server


def vacuumed(server: OwnPostgres, versions: int) -> Database:
    """A database of the first so many migrations, with autovacuum at its turns."""
    name = f"of_{versions}"
    with psycopg.connect(server.admin_dsn, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
    database = Database(make_conninfo(server.admin_dsn, dbname=name))
    with psycopg.connect(database.dsn, autocommit=True) as admin:
        admin.execute(f"SET hermes_pgvector.dims = {DIMS}".encode())
        for migration in migrations()[:versions]:
            admin.execute(migration.sql.encode())
        for statement in FILL.split(";"):
            admin.execute(statement.encode())
    until(lambda: database.column(AT_WORK), 300, "autovacuum at the turns")
    return database


def test_need_28_a_migration_goes_before_autovacuum(server: OwnPostgres) -> None:
    database = vacuumed(server, 6)
    assert "007_proposals" in migrate(database.dsn, dims=DIMS).applied


def test_need_18_a_change_of_the_model_goes_before_autovacuum(server: OwnPostgres) -> None:
    database = vacuumed(server, len(migrations()))
    space = EmbeddingSpace("another-model", DIMS)
    with new_vectors.admin_connection(database.dsn) as conn:
        new_vectors.begin(conn, space)
        assert new_vectors.running(conn) == space
        until(lambda: database.column(AT_WORK), 300, "autovacuum at the turns once more")
        assert new_vectors.abort(conn)

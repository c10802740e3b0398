"""Codes of three bits for each number of a vector: kept beside it, and computed for the rows of an older version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pgvector.psycopg import register_vector

from hermes_memory_pgvector.admin.common import codes, retrying
from hermes_memory_pgvector.admin.common.embedded_server import bring_up
from hermes_memory_pgvector.admin.common.migrations import migrations
from hermes_memory_pgvector.domain.types import Filters, Scope
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.store.pool import connect
from hermes_memory_pgvector.store.sql import queries
from tests.conftest import DIMS, MakeProvider
from tests.support.candidates import vector_candidates
from tests.support.databases import Databases
from tests.support.embedded import BIN_DIR, ask
from tests.support.memory import runtime_of
from tests.support.plans import MODES, explained, read_whole
from tests.support.stored import Database

from .conftest import Run
from .test_migrate import _SHAPE

TABLES = ("memory_entries", "conversations", "memory_chunks", "conversation_chunks")
WRONG = " UNION ALL ".join(
    f"SELECT '{table}' FROM {table} WHERE embedding IS NOT NULL AND code IS DISTINCT FROM hermes_code(embedding)"
    for table in TABLES
)
VECTOR = f"(SELECT array_agg(sin(n * 12.9898 + d * 78.233)) FROM generate_series(1, {DIMS}) AS d)::vector"
TURNS = (
    "INSERT INTO conversations (session_id, agent_identity, role, content, embedding)"
    f" SELECT 's', 'default', 'user', 'Turn ' || n, {VECTOR} FROM generate_series(1, 3000) AS n"
)
# As a version without codes writes: with the signatures that it knows.
ROWS = (
    "INSERT INTO memory_entries (agent_identity, target, content, embedding)"
    f" SELECT 'default', 'memory', 'Fact ' || n, {VECTOR} FROM generate_series(1, 30) AS n",
    TURNS,
    "INSERT INTO conversation_chunks (row_id, part, agent_identity, first_char, embedding, sig)"
    f" SELECT n, 1, 'default', 9, {VECTOR}, binary_quantize({VECTOR}) FROM generate_series(1, 5) AS n",
    "SET hermes_pgvector.keep_sig = 'on'",
    "UPDATE conversations SET embedding = NULL WHERE id <= 20",
    "UPDATE conversation_chunks SET embedding = NULL WHERE row_id <= 2",
)
CODED = "SELECT count(code) FROM conversations"


@pytest.fixture(scope="module")
def older(databases: Databases) -> Iterator[str]:
    """An admin's conninfo of a database with rows, as 003 left it, and after 004 by plain SQL; to be copied."""
    with databases.copy("template0") as admin_dsn:
        with psycopg.connect(admin_dsn, autocommit=True) as admin:
            admin.execute(f"SET hermes_pgvector.dims = {DIMS}".encode())
            admin.execute("SET hermes_pgvector.runtime_role = 'hermes'")
            for migration in migrations()[:3]:
                admin.execute(migration.sql.encode())
            for statement in ROWS:
                if statement == TURNS:
                    load(admin, statement)
                else:
                    admin.execute(statement.encode())
        yield admin_dsn


def load(admin: psycopg.Connection[Any], statement: str) -> None:
    """Insert many turns; the graph of their vectors is made once, over all of them."""
    index = "conversations_embedding_idx"
    found = admin.execute("SELECT indexdef FROM pg_indexes WHERE indexname = %s", (index,)).fetchone()
    assert found is not None
    admin.execute(f"DROP INDEX {index}".encode())
    admin.execute(statement.encode())
    admin.execute(found[0].encode())


@pytest.fixture
def of_version_003(databases: Databases, older: str) -> Iterator[str]:
    """An admin's conninfo of a copy of it."""
    with databases.copy_of(older) as admin_dsn:
        yield admin_dsn


def by_plain_sql(dsn: str) -> list[str]:
    """Apply 004 and what follows as psql does; what the server remarks."""
    said: list[str] = []
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.add_notice_handler(lambda diag: said.append(diag.message_primary or ""))
        for migration in migrations()[3:]:
            admin.execute(migration.sql.encode())
    return said


def migrated(cli: Run, dsn: str) -> dict[str, object]:
    done = cli("migrate", "--admin-dsn", dsn, "--dims", str(DIMS), "--runtime-role", "hermes", "--json")
    assert done.returncode == 0, done.stderr
    report: dict[str, object] = json.loads(done.stdout)
    return report


def test_need_13_rows_of_an_older_version_get_codes_and_the_schema_of_a_new_database(
    of_version_003: str, cli: Run, admin_dsn: str
) -> None:
    database = Database(of_version_003)
    report = migrated(cli, of_version_003)
    assert "004_codes" in str(report["applied"])
    assert {f"codes of {table}" for table in TABLES if table != "memory_chunks"} <= set(report["built"])  # type: ignore[call-overload]
    assert database.column(WRONG) == []
    assert database.column(CODED) == [2980], "a cold turn has nothing to compute a code of"
    assert database.column(_SHAPE) == Database(admin_dsn).column(_SHAPE)
    again = migrated(cli, of_version_003)
    assert (again["applied"], again["built"]) == ([], [])


def test_need_13_until_then_recall_goes_by_signatures(
    of_version_003: str, cli: Run, make_provider: MakeProvider
) -> None:
    said = by_plain_sql(of_version_003)
    assert any("hermes-pgvector migrate --admin-dsn" in line for line in said), said
    database = Database(of_version_003)
    backend = runtime_of(make_provider({"dsn": of_version_003, "dims": DIMS})).backend

    def nearest() -> list[list[int]]:
        found = []
        for number in (100, 101, 2500):
            (vector,) = database.column(f"SELECT embedding::float4[] FROM conversations WHERE id = {number}")
            with backend.connection(20.0) as conn:
                near = vector_candidates(conn, "turns", Scope("theme", "default"), Filters(), vector, limit=5)
            found.append([candidate.id for candidate in near])
        return found

    before = nearest()
    assert database.column(CODED) == [0]
    assert [ids[0] for ids in before] == [100, 101, 2500]
    with psycopg.connect(of_version_003, autocommit=True) as admin:  # as when it was interrupted half-way
        admin.execute("UPDATE conversations SET code = hermes_code(embedding) WHERE id % 2 = 0")
    assert nearest() == before
    migrated(cli, of_version_003)
    assert (database.column(WRONG), nearest()) == ([], before)


def test_need_13_an_interrupted_computation_goes_on(
    of_version_003: str, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_plain_sql(of_version_003)
    monkeypatch.setattr(retrying, "_BLOCKS", 20)
    told: list[tuple[int, int]] = []

    def stop_at_the_third(_: str, done: int, total: int) -> None:
        told.append((done, total))
        if len(told) == 3:
            raise KeyboardInterrupt

    with connect(of_version_003) as conn, pytest.raises(KeyboardInterrupt):
        codes.complete(conn, stop_at_the_third)
    assert told[-1][0] < told[-1][1]
    database = Database(of_version_003)
    (half,) = database.column(CODED)
    assert 0 < half < 2980
    migrated(cli, of_version_003)
    assert (database.column(WRONG), database.column(CODED)) == ([], [2980])


def test_need_13_what_an_older_version_writes_later_gets_codes(admin_dsn: str) -> None:
    database = Database(admin_dsn)
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("INSERT INTO conversations (session_id, role, content) VALUES ('s', 'user', 'said')")
        admin.execute(
            f"UPDATE conversations SET embedding = {VECTOR}, sig = binary_quantize({VECTOR})".replace(
                "n *", "7 *"
            ).encode()
        )
        admin.execute(ROWS[2].replace("generate_series(1, 5)", "generate_series(1, 1)").encode())
        assert admin.execute("SELECT count(code) FROM conversation_chunks").fetchone() == (1,)
    assert (database.column(CODED), database.column(WRONG)) == ([1], [])


def test_need_13_codes_come_from_their_index_where_one_theme_is_the_whole_table(admin_dsn: str, dsn: str) -> None:
    """A planner that takes each page of it for a seek would read the table instead."""
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        load(admin, TURNS.replace("'Turn ' || n", "repeat('said ' || n, 20)"))
        admin.execute("VACUUM ANALYZE conversations")
    with psycopg.connect(dsn, autocommit=True) as conn:
        register_vector(conn)
        limits = dict.fromkeys(("statement_ms", "lock_ms", "idle_ms", "transaction_ms"), "60000")
        for mode in MODES:
            with conn.transaction():
                conn.execute(queries()["set_timeouts"].encode(), limits | {"plans": "force_generic_plan", "path": ""})
                row = {"theme": "default", "vector": [0.5] * DIMS}
                nodes = explained(conn, "vector_search_turns", row, mode)
            assert not read_whole(nodes), (mode, nodes)
            wide = {node["Index Name"] for node in nodes if "Index Name" in node and node["Actual Rows"] == 3000}
            assert wide == {"conversations_theme_code_idx"}, (mode, nodes)


def test_need_13_the_embedded_server_goes_on_with_it_at_its_next_start(place: Path) -> None:
    """An upgrade that was killed half-way recorded the migration."""
    server = EmbeddedServer(place / "pg", bin_dir=BIN_DIR)
    try:
        admin = bring_up(server, dims=DIMS).admin
        with psycopg.connect(admin, autocommit=True) as conn:
            conn.execute(ROWS[0].encode())
            conn.execute("UPDATE memory_entries SET code = NULL")
        assert ask(bring_up(server, dims=DIMS).admin, "SELECT count(code) FROM memory_entries") == 0
        server.stop()
        assert ask(bring_up(server, dims=DIMS).admin, "SELECT count(code) FROM memory_entries") == 30
    finally:
        server.stop()
        server.release()

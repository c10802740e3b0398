"""Recall across all themes of a table so large that the graph of its vectors is walked."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from pgvector import Vector
from pgvector.psycopg import register_vector

from hermes_memory_pgvector.domain.types import Candidate, Filters, Scope, Store
from hermes_memory_pgvector.store.backend import Backend
from tests.conftest import MakeProvider
from tests.support.candidates import vector_candidates
from tests.support.databases import Databases
from tests.support.memory import runtime_of

from .conftest import DIMS

ROWS = 3000
RARE = 40  # rows of the role `tool`: more than one in a hundred, so that the graph is tried for them
START = datetime(2026, 1, 1, tzinfo=UTC)
EVERYWHERE = Scope("all", "theme-0")
TABLES: dict[Store, str] = {"turns": "conversations", "memories": "memory_entries"}
# fmt: off
_OURS = {
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "jit",
    "enable_sort",
    "application_name",  # which a pooler passes on
    "transaction_timeout", "idle_session_timeout", "DateStyle", "IntervalStyle", "TimeZone", "extra_float_digits",
    "standard_conforming_strings", "array_nulls", "row_security", "gin_fuzzy_search_limit", "client_encoding",
    "transaction_isolation", "default_transaction_isolation", "enable_seqscan", "enable_indexscan",
    "enable_indexonlyscan", "enable_bitmapscan", "enable_nestloop", "enable_hashjoin", "enable_mergejoin",
    "enable_hashagg", "enable_material", "plan_cache_mode", "tcp_keepalives_idle", "tcp_keepalives_interval",
}  # of every transaction, each to what Postgres itself would take
# fmt: on


def _near(dice: random.Random, centre: int) -> list[float]:
    """A vector around one of 40 centres."""
    around = random.Random(centre)
    return [around.gauss(0, 1) + dice.gauss(0, 0.6) for _ in range(DIMS)]


@pytest.fixture(scope="module")
def filled(databases: Databases, migrated_template: str) -> Iterator[str]:
    """An admin's conninfo of a database with 3,000 turns and as many memories in 30 themes, to be copied."""
    dice = random.Random(11)
    vectors = [_near(dice, dice.randrange(40)) for _ in range(ROWS)]
    with databases.copy(migrated_template) as admin_dsn:
        with psycopg.connect(admin_dsn, autocommit=True) as admin:
            register_vector(admin)
            for table, columns in (
                ("conversations", "agent_identity, embedding, content, session_id, role, ts"),
                ("memory_entries", "agent_identity, embedding, content, target, updated_at"),
            ):
                index = f"{table}_embedding_idx"
                admin.execute(f"DROP INDEX {index}".encode())  # at once it is built in a tenth of the time
                with admin.cursor().copy(f"COPY {table} ({columns}) FROM STDIN".encode()) as copy:
                    for row, vector in enumerate(vectors):
                        kind = "tool" if row % (ROWS // RARE) == 0 else "user"
                        more = ["s", kind] if table == "conversations" else ["memory" if kind == "user" else "user"]
                        at = START + timedelta(minutes=row)
                        copy.write_row([f"theme-{row % 30}", Vector(vector), f"Row {row}", *more, at])
                admin.execute(f"CREATE INDEX {index} ON {table} USING hnsw (sig bit_hamming_ops)".encode())
                admin.execute(f"VACUUM ANALYZE {table}".encode())
        yield admin_dsn


@pytest.fixture
def admin_dsn(databases: Databases, filled: str) -> Iterator[str]:
    """An admin's conninfo of a copy of it."""
    with databases.copy_of(filled) as made:
        yield made


@pytest.fixture
def backend(make_provider: MakeProvider) -> Backend:
    """The store of a provider with one connection, over these rows."""
    backend = runtime_of(make_provider({"pool_max_size": 1})).backend
    backend.bring_up()
    return backend


def _found(
    backend: Backend,
    store: Store,
    filters: Filters,
    vector: Sequence[float],
    *,
    limit: int = 10,
    graph_rows: int = 1000,
) -> list[Candidate]:
    with backend.connection(60) as conn:
        return vector_candidates(conn, store, EVERYWHERE, filters, vector, limit=limit, graph_rows=graph_rows)


def _exact(dsn: str, store: Store, vector: Sequence[float], passing: str = "true") -> list[int]:
    statement = f"SELECT id FROM {TABLES[store]} WHERE {passing} ORDER BY (embedding <=> %s) + 0 LIMIT 10"
    with psycopg.connect(dsn) as conn:
        register_vector(conn)
        return [row[0] for row in conn.execute(statement.encode(), (Vector(list(vector)),))]


def test_need_13_all_themes_of_a_large_table_give_what_an_exact_scan_gives(backend: Backend, dsn: str) -> None:
    dice = random.Random(12)
    store: Store
    for store in ("turns", "memories"):
        hits = 0
        for _ in range(20):
            vector = _near(dice, dice.randrange(40))
            found = _found(backend, store, Filters(), vector)
            assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
            hits += len({one.id for one in found} & set(_exact(dsn, store, vector)))
        assert hits / 200 >= 0.98, store


def test_need_13_a_filter_across_all_themes_finds_what_there_is(backend: Backend, dsn: str) -> None:
    """Be it much or little, near the question or far from it."""
    vector = _near(random.Random(13), 0)
    day = START + timedelta(days=1)
    cases: list[tuple[Store, Filters, str, int]] = [
        ("turns", Filters(role="tool"), "role = 'tool'", RARE),
        ("turns", Filters(role="tool", since=day), f"role = 'tool' AND ts >= '{day}'", 20),
        ("turns", Filters(role="assistant"), "false", 0),
        ("turns", Filters(since=day), f"ts >= '{day}'", ROWS - 1440),
        ("turns", Filters(until=START + timedelta(minutes=3)), f"ts < '{START + timedelta(minutes=3)}'", 3),
        ("memories", Filters(target="user"), "target = 'user'", RARE),
        ("memories", Filters(since=day), f"updated_at >= '{day}'", ROWS - 1440),
    ]
    for store, filters, passing, count in cases:
        found = _found(backend, store, filters, vector, limit=RARE + 10)
        assert len(found) == min(count, RARE + 10), filters
        exact = _exact(dsn, store, vector, passing)
        assert len({one.id for one in found[:10]} & set(exact)) >= len(exact) - 1, filters


def test_need_13_without_the_graph_all_themes_are_searched_by_signature(
    backend: Backend, admin_dsn: str, dsn: str
) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("DROP INDEX conversations_embedding_idx")
    vector = _near(random.Random(14), 0)
    assert {one.id for one in _found(backend, "turns", Filters(), vector)} == set(_exact(dsn, "turns", vector))


def test_need_30_no_setting_outlives_its_transaction(backend: Backend) -> None:
    """Behind PgBouncer the connection is somebody else's by then."""
    for filters in (Filters(), Filters(role="tool"), Filters(role="assistant")):
        for graph_rows in (1000, 10**9):
            _found(backend, "turns", filters, _near(random.Random(15), 0), graph_rows=graph_rows)
            with backend.connection(60) as conn:
                changed = {row.name for row in conn.execute("SELECT name FROM pg_settings WHERE source = 'session'")}
                breadth = conn.execute("SELECT current_setting('hnsw.ef_search', true) AS breadth").fetchone()
            assert changed <= _OURS
            assert breadth is not None and breadth.breadth in (None, "", "40"), "Postgres' own default"

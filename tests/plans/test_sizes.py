"""The plans of the hot statements at 10, 10,000 and 300,000 turns: new tables and vacuumed ones, whatever Postgres
plans by."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from pgvector.psycopg import register_vector

from hermes_memory_pgvector.store.sql import queries
from tests.support.plans import MODES, explained, indexes, read_whole

from .conftest import DIMS, LARGE, MEMORIES_SHARE, SIZES, SMALL, Tables

STORES = {"turns": "conversations", "memories": "memory_entries"}
STATES = list(itertools.product(SIZES, (False, True)))
MakeTables = Callable[[int, bool], Tables]
_VECTOR = [0.5] * DIMS


@contextmanager
def _runtime(tables: Tables) -> Iterator[psycopg.Connection[Any]]:
    """The runtime role's connection, with what the product sets for a transaction."""
    with psycopg.connect(tables.dsn, autocommit=True) as conn:
        register_vector(conn)
        conn.execute("SET jit = off")
        conn.execute("SET enable_sort = off")
        conn.execute("SET random_page_cost = 1")  # as set_timeouts does for recall
        yield conn


def _rows_of(theme: str, store: str, tables: Tables) -> int:
    rows = max(10, tables.turns if store == "turns" else tables.turns // MEMORIES_SHARE)
    return rows // 5 if theme == LARGE else max(1, rows // 1000)


def _some_ids(conn: psycopg.Connection[Any]) -> list[int]:
    return [row[0] for row in conn.execute("SELECT id FROM conversations WHERE agent_identity = %s LIMIT 80", [LARGE])]


@pytest.mark.parametrize(("turns", "vacuumed"), STATES)
def test_need_13_signatures_of_a_theme_come_from_their_index(tables: MakeTables, turns: int, vacuumed: bool) -> None:
    """Where there are enough rows that it matters, and never by way of the graph, which would cut the theme short."""
    at = tables(turns, vacuumed)
    with _runtime(at) as conn:
        for store, theme, mode in itertools.product(STORES, (LARGE, SMALL), MODES):
            nodes = explained(conn, f"vector_search_{store}", {"theme": theme, "vector": _VECTOR}, mode)
            case = (store, theme, mode, nodes)
            assert f"{STORES[store]}_embedding_idx" not in indexes(nodes), case
            own = _rows_of(theme, store, at)
            if turns > 10:
                assert not read_whole(nodes), case
                assert max(node["Actual Rows"] for node in nodes if "Index Name" in node) <= max(own, 1), case
            if turns > 10 and vacuumed:
                for scan in [
                    node
                    for node in nodes
                    if node.get("Parent Relationship") != "Inner" and "Index Name" in node and node["Actual Loops"]
                ]:
                    assert scan["Node Type"] == "Index Only Scan", case
                    known = {f"{STORES[store]}_theme_code_idx", f"{STORES[store]}_theme_sig_idx"}
                    assert scan["Index Name"] in known and scan["Heap Fetches"] == 0, case


@pytest.mark.parametrize(("turns", "vacuumed"), STATES)
def test_need_13_filtered_signatures_read_no_other_theme(tables: MakeTables, turns: int, vacuumed: bool) -> None:
    row: dict[str, Any] = {"vector": _VECTOR, "theme": SMALL, "role": "user", "target": "memory", "session_id": None}
    with _runtime(tables(turns, vacuumed)) as conn:
        for mode, since in itertools.product(MODES, ("-infinity", "2024-01-01 12:00")):
            for store, table in STORES.items():
                nodes = explained(conn, f"vector_search_{store}_filtered", row | {"since": since}, mode)
                assert f"{table}_embedding_idx" not in indexes(nodes), (store, mode, nodes)
                assert turns == 10 or not read_whole(nodes), (store, mode, nodes)
            nodes = explained(conn, "vector_search_turns_session", row | {"session_id": "s1", "since": since}, mode)
            assert turns == 10 or not read_whole(nodes), (mode, nodes)


@pytest.mark.parametrize(("turns", "vacuumed"), STATES)
def test_need_13_the_graph_is_walked_where_it_is_asked_for(tables: MakeTables, turns: int, vacuumed: bool) -> None:
    """In order, without a sort of the table; and left alone where it is not asked for."""
    with _runtime(tables(turns, vacuumed)) as conn:
        for store, mode in itertools.product(STORES, MODES):
            graph = f"{STORES[store]}_embedding_idx"
            if store == "turns":
                nodes = explained(conn, "vector_search_turns_cold", {"vector": _VECTOR}, mode)
                assert turns == 10 or indexes(nodes) == {"conversations_cold_idx"}, (mode, nodes)
            for since in ("-infinity", "2024-01-01 12:00"):
                with conn.transaction():
                    conn.execute(queries()["walk_vectors"].encode(), {"breadth": 40, "most": 1000})
                    row = {"vector": _VECTOR, "since": since, "depth": 40, "walked": 40}
                    nodes = explained(conn, f"vector_search_{store}_walk_sig", row, mode)
                assert graph in indexes(nodes), (store, mode, nodes)
                assert turns == 10 or not read_whole(nodes), (store, mode, nodes)
            for name in (f"vector_search_{store}_all", f"vector_search_{store}_all_filtered"):
                nodes = explained(conn, name, {"vector": _VECTOR}, mode)
                assert graph not in indexes(nodes), (name, mode, nodes)
                reranked = [node for node in nodes if node.get("Index Name") == f"{STORES[store]}_pkey"]
                # After them, of those that are near enough, what stands beside them is looked up: of none here.
                loops = [node["Actual Loops"] for node in reranked if node["Actual Loops"]]
                assert turns == 10 or loops in ([400], [400, 40]), (name, mode, nodes)


@pytest.mark.parametrize(("turns", "vacuumed"), STATES)
def test_need_20_rows_are_fetched_by_their_key(tables: MakeTables, turns: int, vacuumed: bool) -> None:
    with _runtime(tables(turns, vacuumed)) as conn:
        ids = [
            row[0] for row in conn.execute("SELECT id FROM conversations WHERE agent_identity = %s LIMIT 80", [LARGE])
        ]
        for store, mode, everywhere in itertools.product(STORES, MODES, (False, True)):
            row = {"ids": ids, "theme": LARGE, "any_theme": everywhere, "vector": _VECTOR, "words": ["harbour"]}
            nodes = explained(conn, f"fetch_{store}", row, mode)
            parts = {"memory_chunks_pkey", "conversation_chunks_pkey"}  # unused while there are no long texts
            assert turns == 10 or indexes(nodes) - parts == {f"{STORES[store]}_pkey"}, (store, mode, nodes)


@pytest.mark.parametrize(("turns", "vacuumed"), STATES)
def test_need_20_neighbours_are_read_alone(tables: MakeTables, turns: int, vacuumed: bool) -> None:
    """Of a session of any length no more than the turns right before and after."""
    with _runtime(tables(turns, vacuumed)) as conn:
        ids = [
            row[0] for row in conn.execute("SELECT id FROM conversations WHERE agent_identity = %s LIMIT 40", [LARGE])
        ]
        for mode, everywhere in itertools.product(MODES, (False, True)):
            row = {"ids": ids, "theme": LARGE, "any_theme": everywhere, "reach": 1}
            nodes = explained(conn, "neighbours", row, mode)
            if turns > 10:
                assert indexes(nodes) == {"conversations_pkey", "conversations_session_time_idx"}, (mode, nodes)
                assert not [node for node in nodes if node["Node Type"] == "Sort"], (mode, nodes)


def test_need_20_neighbours_in_a_very_long_session(admin_dsn: str) -> None:
    """A chat that never ends, in a fleet of short sessions, costs what any other does."""
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("""
            INSERT INTO conversations (session_id, agent_identity, role, content, ts)
            SELECT CASE WHEN n % 2 = 0 THEN 'endless' ELSE 's' || n / 6 END, 'theme', 'user', 'Row ' || n,
                   now() + n * interval '1 minute'
              FROM generate_series(1, 12000) AS n""")
        admin.execute("SET enable_sort = off")
        ids = [row[0] for row in admin.execute("SELECT id FROM conversations WHERE id % 300 = 0 OR id % 301 = 0")]
        row = {"theme": "theme", "any_theme": False, "reach": 2, "ids": ids}
        for state in ("BEGIN; COMMIT", "VACUUM ANALYZE conversations"):
            admin.execute(state.encode())
            for mode in MODES:
                for node in explained(admin, "neighbours", row, mode):
                    assert node["Node Type"] != "Sort" and node["Actual Rows"] <= len(ids), (state, mode, node)

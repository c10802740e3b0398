"""The plans of the hot statements: what makes recall fast must not depend on the planner's mood."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from pgvector import Vector
from pgvector.psycopg import register_vector

from hermes_memory_pgvector.store.sql import queries
from tests.conftest import DIMS

TABLES = {"turns": "conversations", "memories": "memory_entries"}
THEMES = {"large": 3000, "small": 20}
_TYPES = {
    "theme": "text", "session_id": "text", "target": "text", "vector": "vector", "depth": "bigint", "limit": "bigint",
    "terms": "text[]", "match": "text",
}  # fmt: skip


@pytest.fixture
def filled(admin_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the runtime role to tables with a large and a small theme, vacuumed."""
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        for index in ("conversations_embedding_idx", "memory_entries_embedding_idx"):
            admin.execute(f"DROP INDEX {index}".encode())  # rebuilt below: row by row it takes most of the time
        for theme, count in THEMES.items():
            for table, columns, values in (
                ("conversations", "session_id, role", "'s' || n % 7, 'user'"),
                ("memory_entries", "target", "'memory'"),
            ):
                statement = f"""
                    INSERT INTO {table} (agent_identity, content, embedding, {columns})
                    SELECT %s, 'Row ' || n || ' about topic ' || n %% 50,
                           (SELECT array_agg(sin(n * 7.13 + d * 1.7)) FROM generate_series(1, {DIMS}) AS d)::vector,
                           {values.replace("%", "%%")}
                      FROM generate_series(1, %s) AS n"""
                admin.execute(statement.encode(), (theme, count))
        for table in ("conversations", "memory_entries"):
            admin.execute(
                f"CREATE INDEX {table}_embedding_idx ON {table} USING hnsw (embedding vector_cosine_ops)".encode()
            )
            admin.execute(f"VACUUM ANALYZE {table}".encode())
        admin.execute("SET ROLE hermes")
        register_vector(admin)
        yield admin


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def _plan(connection: psycopg.Connection[Any], name: str, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Every node of the plan with which Postgres runs the statement `name`, prepared as psycopg prepares it."""
    statement = queries()[name].replace("%%", "%")
    used = [parameter for parameter in _TYPES if f"%({parameter})s" in statement]
    for number, parameter in enumerate(used, 1):
        statement = statement.replace(f"%({parameter})s", f"${number}")
    row = {"vector": Vector([0.1] * DIMS), "depth": 400, "limit": 40} | row
    with psycopg.ClientCursor(connection) as cursor:
        types = ", ".join(_TYPES[parameter] for parameter in used)
        cursor.execute("DEALLOCATE ALL")
        cursor.execute(f"PREPARE hot ({types}) AS {statement}".encode())
        values = ", ".join(["%s"] * len(used))
        call = f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE hot ({values})"
        found = cursor.execute(call.encode(), [row.get(parameter) for parameter in used]).fetchone()
    assert found is not None
    plan = found[0] if isinstance(found[0], list) else json.loads(found[0])
    return list(_nodes(plan[0]["Plan"]))


def test_need_13_signatures_come_from_the_covering_index_alone(filled: psycopg.Connection[Any]) -> None:
    for store, theme, mode in itertools.product(TABLES, THEMES, ("force_custom_plan", "force_generic_plan")):
        filled.execute(f"SET plan_cache_mode = {mode}".encode())
        nodes = _plan(filled, f"vector_search_{store}", {"theme": theme})
        case = (store, theme, mode)
        (scan,) = [node for node in nodes if node["Node Type"] == "Index Only Scan"]
        assert scan["Index Name"] == f"{TABLES[store]}_theme_sig_idx", case
        assert scan["Heap Fetches"] == 0, case
        assert scan["Actual Rows"] == THEMES[theme], case
        others = {node["Index Name"] for node in nodes if "Index Name" in node}
        assert f"{TABLES[store]}_embedding_idx" not in others, "an approximate index would cut the theme short"


def test_need_20_words_come_from_the_text_index(filled: psycopg.Connection[Any]) -> None:
    for store, mode in itertools.product(TABLES, ("force_custom_plan", "force_generic_plan")):
        filled.execute(f"SET plan_cache_mode = {mode}".encode())
        nodes = _plan(filled, f"lexical_search_{store}", {"theme": "large", "terms": ["'17'"], "match": "'17'"})
        assert f"{TABLES[store]}_tsv_idx" in {node.get("Index Name") for node in nodes}, (store, mode)

"""The plans of the hot statements: what makes recall fast must not depend on the planner's mood."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.conftest import DIMS
from tests.support.databases import Databases
from tests.support.statements import every_statement

TABLES = {"turns": "conversations", "memories": "memory_entries"}
THEMES = {"large": 3000, "small": 20}
_TYPES = {
    "theme": "text", "session_id": "text", "target": "text", "limit": "bigint",
    "matchers": "text[]", "holding": "float8[]", "shares": "float8[]", "absent": "float8[]",
    "pivot": "float8", "signed": "bigint", "walked": "bigint", "match": "text", "recent": "boolean", "exact": "boolean",
    "whole": "boolean", "rows": "float8", "role": "text", "phrase": "text", "words": "text[]", "initials": "text[]",
    "ids": "bigint[]", "any_theme": "boolean", "since": "text", "until": "text", "own": "text", "shared": "text[]",
    "scopes": "text[]", "language": "text", "kinds": "text[]", "starts": "timestamptz[]", "ends": "timestamptz[]",
    "most": "bigint", "which": "text", "besides": "text[]", "turns": "bigint", "told_in": "text",
}  # fmt: skip
MODES = ("force_custom_plan", "force_generic_plan")


@pytest.fixture(scope="module")
def tables(databases: Databases, migrated_template: str) -> Iterator[str]:
    """An admin's conninfo of a database with a large and a small theme, vacuumed, to be copied."""
    with databases.copy(migrated_template) as admin_dsn:
        _fill(admin_dsn)
        yield admin_dsn


def _fill(admin_dsn: str) -> None:
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
            admin.execute(f"CREATE INDEX {table}_embedding_idx ON {table} USING hnsw (sig bit_hamming_ops)".encode())
            admin.execute(f"VACUUM ANALYZE {table}".encode())


@pytest.fixture
def filled(databases: Databases, tables: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the runtime role to a copy of it."""
    with databases.copy_of(tables) as admin_dsn, psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("SET ROLE hermes")
        yield admin


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def _plan(connection: psycopg.Connection[Any], name: str, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Every node of the plan with which Postgres runs the statement `name`, prepared as psycopg prepares it."""
    statement = every_statement()[name].replace("%%", "%")
    used = [parameter for parameter in _TYPES if f"%({parameter})s" in statement]
    for number, parameter in enumerate(used, 1):
        statement = statement.replace(f"%({parameter})s", f"${number}")
    row = {"limit": 40, "since": "-infinity", "until": "infinity", "own": row.get("theme"), "shared": []} | row
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


def test_need_20_words_come_from_the_text_index(filled: psycopg.Connection[Any]) -> None:
    row = {"matchers": ["'17'"], "match": "'17'", "rows": 3000, "recent": False, "limit": 40}
    row |= {"theme": "large", "holding": [None], "shares": [1.0], "absent": [1.0], "pivot": 45}
    for store, mode, exact in itertools.product(TABLES, MODES, (False, True)):
        filled.execute(f"SET plan_cache_mode = {mode}".encode())
        nodes = _plan(filled, f"lexical_search_{store}", row | {"exact": exact})
        assert f"{TABLES[store]}_tsv_idx" in {node.get("Index Name") for node in nodes}, (store, mode)


def test_need_20_the_turns_of_a_day_come_from_the_index_of_times(filled: psycopg.Connection[Any]) -> None:
    day = datetime.now(UTC)
    row = {"theme": "large", "starts": [day - timedelta(days=1)], "ends": [day + timedelta(days=1)], "most": 500}
    for mode in MODES:
        filled.execute(f"SET plan_cache_mode = {mode}".encode())
        nodes = _plan(filled, "beginnings", row | {"limit": 20, "told_in": None})
        (read,) = [node for node in nodes if node.get("Relation Name") == "conversations"]
        assert read.get("Index Name") == "conversations_theme_time_idx", (mode, read)
        assert read["Actual Rows"] <= 500


def test_need_20_the_latest_memories_come_from_the_index_of_times(filled: psycopg.Connection[Any]) -> None:
    day = datetime.now(UTC)
    row = {"theme": "large", "starts": [day - timedelta(days=1)], "ends": [day + timedelta(days=1)], "most": 500}
    for mode in MODES:
        filled.execute(f"SET plan_cache_mode = {mode}".encode())
        nodes = _plan(filled, "latest_memories", row | {"limit": 20})
        read = next(node for node in nodes if node.get("Index Name") == "memory_entries_theme_time_idx")
        assert read["Actual Rows"] <= 500, (mode, read)
        assert "Seq Scan" not in {node["Node Type"] for node in nodes if node.get("Relation Name") == "memory_entries"}


@pytest.mark.parametrize("which", ["first", "last", "end"])
def test_need_20_a_session_is_found_by_indexes(which: str, filled: psycopg.Connection[Any]) -> None:
    row = {"theme": "large", "which": which, "besides": ["none"], "turns": 6}
    for mode in MODES:
        filled.execute(f"SET plan_cache_mode = {mode}".encode())
        nodes = [node for node in _plan(filled, "session_span", row) if node.get("Relation Name") == "conversations"]
        assert nodes and all(node.get("Index Name") for node in nodes), (mode, nodes)
        assert sum(node["Actual Rows"] * node["Actual Loops"] for node in nodes) <= 500, (mode, nodes)


@pytest.mark.parametrize("analysed", [True, False], ids=["analysed", "not analysed"])
def test_need_20_no_statement_by_words_reads_the_whole_table(admin_dsn: str, analysed: bool) -> None:
    """In a theme of 1 % of the rows, for a word that stands in all of them."""
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("""
            INSERT INTO conversations (session_id, agent_identity, role, content)
            SELECT 's' || n % 70, CASE WHEN n % 100 = 0 THEN 'small' ELSE 'other ' || n % 7 END, 'user',
                   'Row ' || n || ' about topic ' || n % 50
              FROM generate_series(1, 20000) AS n""")
        # The list of rows not yet in the index proper is short in a table in use, and here would be most of the index.
        admin.execute("SELECT gin_clean_pending_list('conversations_tsv_idx')")
        if analysed:
            admin.execute("VACUUM ANALYZE conversations")
        admin.execute("SET ROLE hermes")
        admin.execute("SET enable_sort = off")  # as set_timeouts does for the length of a transaction
        words: dict[str, Any] = {"matchers": ["'topic'", "'17'"], "holding": [150.0, None]}
        words |= {"shares": [1, 1], "absent": [1, 1], "pivot": 45}
        search = words | {"rows": 200.0} | {"recent": True, "limit": 40, "role": "user", "session_id": "s1"}
        for mode, match in itertools.product(MODES, ("'topic' | '17'", "'17'", None)):
            admin.execute(f"SET plan_cache_mode = {mode}".encode())
            for name, row in (
                ("query_terms_turns", words),
                ("lexical_search_turns", search | {"match": match}),
                ("lexical_search_turns", search | {"match": match, "recent": False, "exact": True}),
                ("lexical_search_turns", search | {"match": match, "recent": False, "exact": True, "whole": True}),
                ("lexical_search_turns_session", search | {"match": match}),
            ):
                nodes = _plan(admin, name, row | {"theme": "small"})
                read = [n for n in nodes if n["Node Type"] == "Seq Scan" and n.get("Actual Loops")]
                assert not read, (name, mode, match, read)


@pytest.mark.parametrize("analysed", [True, False], ids=["analysed", "not analysed"])
def test_procedures_are_looked_for_among_what_has_a_state(admin_dsn: str, analysed: bool) -> None:
    """In a large theme without any, beside one with facts, that is one look into an index."""
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("""
            INSERT INTO memory_entries (agent_identity, target, content, kind, state, applies_when)
            SELECT CASE WHEN n % 3 = 0 THEN 'facts' ELSE 'plain' END, 'memory', 'Memory ' || n,
                   CASE WHEN n % 3 > 0 THEN NULL WHEN n % 300 = 0 THEN 'procedure' ELSE 'fact' END,
                   CASE WHEN n % 3 = 0 THEN 'active' END, CASE WHEN n % 300 = 0 THEN 'deploying ' || n END
              FROM generate_series(1, 6000) AS n""")
        if analysed:
            admin.execute("VACUUM ANALYZE memory_entries")
        admin.execute("SET ROLE hermes")
        admin.execute("SET enable_sort = off")  # as set_timeouts does for the length of a transaction
        for mode, (theme, rows) in itertools.product(MODES, (("plain", 0), ("facts", 20))):
            admin.execute(f"SET plan_cache_mode = {mode}".encode())
            nodes = _plan(admin, "procedures", {"theme": theme, "any_theme": False})
            (read,) = [node for node in nodes if node.get("Index Name") == "memory_entries_procedures_idx"]
            assert read["Actual Rows"] == rows, (theme, mode)


def test_need_20_phrases_and_slips_come_from_the_text_index(filled: psycopg.Connection[Any]) -> None:
    filled.execute("RESET ROLE")
    filled.execute("CREATE EXTENSION pg_trgm")
    filled.execute("SET ROLE hermes")
    phrase = {"match": "'topic' & '17'", "phrase": "topic 17"}
    slip = {"words": ["topci"], "initials": ["o", "t"]}
    for store, mode, scope in itertools.product(TABLES, MODES, ({"any_theme": False}, {"any_theme": True})):
        filled.execute(f"SET plan_cache_mode = {mode}".encode())
        for name, row in (
            (f"phrase_search_{store}", phrase),
            (f"near_words_{store}", slip | {"match": "'tob':*"}),
        ):
            nodes = _plan(filled, name, row | scope | {"theme": "large"})
            assert f"{TABLES[store]}_tsv_idx" in {node.get("Index Name") for node in nodes}, (name, mode, scope)


@pytest.mark.parametrize("analysed", [True, False], ids=["analysed", "not analysed"])
def test_need_20_the_newest_rows_of_a_large_theme_are_read_alone(admin_dsn: str, analysed: bool) -> None:
    """However small the planner takes the theme to be."""
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("ALTER TABLE conversations SET (autovacuum_enabled = off)")
        admin.execute("""
            INSERT INTO conversations (session_id, agent_identity, role, content, ts)
            SELECT 's1', 'large', 'user', 'Row ' || n || ' about topic ' || n % 50, now() - make_interval(mins => n)
              FROM generate_series(1, 12000) AS n""")
        if analysed:
            admin.execute("VACUUM ANALYZE conversations")
        admin.execute("SET ROLE hermes")
        row = {"matchers": ["'topic'"], "holding": [12000.0], "shares": [1.0], "absent": [1.0]}
        row |= {"rows": 12000.0, "pivot": 45, "recent": True, "match": None}
        for mode in MODES:
            admin.execute(f"SET plan_cache_mode = {mode}".encode())
            for name, most in (
                ("count_some_turns", 5001),
                ("query_terms_turns", 1000),
                ("lexical_search_turns", 1000),
                ("lexical_search_turns_session", 5000),
            ):
                with admin.transaction():
                    admin.execute("SET LOCAL enable_sort = off", prepare=False)  # as set_timeouts does
                    nodes = _plan(admin, name, row | {"theme": "large", "session_id": "s1"})
                reads = [n["Actual Rows"] for n in nodes if n.get("Relation Name") or n.get("Index Name")]
                assert max(reads) <= most, (name, mode, reads)


def test_need_20_what_the_question_alone_says_is_computed_once() -> None:
    """A generic plan folds no parameter: outside a sub-select it is cast or quantized for every row looked at."""
    named = ("lexical_search_", "vector_search_", "chunk_search_", "phrase_search_")
    # Across all themes with a filter plans are made for the values, which have to be in sight.
    statements = {
        name: text
        for name, text in every_statement().items()
        if name.startswith(named) and not name.endswith(("_walk_sig", "_walk_embedding", "_all_filtered"))
    }
    once = (
        "binary_quantize(%(vector)s)",
        "hermes_code(%(vector)s)",
        "hermes_code(%(vector)s::vector)",
        "%(since)s::timestamptz",
        "%(until)s::timestamptz",
        "hermes_folded(%(phrase)s)",
    )
    assert statements
    for name, text in statements.items():
        for expression in once:
            assert text.count(expression) == text.count(f"(SELECT {expression})"), (name, expression)
        assert "%(match)s::tsquery) IS NOT TRUE" not in text.replace("(SELECT %(match)s::tsquery)", ""), name


def test_what_holds_in_a_theme_comes_from_an_index_of_such_memories(filled: psycopg.Connection[Any]) -> None:
    filled.execute("SET enable_sort = off")  # as set_timeouts does for the length of a transaction
    for mode, theme in itertools.product(MODES, THEMES):
        filled.execute(f"SET plan_cache_mode = {mode}".encode())
        nodes = _plan(filled, "hot_facts", {"theme": theme})
        reads = [(node["Index Name"], node["Actual Rows"]) for node in nodes if node.get("Relation Name")]
        # Of the facts, and of their scopes where there are any.
        assert reads == [("memory_entries_subject_idx", 0)] * 2, (mode, theme)


def test_the_turns_that_name_a_scope_are_looked_for_among_the_newest_alone(filled: psycopg.Connection[Any]) -> None:
    filled.execute("SET enable_sort = off")  # as set_timeouts does for the length of a transaction
    for mode in MODES:
        filled.execute(f"SET plan_cache_mode = {mode}".encode())
        asked = {"theme": "large", "scopes": ["topic", "9"], "language": "english", "limit": 40}
        nodes = _plan(filled, "turns_naming", asked)
        reads = [node for node in nodes if node.get("Relation Name") == "conversations"]
        assert [(node["Index Name"], node["Actual Rows"]) for node in reads] == [("conversations_theme_time_idx", 40)]

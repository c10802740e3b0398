"""Tables of three sizes, each as it is right after the load and after a vacuum."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.admin.common.migrations import migrate
from hermes_memory_pgvector.server.cluster import EmbeddedServer

DIMS = 8
SIZES = (10, 10_000, 300_000)
LARGE, MIDDLE, SMALL = "theme-0", "theme-1", "theme-999"  # a fifth, 0.3 % and 0.1 % of the rows, but at least one
MEMORIES_SHARE = 10  # one entry of memory for so many turns
_TABLES = {
    "conversations": (
        1,
        "session_id, role, ts",
        "'s' || n / 200, (ARRAY['user', 'assistant'])[1 + n % 2], '2024-01-01'::timestamptz + n * interval '1 minute'",
    ),
    "memory_entries": (
        MEMORIES_SHARE,
        "target, updated_at",
        "'memory', '2024-01-01'::timestamptz + n * interval '10 minutes'",
    ),
}


@dataclass(frozen=True)
class Tables:
    """A migrated database with so many turns; `vacuumed` and analysed, or without any statistics."""

    dsn: str
    turns: int
    vacuumed: bool


@pytest.fixture(scope="module")
def tables(postgres: EmbeddedServer) -> Iterator[Callable[[int, bool], Tables]]:
    """Makes them when they are first asked for."""
    admin = postgres.ensure().admin
    made: dict[tuple[int, bool], Tables] = {}

    def get(turns: int, vacuumed: bool) -> Tables:
        if (turns, vacuumed) not in made:
            made[turns, vacuumed] = _make(admin, turns, vacuumed, get)
        return made[turns, vacuumed]

    yield get
    with psycopg.connect(admin, autocommit=True) as conn:
        for one in made:
            conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(_name(*one))))


def _name(turns: int, vacuumed: bool) -> str:
    return f"plans_{turns}_{'vacuumed' if vacuumed else 'loaded'}"


def _make(admin: str, turns: int, vacuumed: bool, get: Callable[[int, bool], Tables]) -> Tables:
    name = sql.Identifier(_name(turns, vacuumed))
    dsn = make_conninfo(admin, dbname=_name(turns, vacuumed))
    template = sql.SQL("template0")
    if vacuumed:
        get(turns, False)
        template = sql.Identifier(_name(turns, False))
    with psycopg.connect(admin, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(name, template))
    if not vacuumed:
        migrate(dsn, dims=DIMS, runtime_role="hermes")
    with psycopg.connect(dsn, autocommit=True) as conn:
        if vacuumed:
            conn.execute("VACUUM ANALYZE")
        else:
            _load(conn, turns)
    return Tables(make_conninfo(dsn, user="hermes"), turns, vacuumed)


def _load(conn: psycopg.Connection[Any], turns: int) -> None:
    """Fill the tables and leave them as autovacuum finds them: no statistics, no page known to be visible to all."""
    conn.execute("SET maintenance_work_mem = '1GB'")
    for table, (share, columns, values) in _TABLES.items():
        conn.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
        # Made from every text, the words of so many rows would take most of the time.
        conn.execute(f"ALTER TABLE {table} ALTER COLUMN tsv DROP EXPRESSION".encode())
        indexes = conn.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = %s AND indexdef NOT LIKE '%% UNIQUE %%'",
            (table,),
        ).fetchall()
        for index, _ in indexes:
            conn.execute(f"DROP INDEX {index}".encode())
        conn.execute(
            f"""
            INSERT INTO {table} (agent_identity, content, embedding, tsv, {columns})
            SELECT theme, 'Row ' || n,
                   ARRAY[sin(n * 7.1), sin(n * 1.3), sin(n * 2.7), cos(n * 3.3),
                         cos(n * 5.9), sin(n * 0.7), cos(n * 9.1), 0.1]::vector,
                   array_to_tsvector(ARRAY[lexeme, 'row', (n % 50)::text]), {values}
              FROM generate_series(1, {max(10, turns // share)}) AS n
              JOIN (SELECT t, 'theme-' || t AS theme, hermes_theme_lexeme('theme-' || t) AS lexeme
                      FROM generate_series(0, 999) AS t) AS themes
                ON t = CASE WHEN n % 5 = 0 THEN 0 WHEN n % 1000 = 1 THEN 999 ELSE n % 300 + 1 END""".encode()
        )
        for _, definition in indexes:
            # A thin graph is soon made, and has the same plans.
            conn.execute(re.sub(r"WITH \(m=.*\)", "WITH (m=4, ef_construction=8)", definition).encode())
        conn.execute("UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE relname = %s", (table,))

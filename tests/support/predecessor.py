"""A database as the other hermes-memory-pgvector leaves it: its tables, as they are known, and rows of every kind."""

from __future__ import annotations

from typing import Any, Literal

import psycopg
from pgvector import Vector
from pgvector.psycopg import register_vector
from psycopg.types.json import Jsonb

DIMS = 768
Release = Literal["0.3.0", "1.0.0"]
BOTH: tuple[Release, ...] = ("0.3.0", "1.0.0")
AT, LATER = "2026-03-01 10:00:00+00", "2026-04-01 12:00:00+00"

_MAIN = """
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE memory_entries (
    id bigserial PRIMARY KEY, agent_identity text NOT NULL DEFAULT 'default',
    target text NOT NULL CHECK (target IN ('memory', 'user')), content text NOT NULL, embedding vector(768),
    created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now(),
    metadata jsonb NOT NULL DEFAULT '{}', CONSTRAINT memory_entries_unique UNIQUE (agent_identity, target, content));
CREATE INDEX ix_memory_entries_agent_target ON memory_entries (agent_identity, target, updated_at DESC);
CREATE INDEX ix_memory_entries_embedding_hnsw ON memory_entries USING hnsw (embedding vector_cosine_ops);
CREATE TABLE conversations (
    id bigserial PRIMARY KEY, session_id text NOT NULL, agent_identity text NOT NULL DEFAULT 'default',
    role text NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')), content text NOT NULL,
    ts timestamptz NOT NULL DEFAULT now(), embedding vector(768), metadata jsonb NOT NULL DEFAULT '{}');
CREATE INDEX ix_conversations_session_ts ON conversations (session_id, ts DESC);
CREATE INDEX ix_conversations_agent_ts ON conversations (agent_identity, ts DESC);
CREATE INDEX ix_conversations_embedding_hnsw ON conversations USING hnsw (embedding vector_cosine_ops)"""
_LATER = """
ALTER TABLE conversations ADD COLUMN parent_session_id text;
CREATE TABLE memory_agents (
    id bigserial PRIMARY KEY, agent_identity text NOT NULL UNIQUE, kind text NOT NULL DEFAULT 'theme',
    first_seen timestamptz NOT NULL DEFAULT now(), last_seen timestamptz NOT NULL DEFAULT now(), attrs jsonb);
CREATE TABLE memory_agent_edges (
    id bigserial PRIMARY KEY, parent_identity text, child_identity text, parent_session_id text, child_session_id text,
    kind text NOT NULL DEFAULT 'delegated', ts timestamptz NOT NULL DEFAULT now(), attrs jsonb);
CREATE TABLE memory_maintenance_log (
    id bigserial PRIMARY KEY, ts timestamptz NOT NULL DEFAULT now(), operation text NOT NULL, target_table text,
    identity_pattern text, affected_count integer, dropped_dupes integer, dry_run boolean NOT NULL, details jsonb);
CREATE VIEW v_agent_memory AS SELECT m.agent_identity, count(*) AS memory_rows FROM memory_entries AS m
  LEFT JOIN memory_agents AS a USING (agent_identity) GROUP BY 1;
CREATE INDEX ix_memory_entries_content_fts ON memory_entries USING gin (to_tsvector('english', content));
CREATE INDEX ix_conversations_content_fts ON conversations USING gin (to_tsvector('english', content));
CREATE UNIQUE INDEX memory_entries_unique_md5 ON memory_entries (agent_identity, target, md5(content));
ALTER TABLE memory_entries DROP CONSTRAINT memory_entries_unique"""


class Predecessor:
    """Its database, and what a test puts there and asks of it."""

    def __init__(self, dsn: str, release: Release) -> None:
        self._conn = psycopg.connect(dsn, autocommit=True)
        self._conn.execute(_MAIN.encode())
        if release == "1.0.0":
            self._conn.execute(_LATER.encode())
        register_vector(self._conn)

    def memory(
        self,
        theme: str,
        content: str,
        vector: Any = None,
        *,
        target: str = "memory",
        updated: str = LATER,
        **known: Any,
    ) -> int:
        """Add a memory; its number."""
        return self._number(
            "INSERT INTO memory_entries (agent_identity, target, content, embedding, created_at, updated_at, metadata) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s) RETURNING id",
            (theme, target, content, None if vector is None else Vector(vector), AT, updated, Jsonb(known)),
        )

    def turn(
        self, theme: str, content: str, vector: Any = None, *, session: str = "s-1", role: str = "user", **known: Any
    ) -> int:
        """Add a turn; its number."""
        return self._number(
            "INSERT INTO conversations (session_id, agent_identity, role, content, ts, embedding, metadata) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s) RETURNING id",
            (session, theme, role, content, AT, None if vector is None else Vector(vector), Jsonb(known)),
        )

    def many_turns(self, count: int) -> None:
        """Add turns enough that taking them over goes in many steps."""
        self.execute(
            "INSERT INTO conversations (session_id, agent_identity, role, content) SELECT 's-many', 'marketing', "
            f"'user', 'Number ' || n || ' of what was said about the harbour' FROM generate_series(1, {count}) AS n"
        )

    def execute(self, statement: str) -> None:
        """Do something by hand."""
        self._conn.execute(statement.encode())

    def close(self) -> None:
        """Let go of the database."""
        self._conn.close()

    def _number(self, statement: str, values: tuple[Any, ...]) -> int:
        row = self._conn.execute(statement.encode(), values).fetchone()
        assert row is not None
        return int(row[0])

"""The statements that take over another program's tables; `hermes_before_upgrade` is where those stand meanwhile."""

from __future__ import annotations

from psycopg import sql

from ..domain.models import Store
from .reembed_statements import ROWS

SCHEMA = "hermes_before_upgrade"
# Its tables, and a column by which each is known: the names alone anybody could have chosen.
THEIRS = {
    "memory_entries": "content",
    "conversations": "content",
    "memory_agents": "agent_identity",
    "memory_agent_edges": "parent_identity",
    "memory_maintenance_log": "operation",
    "v_agent_memory": "agent_identity",
}
NEEDED: dict[Store, frozenset[str]] = {
    "memories": frozenset({"id", "agent_identity", "target", "content", "created_at", "updated_at", "metadata"}),
    "turns": frozenset({"id", "session_id", "agent_identity", "role", "content", "ts", "metadata"}),
}

# `dims` is NULL without vectors of pgvector's own type.
LOOK = """
SELECT c.relname AS name, c.relkind::text AS kind, pg_total_relation_size(c.oid) AS bytes,
       ARRAY(SELECT a.attname::text FROM pg_attribute AS a
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
       (SELECT a.atttypmod FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
         WHERE a.attrelid = c.oid AND a.attname = 'embedding' AND t.typname = 'vector' AND NOT a.attisdropped) AS dims
  FROM pg_class AS c
 WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s) AND c.relname = ANY (%(names)s)
   AND c.relkind IN ('r', 'p', 'v')"""

# Who may write there now.
WRITERS = """
SELECT r.rolname AS name FROM pg_roles AS r
 WHERE r.rolcanlogin AND NOT r.rolsuper AND has_table_privilege(r.oid, %s::regclass, 'INSERT')
 ORDER BY 1"""

THEMES = "SELECT DISTINCT agent_identity AS theme, metadata::jsonb ->> 'raw_identity' AS key FROM {rows}"
COUNT = "SELECT count(*) AS rows, {vectors} AS vectors FROM {rows}"
LAST_ID = (
    "SELECT greatest(coalesce(max(id), 0), coalesce(pg_sequence_last_value("
    "to_regclass(pg_get_serial_sequence({name}, 'id'))), 0))::bigint AS last FROM {rows}"
)

BEGIN = """
CREATE TABLE hermes_upgrade (
    only_row        boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    home            text NOT NULL,
    dims            integer NOT NULL,
    keeps_vectors   boolean NOT NULL,
    last_memory_id  bigint NOT NULL,
    last_turn_id    bigint NOT NULL,
    memories_done   bigint NOT NULL DEFAULT 0,
    turns_left      bigint NOT NULL,
    merged          bigint NOT NULL DEFAULT 0,
    left_out        bigint NOT NULL DEFAULT 0,
    began_at        timestamptz NOT NULL DEFAULT now(),
    opened_at       timestamptz,
    finished_at     timestamptz
);
COMMENT ON TABLE hermes_upgrade IS 'an upgrade from another program''s tables, until it is confirmed or undone';
COMMENT ON COLUMN hermes_upgrade.memories_done IS 'memories up to this id are taken over';
COMMENT ON COLUMN hermes_upgrade.turns_left IS 'turns from this id on are taken over, the newest first';
COMMENT ON COLUMN hermes_upgrade.opened_at IS 'since when agents may begin: every memory is there';
GRANT SELECT ON hermes_upgrade TO PUBLIC"""

_WHEN = "CASE WHEN o.{0} BETWEEN '0001-01-02' AND '9999-12-30' THEN o.{0} END"  # what a clock can have meant
_METADATA = (
    "CASE jsonb_typeof(o.metadata::jsonb) WHEN 'object' THEN o.metadata::jsonb WHEN 'null' THEN '{}' "
    "ELSE coalesce(nullif(jsonb_build_object('metadata', o.metadata), '{\"metadata\": null}'), '{}') END"
)
_SAYS = "o.content ~ '[^[:space:]]'"
_VECTOR = (
    "CASE WHEN vector_norm(o.embedding) = 0 THEN NULL WHEN abs(vector_norm(o.embedding) - 1) < 0.001 THEN o.embedding "
    "ELSE l2_normalize(o.embedding) END"
)

NEXT_MEMORIES = (
    "SELECT id::bigint AS id, agent_identity AS theme, metadata::jsonb ->> 'raw_identity' AS key "
    "FROM {before}.memory_entries WHERE id > %(done)s ORDER BY id LIMIT %(limit)s"
)
# Two rows may say the same in a theme, once its name is normalised:
# the first keeps its number, the fresher its metadata.
COPY_MEMORIES = f"""
WITH given AS (
    SELECT o.id::bigint AS id, place.theme, place.language, o.content, {{vector}} AS embedding,
           CASE lower(btrim(o.target)) WHEN 'user' THEN 'user' ELSE 'memory' END AS target,
           coalesce({_WHEN.format("created_at")}, {_WHEN.format("updated_at")}, now()) AS created_at,
           coalesce({_WHEN.format("updated_at")}, {_WHEN.format("created_at")}, now()) AS updated_at,
           {{metadata}} AS metadata
      FROM unnest(%(ids)s::bigint[], %(themes)s::text[], %(languages)s::text[]) AS place(id, theme, language)
      JOIN {{before}}.memory_entries AS o ON o.id = place.id
     WHERE {_SAYS}),
written AS (
    INSERT INTO memory_entries AS m
           (id, agent_identity, target, content, embedding, created_at, updated_at, metadata, text_language)
    SELECT min(id), theme, target, content, (array_agg(embedding ORDER BY id) FILTER (WHERE embedding IS NOT NULL))[1],
           min(created_at), max(updated_at), (array_agg(metadata ORDER BY updated_at DESC, id DESC))[1], min(language)
      FROM given GROUP BY theme, target, content
        ON CONFLICT (agent_identity, target, digest) DO UPDATE
       SET created_at = least(m.created_at, EXCLUDED.created_at),
           updated_at = greatest(m.updated_at, EXCLUDED.updated_at),
           metadata = CASE WHEN EXCLUDED.updated_at >= m.updated_at THEN EXCLUDED.metadata ELSE m.metadata END,
           embedding = coalesce(m.embedding, EXCLUDED.embedding)
    RETURNING m.id = ANY (%(ids)s) AS is_new)
SELECT (SELECT count(*) FROM given) AS given, (SELECT count(*) FROM written WHERE is_new) AS added"""

NEXT_TURNS = (
    "SELECT id::bigint AS id, agent_identity AS theme, metadata::jsonb ->> 'raw_identity' AS key, "
    "session_id AS session, {parent} AS parent "
    "FROM {before}.conversations WHERE id < %(left)s ORDER BY id DESC LIMIT %(limit)s"
)
COPY_TURNS = f"""
WITH given AS (
    SELECT o.id::bigint AS id, place.session, place.theme, place.language, o.content, {{vector}} AS embedding,
           coalesce({_WHEN.format("ts")}, now()) AS ts, lower(btrim(o.role)) AS role,
           {{metadata}} || jsonb_strip_nulls(jsonb_build_object('parent_session_id', place.parent)) AS metadata
      FROM unnest(%(ids)s::bigint[], %(themes)s::text[], %(languages)s::text[], %(sessions)s::text[],
                  %(parents)s::text[]) AS place(id, theme, language, session, parent)
      JOIN {{before}}.conversations AS o ON o.id = place.id
     WHERE {_SAYS}),
written AS (
    INSERT INTO conversations (id, session_id, agent_identity, role, content, ts, embedding, metadata, text_language)
    SELECT id, session, theme,
           CASE WHEN role IN ('user', 'assistant', 'system', 'tool') THEN role WHEN role = 'human' THEN 'user'
                WHEN role IN ('ai', 'model', 'agent') THEN 'assistant' ELSE 'tool' END,
           content, ts, embedding,
           CASE WHEN role IN ('user', 'assistant', 'system', 'tool') THEN metadata
                ELSE metadata || jsonb_build_object('role', role) END, language
      FROM given
    RETURNING id)
SELECT (SELECT count(*) FROM given) AS given, (SELECT count(*) FROM written) AS added"""

# What was written since: rows beyond the last number of before, and what was done to memories.
WRITTEN_SINCE = """
SELECT (SELECT count(*) FROM memory_entries WHERE id > u.last_memory_id) AS memories,
       (SELECT count(*) FROM conversations WHERE id > u.last_turn_id) AS turns,
       (SELECT count(DISTINCT memory_id) FROM memory_history
         WHERE at > u.began_at AND action <> 'added' AND memory_id <= u.last_memory_id) AS changes
  FROM hermes_upgrade AS u"""


def filled_in(statement: str, *, vectors: bool = False, parents: bool = False) -> sql.Composed:
    """`statement` with the schema of before in it, and of the columns that may be missing those that are there."""
    return sql.SQL(statement).format(
        before=sql.Identifier(SCHEMA),
        vector=sql.SQL(_VECTOR if vectors else "NULL::vector"),
        metadata=sql.SQL(_METADATA),
        parent=sql.SQL("parent_session_id" if parents else "NULL::text"),
    )


def of_rows(statement: str, schema: str, store: Store, *, vectors: bool = False) -> sql.Composed:
    """`statement` about one of its tables, in `schema`."""
    return sql.SQL(statement).format(
        rows=sql.Identifier(schema, ROWS[store]),
        name=sql.Literal(f'"{schema}".{ROWS[store]}'),
        vectors=sql.SQL("count(embedding)" if vectors else "0"),
    )

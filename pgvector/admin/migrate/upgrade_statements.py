"""The statements that take over another program's tables; `hermes_before_upgrade` is where those stand meanwhile."""

from __future__ import annotations

from psycopg import sql

from ...domain.types import Store
from ...store.sql import query
from ..common.vector_statements import ROWS

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

_VECTOR = (
    "CASE WHEN vector_norm(o.embedding) = 0 THEN NULL WHEN abs(vector_norm(o.embedding) - 1) < 0.001 THEN o.embedding "
    "ELSE l2_normalize(o.embedding) END"
)


def filled_in(name: str, *, vectors: bool = False, parents: bool = False) -> sql.Composed:
    """Return the named statement, with those of the optional columns that the old tables have."""
    return sql.SQL(query(name, package=__package__).decode()).format(
        vector=sql.SQL(_VECTOR if vectors else "NULL::vector"),
        parent=sql.SQL("parent_session_id" if parents else "NULL::text"),
    )


def of_rows(statement: str, schema: str, store: Store, *, vectors: bool = False) -> sql.Composed:
    """`statement` about one of its tables, in `schema`."""
    return sql.SQL(statement).format(
        rows=sql.Identifier(schema, ROWS[store]),
        name=sql.Literal(f'"{schema}".{ROWS[store]}'),
        vectors=sql.SQL("count(embedding)" if vectors else "0"),
    )

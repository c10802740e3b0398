-- Reads other programs' tables, in a read-only transaction on a separate connection whose search_path is the source's
-- schema. No table of ours is there: ForeignDatabase rejects a schema that holds them.

-- name: foreign_schema
-- exempt: touches no stored text.
SELECT set_config('search_path', quote_ident(%(schema)s::text), true);

-- name: foreign_columns
-- exempt: the catalogue of another program's database.
SELECT column_name FROM information_schema.columns
 WHERE table_schema = %(schema)s AND table_name = %(table)s;

-- name: foreign_count
-- exempt: another program's table, the planner's estimate of its rows.
SELECT greatest(reltuples, 0)::bigint AS count FROM pg_class
 WHERE oid = to_regclass(quote_ident(%(schema)s) || '.' || quote_ident(%(table)s));

-- name: predecessor_memories
-- exempt: another program's table.
SELECT id, agent_identity, target, content, created_at, updated_at, metadata FROM memory_entries ORDER BY id;

-- name: predecessor_turns
-- exempt: another program's table.
SELECT id, session_id, agent_identity, role, content, ts, metadata, parent_session_id FROM conversations
 ORDER BY agent_identity, session_id, id;

-- name: predecessor_turns_without_parents
-- exempt: another program's table.
SELECT id, session_id, agent_identity, role, content, ts, metadata, NULL AS parent_session_id FROM conversations
 ORDER BY agent_identity, session_id, id;

-- name: mem0_points
-- exempt: another program's table.
SELECT id, payload FROM {table} ORDER BY id;

-- name: hindsight_documents
-- exempt: another program's table.
SELECT id, bank_id, original_text, created_at, updated_at, retain_params, tags FROM documents
 WHERE %(bank)s::text IS NULL OR bank_id = %(bank)s
 ORDER BY created_at, id;

-- name: hindsight_facts
-- exempt: another program's tables. `copied`: the text is a verbatim part of its document.
SELECT u.id, u.bank_id, u.text, u.context, u.fact_type, u.metadata, u.event_date, u.mentioned_at, u.created_at, u.updated_at,
       coalesce(position(u.text IN d.original_text) > 0, false) AS copied
  FROM memory_units AS u LEFT JOIN documents AS d ON d.id = u.document_id AND d.bank_id = u.bank_id
 WHERE %(bank)s::text IS NULL OR u.bank_id = %(bank)s
 ORDER BY u.created_at, u.id;

-- Copies rows of another program's tables, kept in the schema hermes_before_upgrade, into ours; run by an administrator.
-- {vector} and {parent} are columns that the old tables may lack. Times that no clock can have meant are replaced.

-- name: next_old_memories
-- exempt: another program's table; returns ids and theme names.
SELECT id::bigint AS id, agent_identity AS theme, metadata::jsonb ->> 'raw_identity' AS key
  FROM hermes_before_upgrade.memory_entries WHERE id > %(done)s ORDER BY id LIMIT %(limit)s;

-- name: copy_old_memories
-- Once theme names are normalised, two rows of a theme may be equal: the first one's id is kept, the newer one's metadata.
WITH given AS (
    SELECT o.id::bigint AS id, place.agent_identity, place.language, o.content, {vector} AS embedding,
           CASE lower(btrim(o.target)) WHEN 'user' THEN 'user' ELSE 'memory' END AS target,
           CASE WHEN o.created_at BETWEEN '0001-01-02' AND '9999-12-30' THEN o.created_at END AS created_at,
           CASE WHEN o.updated_at BETWEEN '0001-01-02' AND '9999-12-30' THEN o.updated_at END AS updated_at,
           CASE WHEN jsonb_typeof(o.metadata::jsonb) = 'object' THEN o.metadata::jsonb
                WHEN o.metadata IS NULL OR jsonb_typeof(o.metadata::jsonb) = 'null' THEN jsonb_build_object()
                ELSE jsonb_build_object('metadata', o.metadata) END AS metadata
      FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS old(id, number)
      JOIN unnest(%(themes)s::text[], %(languages)s::text[]) WITH ORDINALITY AS place(agent_identity, language, number)
           USING (number)
      JOIN hermes_before_upgrade.memory_entries AS o ON o.id = old.id
     WHERE o.content ~ '[^[:space:]]'),
written AS (
    INSERT INTO memory_entries AS m
           (id, agent_identity, target, content, embedding, created_at, updated_at, metadata, text_language)
    SELECT min(id), agent_identity, target, content,
           (array_agg(embedding ORDER BY id) FILTER (WHERE embedding IS NOT NULL))[1],
           coalesce(min(created_at), min(updated_at), now()), coalesce(max(updated_at), max(created_at), now()),
           (array_agg(metadata ORDER BY updated_at DESC NULLS LAST, id DESC))[1], min(language)
      FROM given GROUP BY agent_identity, target, content
        ON CONFLICT (agent_identity, target, digest) DO UPDATE
       SET created_at = least(m.created_at, EXCLUDED.created_at),
           updated_at = greatest(m.updated_at, EXCLUDED.updated_at),
           metadata = CASE WHEN EXCLUDED.updated_at >= m.updated_at THEN EXCLUDED.metadata ELSE m.metadata END,
           embedding = coalesce(m.embedding, EXCLUDED.embedding)
    RETURNING m.id = ANY (%(ids)s) AS is_new)
SELECT (SELECT count(*) FROM given) AS given, (SELECT count(*) FROM written WHERE is_new) AS added;

-- name: next_old_turns
-- exempt: as next_old_memories.
SELECT id::bigint AS id, agent_identity AS theme, metadata::jsonb ->> 'raw_identity' AS key, session_id AS session,
       {parent} AS parent
  FROM hermes_before_upgrade.conversations WHERE id < %(left)s ORDER BY id DESC LIMIT %(limit)s;

-- name: copy_old_turns
WITH given AS (
    SELECT o.id::bigint AS id, place.session_id, place.agent_identity, place.language, o.content, {vector} AS embedding,
           CASE WHEN o.ts BETWEEN '0001-01-02' AND '9999-12-30' THEN o.ts ELSE now() END AS ts, lower(btrim(o.role)) AS role,
           CASE WHEN jsonb_typeof(o.metadata::jsonb) = 'object' THEN o.metadata::jsonb
                WHEN o.metadata IS NULL OR jsonb_typeof(o.metadata::jsonb) = 'null' THEN jsonb_build_object()
                ELSE jsonb_build_object('metadata', o.metadata) END
           || jsonb_strip_nulls(jsonb_build_object('parent_session_id', place.parent)) AS metadata
      FROM unnest(%(ids)s::bigint[]) WITH ORDINALITY AS old(id, number)
      JOIN unnest(%(themes)s::text[], %(languages)s::text[], %(sessions)s::text[], %(parents)s::text[])
           WITH ORDINALITY AS place(agent_identity, language, session_id, parent, number) USING (number)
      JOIN hermes_before_upgrade.conversations AS o ON o.id = old.id
     WHERE o.content ~ '[^[:space:]]'),
written AS (
    INSERT INTO conversations (id, session_id, agent_identity, role, content, ts, embedding, metadata, text_language)
    SELECT id, session_id, agent_identity,
           CASE WHEN role IN ('user', 'assistant', 'system', 'tool') THEN role WHEN role = 'human' THEN 'user'
                WHEN role IN ('ai', 'model', 'agent') THEN 'assistant' ELSE 'tool' END,
           content, ts, embedding,
           CASE WHEN role IN ('user', 'assistant', 'system', 'tool') THEN metadata
                ELSE metadata || jsonb_build_object('role', role) END, language
      FROM given
    RETURNING id)
SELECT (SELECT count(*) FROM given) AS given, (SELECT count(*) FROM written) AS added;

-- name: written_since_upgrade
-- exempt: counts for the operator: rows with ids above the last old one, and changes of old memories.
SELECT (SELECT count(*) FROM memory_entries WHERE id > u.last_memory_id) AS memories,
       (SELECT count(*) FROM conversations WHERE id > u.last_turn_id) AS turns,
       (SELECT count(DISTINCT memory_id) FROM memory_history
         WHERE at > u.began_at AND action <> 'added' AND memory_id <= u.last_memory_id) AS changes
  FROM hermes_upgrade AS u;

-- name: old_relations
-- exempt: reads the catalogue only. `dims` is NULL if the table has no column of pgvector's type vector.
SELECT c.relname AS name, c.relkind::text AS kind, pg_total_relation_size(c.oid) AS bytes,
       ARRAY(SELECT a.attname::text FROM pg_attribute AS a
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
       (SELECT a.atttypmod FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
         WHERE a.attrelid = c.oid AND a.attname = 'embedding' AND t.typname = 'vector' AND NOT a.attisdropped) AS dims
  FROM pg_class AS c
 WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s) AND c.relname = ANY (%(names)s)
   AND c.relkind IN ('r', 'p', 'v');

-- name: old_writers
-- exempt: reads the catalogue only. The roles that may write to the table.
SELECT r.rolname AS name FROM pg_roles AS r
 WHERE r.rolcanlogin AND NOT r.rolsuper AND has_table_privilege(r.oid, %(table)s::regclass, 'INSERT')
 ORDER BY 1;

-- name: old_themes
-- exempt: names for the operator.
SELECT DISTINCT agent_identity AS theme, metadata::jsonb ->> 'raw_identity' AS key FROM {rows};

-- name: count_old_rows
-- exempt: counts for the operator.
SELECT count(*) AS rows, {vectors} AS vectors FROM {rows};

-- name: last_old_id
-- exempt: the highest id only.
SELECT greatest(coalesce(max(id), 0),
                coalesce(pg_sequence_last_value(to_regclass(pg_get_serial_sequence({name}, 'id'))), 0))::bigint AS last
  FROM {rows};

-- name: begin_upgrade
-- exempt: only the catalogue changes.
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
GRANT SELECT ON hermes_upgrade TO PUBLIC;

-- name: note_upgrade
-- exempt: numbers for the operator.
INSERT INTO hermes_upgrade (home, dims, keeps_vectors, last_memory_id, last_turn_id, turns_left)
VALUES (%(home)s, %(dims)s, %(keeps_vectors)s, %(memories)s, %(turns)s, %(turns)s + 1);

-- name: go_on_with_ids
-- exempt: numbers only. Our ids continue after the old ones.
SELECT setval('memory_entries_id_seq', greatest(%(memories)s, 1), %(memories)s > 0) AS memories,
       setval('conversations_id_seq', greatest(%(turns)s, 1), %(turns)s > 0) AS turns;

-- name: drop_hnsw_indexes
-- exempt: only the catalogue changes. The indexes are built faster after the copy.
DROP INDEX IF EXISTS memory_entries_embedding_idx, conversations_embedding_idx;

-- name: note_old_memories
-- exempt: numbers for the operator.
UPDATE hermes_upgrade SET memories_done = %(last)s, merged = merged + %(merged)s, left_out = left_out + %(left_out)s;

-- name: note_old_turns
-- exempt: numbers for the operator.
UPDATE hermes_upgrade SET turns_left = %(last)s, left_out = left_out + %(left_out)s;

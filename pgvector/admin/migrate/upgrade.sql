-- Rows of another program's tables, which stand in the schema hermes_before_upgrade, into ours. An administrator's.
-- {vector} and {parent} are the columns that may be missing there. Times are those that a clock can have meant.

-- name: next_old_memories
-- exempt: another program's table, numbers and names of themes.
SELECT id::bigint AS id, agent_identity AS theme, metadata::jsonb ->> 'raw_identity' AS key
  FROM hermes_before_upgrade.memory_entries WHERE id > %(done)s ORDER BY id LIMIT %(limit)s;

-- name: copy_old_memories
-- Two rows may say the same in a theme, once its name is normalised: the first keeps its number, the fresher its metadata.
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
-- exempt: counts for the operator: rows beyond the last number of before, and what was done to memories.
SELECT (SELECT count(*) FROM memory_entries WHERE id > u.last_memory_id) AS memories,
       (SELECT count(*) FROM conversations WHERE id > u.last_turn_id) AS turns,
       (SELECT count(DISTINCT memory_id) FROM memory_history
         WHERE at > u.began_at AND action <> 'added' AND memory_id <= u.last_memory_id) AS changes
  FROM hermes_upgrade AS u;

-- Rows by their ids, and the turns of a session.

-- name: rows_of_memories
-- exempt: rows by the numbers that an operator names.
SELECT id, agent_identity AS theme, target AS kind, updated_at AS at, content FROM memory_entries
 WHERE id = ANY(%(ids)s) ORDER BY id;

-- name: rows_of_turns
-- exempt: rows by the numbers that an operator names.
SELECT id, agent_identity AS theme, role AS kind, ts AS at, content FROM conversations WHERE id = ANY(%(ids)s) ORDER BY id;

-- name: beside_memories
-- exempt: rows by the numbers that an operator names, no stored text. Shows what a search's result lacks; for a very
-- long text the size in bytes instead of characters, which is known without reading the text.
SELECT id, CASE WHEN octet_length(content) > 100000 THEN octet_length(content) ELSE length(content) END AS chars,
       embedding IS NULL AND sig IS NULL AS pending, created_at, metadata ->> 'source' AS source
  FROM memory_entries WHERE id = ANY(%(ids)s);

-- name: beside_turns
-- exempt: as beside_memories.
SELECT id, CASE WHEN octet_length(content) > 100000 THEN octet_length(content) ELSE length(content) END AS chars,
       embedding IS NULL AND sig IS NULL AS pending, ts AS created_at, metadata ->> 'source' AS source
  FROM conversations WHERE id = ANY(%(ids)s);

-- name: structures
-- exempt: rows by the numbers that an operator names. What memories record besides their text, for those that record
-- anything. What took the place of a memory that holds again is its predecessor now.
SELECT m.id, m.kind, m.subject, m.scope, m.state, m.expires_at, m.confidence, m.sources, m.applies_when AS when,
       nullif(m.pinned, false) AS pinned, m.replaces, max(successor.id) AS replaced_by
  FROM memory_entries AS m
  LEFT JOIN memory_entries AS successor
         ON successor.agent_identity = m.agent_identity AND successor.replaces = m.id AND m.state IN ('superseded', 'archived')
 WHERE m.id = ANY(%(ids)s)
   AND (m.kind IS NOT NULL OR m.state IS NOT NULL OR m.scope IS NOT NULL OR m.expires_at IS NOT NULL OR m.confidence IS NOT NULL
        OR m.sources IS NOT NULL OR m.applies_when IS NOT NULL OR m.pinned OR m.replaces IS NOT NULL)
 GROUP BY m.id, m.agent_identity ORDER BY m.id;

-- name: session_themes_of_turns
-- exempt: names for the operator, no stored text. Two keys of the API server may have given sessions the same name.
SELECT agent_identity AS theme, count(*) AS rows FROM conversations WHERE session_id = %(session_id)s GROUP BY 1 ORDER BY 1;

-- name: session_themes_of_memories
-- exempt: as session_themes_of_turns. Of a chat, memories and turns may be in different themes.
SELECT agent_identity AS theme, count(*) AS rows FROM memory_entries
 WHERE metadata ->> 'session_id' = %(session_id)s GROUP BY 1 ORDER BY 1;

-- name: session_themes_of_history
-- exempt: as session_themes_of_turns.
SELECT agent_identity AS theme, count(*) AS rows FROM memory_history
 WHERE who ->> 'session_id' = %(session_id)s GROUP BY 1 ORDER BY 1;

-- name: private_memories
-- exempt: rows by the numbers that an operator names. The rows that no session of another theme may read.
SELECT m.id FROM memory_entries AS m WHERE m.id = ANY(%(ids)s) AND NOT readable(m);

-- name: private_turns
-- exempt: as private_memories.
SELECT c.id FROM conversations AS c WHERE c.id = ANY(%(ids)s) AND NOT readable(c);

-- name: forget_kept
-- Clears the texts of removed memories.
UPDATE memory_history SET old_content = NULL, old_row = NULL
 WHERE agent_identity = %(theme)s AND old_content = ANY(%(contents)s);

-- name: forget_session
DELETE FROM conversations WHERE agent_identity = %(theme)s AND session_id = %(session_id)s;

-- Rows by their number, and the turns of a session.

-- name: rows_of_memories
-- exempt: rows by the numbers that an operator names.
SELECT id, agent_identity AS theme, target AS kind, updated_at AS at, content FROM memory_entries
 WHERE id = ANY(%(ids)s) ORDER BY id;

-- name: rows_of_turns
-- exempt: rows by the numbers that an operator names.
SELECT id, agent_identity AS theme, role AS kind, ts AS at, content FROM conversations WHERE id = ANY(%(ids)s) ORDER BY id;

-- name: session_themes
-- exempt: names for the operator, no stored text. Two keys of the API server may have given a session one name.
SELECT agent_identity AS theme, count(*) AS turns FROM conversations WHERE session_id = %(session_id)s GROUP BY 1 ORDER BY 1;

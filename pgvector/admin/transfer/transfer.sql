-- Queries of an import other than those of the rows themselves.

-- name: said_in_session
SELECT DISTINCT role, content FROM conversations WHERE agent_identity = %(theme)s AND session_id = %(session_id)s;

-- name: noted_entries
-- exempt: digests of this host's own file. When each entry was last read, and whether only sessions of other themes
-- wrote it.
SELECT target, digest, max(noted_at) AS noted_at, bool_and(agent_identity <> %(theme)s) AS elsewhere FROM hermes_mirror
 WHERE origin = %(origin)s
 GROUP BY target, digest;

-- name: removed_elsewhere
-- How many memories bury_removed would remove.
SELECT count(*) AS count
  FROM memory_entries AS m
 CROSS JOIN unnest(%(targets)s::text[], %(digests)s::bytea[], %(times)s::timestamptz[], %(origins)s::text[])
       AS given(target, digest, removed_at, origin)
 WHERE removed_at_origin();

-- name: highest_numbers
WITH meant AS (SELECT unnest(%(themes)s::text[]) AS theme)
SELECT greatest((SELECT max(id) FROM memory_entries WHERE agent_identity IN (SELECT theme FROM meant)),
                (SELECT max(memory_id) FROM memory_history WHERE agent_identity IN (SELECT theme FROM meant))) AS memories,
       (SELECT max(id) FROM conversations WHERE agent_identity IN (SELECT theme FROM meant)) AS turns;

-- name: new_numbers
-- exempt: numbers for rows to come, no stored text.
SELECT nextval(%(sequence)s::regclass) AS id FROM generate_series(1, %(count)s);

-- name: draw_numbers
-- exempt: numbers for rows to come, no stored text.
SELECT max(nextval(%(sequence)s::regclass)) AS last FROM generate_series(1, %(count)s);

-- name: numbers_noted
-- exempt: numbers, no stored text. What earlier copies from a source have drawn for its rows.
SELECT arguments -> 'numbers' AS numbers FROM hermes_maintenance
 WHERE verb = 'copy' AND arguments ->> 'source' = %(source)s AND arguments ? 'numbers';

-- name: used_numbers_memories
-- exempt: which of these numbers any memory has, no stored text.
SELECT id FROM memory_entries WHERE id = ANY(%(ids)s);

-- name: used_numbers_turns
-- exempt: which of these numbers any turn has, no stored text.
SELECT id FROM conversations WHERE id = ANY(%(ids)s);
